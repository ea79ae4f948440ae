"""The fleet: member clusters, GPU models, nodes, and who is who there."""

from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from kit.ids import new_id
from tenancy.models import User
from tenancy.models.access import NAME


class Flavor(models.Model):
    """A GPU model in the catalogue."""

    name = models.CharField(max_length=63, primary_key=True, validators=[NAME])
    vendor = models.CharField(max_length=63, blank=True)
    memory_gb = models.PositiveIntegerField(default=0)
    bf16_tflops = models.PositiveIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class Members(models.Manager["Cluster"]):
    """The clusters that are members now. One that left is found by its rows alone."""

    def get_queryset(self) -> models.QuerySet["Cluster"]:
        """All but those that are gone."""
        return super().get_queryset().exclude(state=Cluster.State.GONE)


class Cluster(models.Model):
    """A member cluster: where it is, how it is spoken to, and whether it takes new work.

    `options` are the admin's settings for the backend, strings by name. `tiers` are the cluster's
    own tier names, widest first, mapped to the federation's: `[["spine0", "spine"], ...]`.
    `secret` is encrypted (`kit.crypto`) and never shown. `revision` counts configuration changes
    and changes of what was seen, for the arbiter's compare-and-set.

    `calls_at_once` and `calls_per_s` bound how hard it is called; None = the setting
    MUSTER_CALLS_AT_ONCE, and no limit a second. `leave_plan` is set while it is leaving. `rebuilt_at` is when it was last seen
    to have forgotten all it knew.
    """

    class State(models.TextChoices):
        """Whether new work may go there.

        Draining: attempts that wait for the cluster may still start; nothing new is bound.
        Cut off: the same, and orders to submit that were not sent yet are taken back.
        Gone: it left. The row stays, because attempts and the ledger point at it.
        """

        ACTIVE = "active"
        DRAINING = "draining"
        CUT_OFF = "cut_off"
        GONE = "gone"

    class LeavePlan(models.TextChoices):
        """What becomes of the attempts there when a cluster leaves."""

        CANCEL = "cancel"
        FORGET = "forget"

    objects: ClassVar[models.Manager["Cluster"]] = Members()
    everything: ClassVar[models.Manager["Cluster"]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.CharField(max_length=63, validators=[NAME])
    title = models.CharField(max_length=200, blank=True)
    backend = models.CharField(max_length=16, choices=[("slurm", "Slurm"), ("volcano", "Volcano")])
    endpoint = models.URLField(max_length=500)
    secret = models.BinaryField(blank=True, default=bytes)
    account = models.CharField(
        max_length=63, default="slurm", help_text="The account that observes and administers."
    )
    options = models.JSONField(default=dict, blank=True)
    stores = ArrayField(models.CharField(max_length=63), default=list, blank=True)
    state = models.CharField(max_length=16, choices=State, default=State.ACTIVE)
    leave_plan = models.CharField(
        max_length=16, choices=LeavePlan, blank=True, default="", db_default="", editable=False
    )
    leave_why = models.TextField(blank=True, default="", db_default="", editable=False)
    left_at = models.DateTimeField(null=True, editable=False)
    rebuilt_at = models.DateTimeField(null=True, editable=False)
    calls_at_once = models.PositiveSmallIntegerField(null=True, blank=True)
    calls_per_s = models.PositiveIntegerField(null=True, blank=True)
    capabilities = models.JSONField(default=dict, editable=False)
    probe = models.JSONField(default=dict, editable=False)
    last_seen_at = models.DateTimeField(null=True, editable=False)
    clock_skew_ms = models.IntegerField(default=0, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    failure = models.TextField(blank=True, editable=False)
    revision = models.BigIntegerField(default=1, editable=False)

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["name"], condition=~models.Q(state="gone"), name="cluster_name_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def is_silent(self, since: datetime) -> bool:
        """Whether nothing was read of it since; nothing new is bound to a silent cluster."""
        return self.last_seen_at is None or self.last_seen_at <= since


class ClusterFlavor(models.Model):
    """What a GPU model is called on a cluster (GRES type) and which member queue serves it."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="flavors")
    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="clusters")
    device = models.CharField(max_length=253)
    queue = models.CharField(max_length=63, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "flavor"], name="cluster_flavor_once"),
            models.UniqueConstraint(fields=["cluster", "device"], name="cluster_device_once"),
        ]

    def __str__(self) -> str:
        return f"{self.flavor_id} as {self.device}"


class ClusterAccount(models.Model):
    """A person's UNIX account or namespace on a cluster; jobs run as it, or in it.

    `run_as` are the numbers of user and group (`2001:3000`) of containers; "" = the image's own.
    """

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="accounts")
    user = models.ForeignKey(User, models.CASCADE, related_name="cluster_accounts")
    account = models.CharField(max_length=63)
    home = models.CharField(max_length=500, blank=True)
    run_as = models.CharField(max_length=32, blank=True, default="", db_default="")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "user"], name="cluster_account_once"),
        ]

    def __str__(self) -> str:
        return f"{self.account} on {self.cluster_id}"


class Node(models.Model):
    """A node as last seen. `path` holds [tier, domain] pairs, widest first, federation tiers.

    `foreign_*` is what jobs that are not ours hold there.
    """

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=253)
    state = models.CharField(max_length=16)
    reason = models.TextField(blank=True)
    device = models.CharField(max_length=253, blank=True)
    gpus = models.PositiveIntegerField()
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveBigIntegerField()
    path = models.JSONField(default=list)
    queues = ArrayField(models.CharField(max_length=253), default=list)
    foreign_gpus = models.PositiveIntegerField(default=0)
    foreign_cpus = models.PositiveIntegerField(default=0)
    foreign_memory_mib = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["cluster", "name"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="node_once"),
        ]

    def __str__(self) -> str:
        return self.name

"""The arbiter's term and what its cycles decided."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from clusters.models import Cluster, Flavor
from federation.models.jobs import CLASSES, Job


class ArbiterTerm(models.Model):
    """One row. Each leader raises `epoch`; `commit_plan` locks the row and requires its own.

    `queue` is the order of what waits, as of `told_at`; it last changed at `ranked_at`.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    epoch = models.BigIntegerField(default=0)
    queue = ArrayField(models.BigIntegerField(), default=list)
    ranked_at = models.DateTimeField(null=True)
    cycled_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(id=1), name="one_term_row"),
        ]

    def __str__(self) -> str:
        return f"epoch {self.epoch}"


class Reservation(models.Model):
    """Nodes kept for a waiting job until a deadline; what is to leave them was told so."""

    job = models.OneToOneField(Job, models.CASCADE, related_name="reservation")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="+")
    service_class = models.CharField(max_length=16, choices=CLASSES[:2])
    nodes = ArrayField(models.CharField(max_length=253))
    claimed_at = models.DateTimeField()
    deadline_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{len(self.nodes)} nodes of {self.cluster_id} for job {self.job_id}"


class Decision(models.Model):
    """What one cycle bound, and on what: kept when something was bound or refused at commit."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    epoch = models.BigIntegerField()
    waiting = models.PositiveIntegerField()
    bound = models.JSONField()
    stale = models.JSONField(default=list)
    took_ms = models.PositiveIntegerField()

    class Meta:
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"decision {self.id}"

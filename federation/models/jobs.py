"""Jobs and their attempts."""

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from clusters.models import Cluster, Flavor
from federation.core.lifecycle import JobState
from kit.ids import new_id
from tenancy.models import Tenant, User

STATES = [(state.value, state.value) for state in JobState]
CLASSES = [("guaranteed", "guaranteed"), ("spot", "spot"), ("auto", "auto")]
WAITING = Q(state=JobState.QUEUED.value)
ACTIVE = Q(
    state__in=[
        state.value
        for state in (
            JobState.DISPATCHING,
            JobState.PENDING,
            JobState.RUNNING,
            JobState.STOPPING,
            JobState.UNKNOWN,
        )
    ]
)


_WORDS = ArrayField(models.CharField(max_length=257))


def script_only() -> list[str]:
    """The forms of a job of before there were others."""
    return ["script"]


class Job(models.Model):
    """One gang as its user asked for it.

    What deciding reads lies in columns; `spec` (the whole parsed body) is read when an attempt is
    made. `options` are the acceptable flavors in order, each with the gang it would take:
    `[{"flavor", "nodes", "gpus_per_node", "cpus_per_node", "memory_mib_per_node"}]`.
    `version` is compared when a plan commits. `saved_step` and `saved_at` are the newest checkpoint
    that any of its attempts proved (null = none).
    """

    id = models.BigAutoField(primary_key=True)
    uuid = models.UUIDField(unique=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="jobs")
    user = models.ForeignKey(User, models.PROTECT, related_name="jobs")
    name = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=16, choices=STATES, default=JobState.QUEUED.value)
    held_by = models.CharField(max_length=16, blank=True)
    hold_asked_by = models.CharField(max_length=16, blank=True)
    wanted_class = models.CharField(max_length=16, choices=CLASSES)
    class_now = models.CharField(max_length=16, blank=True)
    priority = models.PositiveSmallIntegerField()
    prefer = models.CharField(max_length=16, default="order")
    options = models.JSONField()
    exclusive = models.BooleanField(default=False)
    required_tier = models.CharField(max_length=16, blank=True)
    preferred_tier = models.CharField(max_length=16, blank=True)
    time_limit_ms = models.BigIntegerField()
    start_timeout_ms = models.BigIntegerField()
    max_restarts = models.PositiveSmallIntegerField()
    stores = ArrayField(models.CharField(max_length=63), default=list)
    forms = ArrayField(
        models.CharField(max_length=16),
        default=script_only,
        db_default=models.Value(["script"], _WORDS),
    )
    claims = ArrayField(
        models.CharField(max_length=257), default=list, db_default=models.Value([], _WORDS)
    )
    only_clusters = ArrayField(models.CharField(max_length=63), default=list)
    avoid_clusters = ArrayField(models.CharField(max_length=63), default=list)
    avoid_nodes = ArrayField(models.CharField(max_length=317), default=list)
    not_before = models.DateTimeField(null=True)
    labels = models.JSONField(default=dict)
    spec = models.JSONField()
    submitted_at = models.DateTimeField()
    queued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    cancel_asked_at = models.DateTimeField(null=True)
    attempts_made = models.PositiveSmallIntegerField(default=0)
    restarts = models.PositiveSmallIntegerField(default=0)
    outcome = models.TextField(blank=True)
    saved_step = models.BigIntegerField(null=True)
    saved_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-id"], name="job_tenant"),
            models.Index(fields=["state", "-id"], name="job_state"),
            models.Index(fields=["id"], name="job_waiting", condition=WAITING),
            models.Index(fields=["id"], name="job_active", condition=ACTIVE),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in JobState]), name="job_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="held", held_by__gt="") | (~Q(state="held") & Q(held_by="")),
                name="job_held_by",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.uuid} {self.state}"

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """Why it waits, as the last cycle said; [] when none has looked at it as it is now."""
        telling: Telling | None = getattr(self, "telling", None)
        if telling is None or telling.version != self.version:
            return []
        reasons: list[dict[str, Any]] = telling.reasons
        return reasons


class Telling(models.Model):
    """Why a job waits, as the last cycle told it: true of the `version` of the job that it names.

    Rewritten about once a second, so it lies beside the job and names it by value: a row is small,
    and telling neither locks nor rewrites the job.
    """

    job = models.OneToOneField(
        Job, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="telling"
    )
    version = models.PositiveIntegerField()
    reasons = models.JSONField()

    def __str__(self) -> str:
        return f"job {self.job_id} version {self.version}"


class Attempt(models.Model):
    """One binding of a job to one cluster: one run there, under one fence, never reused.

    `evict_asked_at` is set when it was told to go: for which job, why, and until when it may save.

    A job has at most one attempt that is not over (a partial unique index holds that). `end_cause`
    is set when we decide to stop it or when it ended. `runs` is what accounting was told: its stays
    on nodes as [start ms, end ms or null, GPUs], on the cluster's clock. `saved_*` is the newest
    checkpoint it proved; `signal_asked_at` is when it was last asked to save one.
    """

    class State(models.TextChoices):
        """Where the attempt stands; `stopping` is on the way to `ended`."""

        DISPATCHING = "dispatching"
        PENDING = "pending"
        RUNNING = "running"
        STOPPING = "stopping"
        ENDED = "ended"
        LOST = "lost"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    job = models.ForeignKey(Job, models.PROTECT, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    fence = models.CharField(max_length=40, unique=True)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="attempts")
    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="+")
    service_class = models.CharField(max_length=16, choices=CLASSES[:2])
    nodes = ArrayField(models.CharField(max_length=253))
    gpus_per_node = models.PositiveIntegerField()
    cpus_per_node = models.PositiveIntegerField()
    memory_mib_per_node = models.PositiveBigIntegerField()
    exclusive = models.BooleanField()
    tier = models.CharField(max_length=16)
    tier_seen = models.CharField(max_length=16, blank=True)
    nodes_seen = ArrayField(models.CharField(max_length=253), default=list)
    account = models.CharField(max_length=63)
    state = models.CharField(max_length=16, choices=State, default=State.DISPATCHING)
    backend_id = models.CharField(max_length=253, blank=True)
    backend_state = models.CharField(max_length=32, blank=True)
    backend_reason = models.TextField(blank=True)
    bound_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    end_cause = models.CharField(max_length=63, blank=True)
    exit_code = models.IntegerField(null=True)
    runs = models.JSONField(default=list)
    saved_step = models.BigIntegerField(null=True)
    saved_at = models.DateTimeField(null=True)
    saved_path = models.TextField(blank=True, default="", db_default="")
    signal_asked_at = models.DateTimeField(null=True)
    evict_for = models.BigIntegerField(null=True)
    evict_cause = models.CharField(max_length=63, blank=True, default="", db_default="")
    evict_asked_at = models.DateTimeField(null=True)
    evict_by = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["job", "number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once"),
            models.UniqueConstraint(
                fields=["job"], name="one_open_attempt", condition=~Q(state="ended")
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster"], name="attempt_open", condition=~Q(state="ended")),
        ]

    def __str__(self) -> str:
        return self.fence

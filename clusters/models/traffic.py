"""Traffic with member clusters: what was ordered (outbox), by whom (lease), what was seen."""

from typing import ClassVar

from django.db import models

from clusters.models.fleet import Cluster


class Command(models.Model):
    """One order to a cluster, written in the decision's transaction, delivered by a worker.

    `key` names the order (`submit:<attempt id>`), so that ordering twice is ordering once.
    `sent` without an answer is ambiguous: the backend is asked before it is told again.
    `answered_ms` is our clock; an absence proves something only in observations begun after it.
    """

    class Kind(models.TextChoices):
        """What is ordered; delivered in the order cancel, signal, submit."""

        CANCEL = "cancel"
        SIGNAL = "signal"
        SUBMIT = "submit"

    class State(models.TextChoices):
        """Where the order stands."""

        WAITING = "waiting"
        SENT = "sent"
        DONE = "done"
        REJECTED = "rejected"
        DROPPED = "dropped"

    id = models.BigAutoField(primary_key=True)
    key = models.CharField(max_length=127, unique=True)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="commands")
    kind = models.CharField(max_length=16, choices=Kind)
    fence = models.CharField(max_length=40)
    payload = models.JSONField()
    state = models.CharField(max_length=16, choices=State, default=State.WAITING)
    created_at = models.DateTimeField()
    not_before = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    lease_epoch = models.BigIntegerField(null=True)
    tries = models.PositiveIntegerField(default=0)
    answered_at = models.DateTimeField(null=True)
    answer = models.JSONField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            models.Index(
                fields=["cluster", "not_before"],
                name="command_due",
                condition=models.Q(state__in=["waiting", "sent"]),
            ),
            models.Index(fields=["fence"], name="command_fence"),
        ]

    def __str__(self) -> str:
        return f"{self.key} {self.state}"


class Lease(models.Model):
    """Who may deliver to (`dispatch`) or read (`observe`) a cluster now. `epoch` fences results.

    It is the breaker as well: after `failures` failures in a row it stays taken for the back-off.
    """

    class Kind(models.TextChoices):
        """One lease a cluster and kind, so that a hung read never stops a submit."""

        DISPATCH = "dispatch"
        OBSERVE = "observe"

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="leases")
    kind = models.CharField(max_length=16, choices=Kind)
    holder = models.CharField(max_length=127, blank=True)
    epoch = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField()
    failures = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "kind"], name="lease_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.cluster_id} {self.epoch}"


class Observation(models.Model):
    """The newest reading of a cluster; a reading begun earlier never replaces a later one.

    `gangs` holds what bears our fences (see `clusters.core.observation.GangSeen`), with `v`;
    `namesakes` what is named so and bears no mark.
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="observation")
    begun_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    accounting_answered = models.BooleanField()
    gangs = models.JSONField()
    namesakes = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    queues = models.JSONField()
    reservations = models.JSONField()
    foreign_running = models.PositiveIntegerField(default=0)
    foreign_pending = models.PositiveIntegerField(default=0)
    foreign_pending_gpus = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.cluster_id} at {self.begun_at}"

"""Policies on past work: what was asked, how far it is, what came of it."""

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from kit.ids import new_id
from tenancy.models import User


class Simulation(models.Model):
    """The jobs of [from_at, until_at) once more, under one table of quotas or two.

    `quotas` and `against` are the tables as asked, in YAML; "" in `against` = there is no second.
    `progress` is in whole per cent. Who works on it holds it until `lease_until`; `epoch` is raised
    whenever somebody takes it, and fences what the one before still writes. `tries` counts those
    who began and did not say how it ended. `result` is what the API shows.
    """

    class State(models.TextChoices):
        """Where it stands; the last three are final."""

        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    asked_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    quotas = models.TextField()
    against = models.TextField(blank=True)
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    progress = models.PositiveSmallIntegerField(default=0)
    result = models.JSONField(null=True)
    failure = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    epoch = models.PositiveIntegerField(default=0)
    tries = models.PositiveSmallIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(from_at__lt=F("until_at")), name="simulation_window"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running"], ended_at=None)
                | Q(state__in=["done", "failed", "cancelled"], ended_at__isnull=False),
                name="simulation_ended",
            ),
            models.CheckConstraint(
                condition=Q(state="done", result__isnull=False)
                | (~Q(state="done") & Q(result__isnull=True)),
                name="simulation_result",
            ),
            models.CheckConstraint(condition=Q(progress__lte=100), name="simulation_progress"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["id"],
                name="simulation_open",
                condition=Q(state__in=["queued", "running"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.state}"

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.state in (self.State.QUEUED, self.State.RUNNING)

    @property
    def took(self) -> timedelta | None:
        """From its first start to its end; None while it is not over, or if it never began."""
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at

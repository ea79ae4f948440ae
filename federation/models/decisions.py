"""The arbiter's term and what its cycles decided."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models


class ArbiterTerm(models.Model):
    """One row. Each leader raises `epoch`; `commit_plan` locks the row and requires its own."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    epoch = models.BigIntegerField(default=0)
    queue = ArrayField(models.BigIntegerField(), default=list)
    ranked_at = models.DateTimeField(null=True)
    cycled_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(id=1), name="one_term_row"),
        ]

    def __str__(self) -> str:
        return f"epoch {self.epoch}"


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

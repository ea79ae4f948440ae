"""Records: events (changes of state), audit (people's acts), idempotency (answers given)."""

from typing import ClassVar

from django.db import models
from django.db.models import Func

from tenancy.models.access import Tenant, User


class CurrentTransaction(Func):
    """The 64-bit id of the writing transaction, so that readers can wait for older ones."""

    function = "pg_current_xact_id"
    template = "(%(function)s()::text::bigint)"
    output_field = models.BigIntegerField()


class Event(models.Model):
    """A change of state. Readers see only rows of transactions below `pg_snapshot_xmin`.

    `tenant` None means: for admins only (fleet events). `subject` is the job's id or a name.
    """

    id = models.BigAutoField(primary_key=True)
    xid = models.BigIntegerField(db_default=CurrentTransaction())
    at = models.DateTimeField()
    kind = models.CharField(max_length=63)
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True, db_constraint=False)
    subject = models.CharField(max_length=63)
    cause = models.CharField(max_length=63, blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        ordering: ClassVar = ["id"]
        indexes: ClassVar = [
            models.Index(fields=["subject", "id"], name="event_subject"),
            models.Index(fields=["xid", "id"], name="event_order"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.kind} {self.subject}"


class AuditEntry(models.Model):
    """A person's act: who, when, what, before, after, why. Never pruned."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    actor = models.ForeignKey(User, models.PROTECT, null=True)
    action = models.CharField(max_length=63)
    object_type = models.CharField(max_length=63)
    object_id = models.CharField(max_length=1023)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    why = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = ["-id"]
        verbose_name_plural = "audit entries"
        indexes: ClassVar = [models.Index(fields=["object_type", "object_id"], name="audit_object")]

    def __str__(self) -> str:
        return f"{self.id} {self.action} {self.object_type} {self.object_id}"


class IdempotencyRecord(models.Model):
    """One use of an `Idempotency-Key`: inserted first, answered in the same transaction."""

    user = models.ForeignKey(User, models.CASCADE)
    route = models.CharField(max_length=100)
    key = models.CharField(max_length=255)
    body_digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField()
    answer = models.JSONField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "route", "key"], name="idempotency_key_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["created_at"], name="idempotency_age")]

    def __str__(self) -> str:
        return f"{self.route} {self.key}"


class Tick(models.Model):
    """When a message from beat last came through a queue: beat, broker and a worker are alive."""

    queue = models.CharField(max_length=63, primary_key=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.queue} at {self.at}"

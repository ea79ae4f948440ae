"""Events and audit entries: written in the transaction of the service that causes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from kit.bulk import Statement, insertion, run
from kit.intervals import DAY_MS
from tenancy.models import AuditEntry, Event, IdempotencyRecord, Tick, User

CHANNEL = "muster"
BELL = Statement(f"NOTIFY {CHANNEL}")  # what `ring` runs
IDEMPOTENCY_LIFE = timedelta(hours=24)
EVENT_LIFE = timedelta(milliseconds=90 * DAY_MS)


@dataclass(frozen=True, slots=True)
class Change:
    """One event to write. `tenant_id` None: only admins see it."""

    kind: str
    subject: str
    tenant_id: UUID | None
    cause: str = ""
    data: Mapping[str, object] = field(default_factory=dict)


def write_events(*, changes: Iterable[Change], now: datetime) -> None:
    """Writes events in one statement, whatever their number."""
    given = list(changes)
    if given:
        run(events_statement(changes=given, now=now))


def events_statement(*, changes: Sequence[Change], now: datetime) -> Statement:
    """What `write_events` runs, for one round trip with other statements. At least one event."""
    rows = [
        {
            "kind": change.kind,
            "subject": change.subject,
            "tenant_id": change.tenant_id,
            "cause": change.cause,
            "data": dict(change.data),
        }
        for change in changes
    ]
    return insertion(Event, rows, {"at": now})


def write_audit(
    *,
    actor: User | None,
    action: str,
    object_type: str,
    object_id: object,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    why: str = "",
    now: datetime,
) -> None:
    """Writes who did what to which object. `actor` None is the system's own command line."""
    AuditEntry.objects.create(
        at=now,
        actor=actor,
        action=action,
        object_type=object_type,
        object_id=str(object_id),
        before=None if before is None else dict(before),
        after=None if after is None else dict(after),
        why=why,
    )


def ring() -> None:
    """Rings the doorbell when this transaction commits: an empty NOTIFY that wakes the arbiter.

    Only from short transactions (DESIGN section 8); PostgreSQL merges equal notices of one
    transaction.
    """
    run(BELL)


def prune(*, now: datetime) -> int:
    """Deletes events and idempotency records past their lives; the number of rows deleted."""
    events, _ = Event.objects.filter(at__lt=now - EVENT_LIFE).delete()
    keys, _ = IdempotencyRecord.objects.filter(created_at__lt=now - IDEMPOTENCY_LIFE).delete()
    return events + keys


def tick(*, queue: str, now: datetime) -> None:
    """Notes that a message of beat came through the queue."""
    Tick.objects.update_or_create(queue=queue, defaults={"at": now})

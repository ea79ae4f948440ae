"""Events and audit entries: written in the transaction of the service that causes them."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.sessions.models import Session
from django.db.models import Q

from kit.bulk import Statement, insertion, run
from kit.errors import FieldProblem
from tenancy.models import ApiToken, AuditEntry, Event, IdempotencyRecord, Tick, User

logger = logging.getLogger(__name__)
CHANNEL = "muster"
LONGEST_WHY = 1000
BELL = Statement(f"NOTIFY {CHANNEL}")  # what `ring` runs
IDEMPOTENCY_LIFE = timedelta(hours=24)
TOKEN_MEMORY = timedelta(days=90)  # so long its owner still sees that a token is over
_SHARED_IDS = ("attempt", "cluster")
_CHANGES_A_LINE = 100


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
    _note(changes)
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


def _note(changes: Sequence[Change]) -> None:
    """Lines in the log: of what changed alike at once, up to a hundred to a line.

    So a job's id is found from its submit to its end in the logs of web, arbiter and workers. The
    line is there before the transaction commits: what came of it, the event table says.
    """
    alike: dict[tuple[str, ...], list[Change]] = {}
    for change in changes:
        ids = (str(change.data.get(name) or "") for name in _SHARED_IDS)
        alike.setdefault((change.kind, change.cause, *ids), []).append(change)
    for (kind, cause, *shared), found in alike.items():
        about = "job" if kind.startswith("job.") else "subject"
        for start in range(0, len(found), _CHANGES_A_LINE):
            some = found[start : start + _CHANGES_A_LINE]
            own = {
                about: [change.subject for change in some],
                "fence": [str(change.data["fence"]) for change in some if change.data.get("fence")],
            }
            plural = "s" if len(some) > 1 else ""
            line = {f"{name}{plural}": ",".join(values) for name, values in own.items() if values}
            line |= {name: value for name, value in zip(_SHARED_IDS, shared, strict=True) if value}
            logger.info("%s (%s)", kind, cause, extra={"ids": line})


def why_problems(why: object, field: str = "why") -> list[FieldProblem]:
    """What is wrong with the word why that goes with an act, which may be empty.

    `field` is what it is called where it was sent.
    """
    if isinstance(why, str) and len(why) <= LONGEST_WHY and "\0" not in why:
        return []
    words = f"Give text of at most {LONGEST_WHY} letters."
    return [FieldProblem(f"/{field}", "invalid_text", words)]


def write_audits(
    *,
    actor: User | None,
    entries: Iterable[tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]],
    object_type: str,
    why: str,
    now: datetime,
) -> None:
    """Writes one act on many objects of a type: (action, object, before, after) of each."""
    AuditEntry.objects.bulk_create(
        AuditEntry(
            at=now,
            actor=actor,
            action=action,
            object_type=object_type,
            object_id=object_id,
            before=before,
            after=after,
            why=why,
        )
        for action, object_id, before, after in entries
    )


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
    """Deletes what is past its life: answers kept for keys, sessions, tokens; how many rows.

    Events: see `retention`.
    """
    over = now - TOKEN_MEMORY
    return sum(
        rows.delete()[0]
        for rows in (
            IdempotencyRecord.objects.filter(created_at__lt=now - IDEMPOTENCY_LIFE),
            Session.objects.filter(expire_date__lt=now),
            ApiToken.objects.filter(Q(expires_at__lt=over) | Q(revoked_at__lt=over)),
        )
    )


def tick(*, queue: str, now: datetime) -> None:
    """Notes that a message of beat came through the queue."""
    Tick.objects.update_or_create(queue=queue, defaults={"at": now})

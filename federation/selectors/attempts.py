"""Open attempts as reconciliation judges them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q

from clusters.core.observation import GangSeen
from clusters.models import Command, Node, Observation
from clusters.selectors.traffic import gangs_from_json
from federation.core.reconciliation import OpenAttempt, Order, Phase, Reading
from federation.models import Attempt
from federation.selectors.fleet import OPEN_ATTEMPTS
from kit.intervals import to_ms


class JobFacts(NamedTuple):
    """What judging needs of an attempt's job."""

    state: str
    cancel_asked_at: datetime | None
    hold_asked_by: str
    start_timeout_ms: int


class AttemptFacts(NamedTuple):
    """What judging needs of an attempt."""

    id: UUID
    fence: str
    state: str
    accepted_at: datetime | None
    started_at: datetime | None
    end_cause: str
    backend_id: str
    backend_state: str
    backend_reason: str
    runs: list[list[int | None]]
    job: JobFacts


_OF_ATTEMPT = AttemptFacts._fields[:-1]
_OF_JOB = [f"job__{name}" for name in JobFacts._fields]


@dataclass(frozen=True, slots=True)
class LastReading:
    """The newest observation of a cluster: when, and the objects by fence."""

    reading: Reading | None
    objects: dict[str, list[GangSeen]]


def last_reading(cluster_id: UUID) -> LastReading:
    """What was last seen of a cluster; empty before the first observation."""
    row = Observation.objects.filter(cluster_id=cluster_id).first()
    if row is None:
        return LastReading(None, {})
    objects: dict[str, list[GangSeen]] = {}
    for gang in gangs_from_json(row.gangs):
        objects.setdefault(gang.fence, []).append(gang)
    return LastReading(Reading(to_ms(row.begun_at), row.accounting_answered), objects)


def fences_to_look_up(cluster_id: UUID) -> list[str]:
    """Fences of open attempts that may exist on the cluster: their ends must not be missed."""
    sent = Command.objects.filter(
        ~Q(sent_at=None), cluster_id=cluster_id, kind=Command.Kind.SUBMIT
    ).values("fence")
    return list(
        OPEN_ATTEMPTS.filter(cluster_id=cluster_id, fence__in=sent)
        .order_by()
        .values_list("fence", flat=True)
    )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)


def _orders(fences: Sequence[str]) -> dict[tuple[str, str], Order]:
    """Our orders to submit and cancel by fence and kind."""
    rows = Command.objects.filter(
        fence__in=fences, kind__in=[Command.Kind.SUBMIT, Command.Kind.CANCEL]
    ).values_list("key", "fence", "kind", "state", "sent_at", "answered_at", "error", "answer")
    return {
        (fence, kind): Order(
            state,
            sent_at is not None,
            _ms(answered_at),
            error,
            (answer or {}).get("backend_id", ""),
        )
        for key, fence, kind, state, sent_at, answered_at, error, answer in rows
        if key.startswith(("submit:", "cancel:"))
    }


def stop_cause(attempt: Attempt | AttemptFacts) -> str:
    """Why an attempt is being stopped: our own decision, or what people asked; "" = it is not."""
    if attempt.end_cause:
        return attempt.end_cause
    if attempt.job.cancel_asked_at is not None:
        return "cancelled"
    return "held" if attempt.job.hold_asked_by else ""


def open_attempts(
    cluster_id: UUID, only: Sequence[UUID] | None = None
) -> list[tuple[AttemptFacts, OpenAttempt]]:
    """Open attempts of a cluster (or some of them), as they are and as the core's value. 2 queries.

    Plain values: of a model's thousand objects the making alone takes a tenth of a second.
    """
    rows = OPEN_ATTEMPTS.filter(cluster_id=cluster_id)
    if only is not None:
        rows = rows.filter(id__in=only)
    attempts = [
        AttemptFacts._make((*row[: len(_OF_ATTEMPT)], JobFacts._make(row[len(_OF_ATTEMPT) :])))
        for row in rows.order_by("job_id").values_list(*_OF_ATTEMPT, *_OF_JOB)
    ]
    orders = _orders([attempt.fence for attempt in attempts])
    return [
        (
            attempt,
            OpenAttempt(
                attempt_id=attempt.id,
                fence=attempt.fence,
                phase=Phase(attempt.state),
                submit=orders[attempt.fence, Command.Kind.SUBMIT],
                cancel=orders.get((attempt.fence, Command.Kind.CANCEL)),
                accepted_ms=_ms(attempt.accepted_at),
                started_ms=_ms(attempt.started_at),
                start_timeout_ms=attempt.job.start_timeout_ms,
                stop_cause=stop_cause(attempt),
            ),
        )
        for attempt in attempts
    ]


def attempts_to_change(ids: Collection[UUID]) -> list[Attempt]:
    """These attempts whole, with their jobs, users and clusters, in the order of their jobs.

    3 queries: the jobs' few users and clusters are made once, not once an attempt.
    """
    rows = Attempt.objects.filter(id__in=ids).select_related("job")
    rows = rows.prefetch_related("job__user", "cluster").order_by("job_id")
    return list(rows.defer("job__spec", "job__options", "job__reasons"))


def ended_attempts(fences: Iterable[str]) -> dict[str, Attempt]:
    """Those attempts under the fences that are over, by fence."""
    return {
        attempt.fence: attempt
        for attempt in Attempt.objects.filter(fence__in=fences, state=Attempt.State.ENDED)
    }


def node_facts(cluster_id: UUID, names: Iterable[str]) -> dict[str, Node]:
    """The nodes of a cluster by name."""
    return {node.name: node for node in Node.objects.filter(cluster_id=cluster_id, name__in=names)}

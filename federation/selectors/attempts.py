"""Open attempts as reconciliation judges them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar
from uuid import UUID

from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform

from clusters.core.observation import GangSeen
from clusters.models import Cluster, Command, Node, Observation
from clusters.selectors.traffic import gangs_from_json
from federation.core.reconciliation import OpenAttempt, Order, Phase, Reading
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from kit.bulk import among, instance, milliseconds
from kit.intervals import to_ms, to_ms_or_none
from tenancy.models import User


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
_CHANGED_ATTEMPT = (
    *("id", "job_id", "number", "fence", "cluster_id", "flavor_id", "service_class", "nodes"),
    *("account", "state", "backend_id", "backend_state", "backend_reason", "nodes_seen"),
    *("tier_seen", "accepted_at", "started_at", "ended_at", "end_cause", "exit_code", "runs"),
)
_CHANGED_JOB = (
    *("id", "uuid", "tenant_id", "user_id", "name", "labels", "state", "held_by"),
    *("hold_asked_by", "class_now", "started_at", "ended_at", "cancel_asked_at", "restarts"),
    *("max_restarts", "start_timeout_ms", "avoid_nodes", "outcome", "version"),
)
_WHEN = (milliseconds("sent_at"), milliseconds("answered_at"))
_BACKEND_ID_ANSWERED = KeyTextTransform("backend_id", "answer")
AnAttempt = TypeVar("AnAttempt", AttemptFacts, Attempt)


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
    # by fence alone: given the cluster too, PostgreSQL joins an index of all of its commands
    sent = Command.objects.filter(~Q(sent_at=None), kind=Command.Kind.SUBMIT).values("fence")
    return list(
        OPEN_ATTEMPTS.filter(cluster_id=cluster_id, fence__in=sent)
        .order_by()
        .values_list("fence", flat=True)
    )


def _orders(fences: Iterable[str]) -> dict[tuple[str, str], Order]:
    """Our orders to submit and cancel by fence and kind."""
    rows = Command.objects.filter(
        fence__in=among(fences, "text"), kind__in=[Command.Kind.SUBMIT, Command.Kind.CANCEL]
    ).values_list("key", "fence", "kind", "state", *_WHEN, "error", _BACKEND_ID_ANSWERED)
    return {
        (fence, kind): Order(state, sent_ms is not None, answered_ms, error, backend_id or "")
        for key, fence, kind, state, sent_ms, answered_ms, error, backend_id in rows
        if key.startswith(("submit:", "cancel:"))
    }


def stop_cause(attempt: Attempt | AttemptFacts) -> str:
    """Why an attempt is being stopped: our own decision, or what people asked; "" = it is not."""
    if attempt.end_cause:
        return attempt.end_cause
    if attempt.job.cancel_asked_at is not None:
        return "cancelled"
    return "held" if attempt.job.hold_asked_by else ""


def open_attempts(cluster_id: UUID) -> list[AttemptFacts]:
    """Open attempts of a cluster as they are.

    Plain values: of a model's thousand objects the making alone takes a tenth of a second.
    """
    rows = OPEN_ATTEMPTS.filter(cluster_id=cluster_id).order_by("job_id")
    return [
        AttemptFacts._make((*row[: len(_OF_ATTEMPT)], JobFacts._make(row[len(_OF_ATTEMPT) :])))
        for row in rows.values_list(*_OF_ATTEMPT, *_OF_JOB)
    ]


def with_orders(attempts: Sequence[AnAttempt]) -> Iterator[tuple[AnAttempt, OpenAttempt]]:
    """Each attempt and, with the orders about it, the value that the core judges. One query."""
    orders = _orders(attempt.fence for attempt in attempts)
    for attempt in attempts:
        yield (
            attempt,
            OpenAttempt(
                attempt_id=attempt.id,
                fence=attempt.fence,
                phase=Phase(attempt.state),
                submit=orders[attempt.fence, Command.Kind.SUBMIT],
                cancel=orders.get((attempt.fence, Command.Kind.CANCEL)),
                accepted_ms=to_ms_or_none(attempt.accepted_at),
                started_ms=to_ms_or_none(attempt.started_at),
                start_timeout_ms=attempt.job.start_timeout_ms,
                stop_cause=stop_cause(attempt),
            ),
        )


def attempts_to_change(cluster_id: UUID, ids: Iterable[UUID]) -> list[Attempt]:
    """Those of the attempts that are open, in the order of their jobs, with what is changed.

    3 queries: attempts with their jobs, of both the columns that reconciliation needs (others are
    read when asked for), and the jobs' few users and clusters, made once and not once an attempt.
    """
    rows = OPEN_ATTEMPTS.filter(cluster_id=cluster_id, id__in=among(ids)).order_by("job_id")
    cluster = Cluster.objects.get(id=cluster_id)
    attempts = []
    for row in rows.values_list(*_CHANGED_ATTEMPT, *(f"job__{name}" for name in _CHANGED_JOB)):
        attempt = instance(Attempt, row[: len(_CHANGED_ATTEMPT)], _CHANGED_ATTEMPT)
        attempt.job = instance(Job, row[len(_CHANGED_ATTEMPT) :], _CHANGED_JOB)
        attempt.cluster = cluster
        attempts.append(attempt)
    users = User.objects.in_bulk({attempt.job.user_id for attempt in attempts})
    for attempt in attempts:
        attempt.job.user = users[attempt.job.user_id]
    return attempts


def ended_attempts(fences: Iterable[str]) -> dict[str, Attempt]:
    """Those attempts under the fences that are over, by fence."""
    return {
        attempt.fence: attempt
        for attempt in Attempt.objects.filter(fence__in=fences, state=Attempt.State.ENDED)
    }


def node_facts(cluster_id: UUID, names: Iterable[str]) -> dict[str, Node]:
    """The nodes of a cluster by name."""
    return {node.name: node for node in Node.objects.filter(cluster_id=cluster_id, name__in=names)}

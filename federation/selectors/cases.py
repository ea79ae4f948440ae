"""Cases of the reconciler with all that is known of them: our rows, the last reading, the orders."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection
from django.db.models import Max

from clusters.core.observation import GangSeen, NodeState
from clusters.models import Cluster, Command, Node, Observation
from clusters.selectors.traffic import OPEN, gangs_from_json
from federation.core.reconciliation import Phase
from federation.core.repair import (
    Action,
    Answer,
    Evidence,
    Kind,
    OurAttempt,
    OurOrder,
    Seen,
    proposals,
)
from federation.models import Attempt
from federation.selectors.findings import Finding, find, members, silent_since
from kit.errors import NotFoundError
from kit.intervals import to_ms
from tenancy.models import Event

_OBJECTS = """
SELECT o.cluster_id, gang
FROM clusters_observation o, jsonb_array_elements(o.gangs) gang
WHERE o.cluster_id = ANY(%s) AND gang->>'fence' = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One finding, what the rows say of it, and the answer to each action.

    `lost_at` is when the attempt was found lost; `reading` the cluster's newest observation.
    """

    finding: Finding
    attempt: Attempt | None
    orders: tuple[Command, ...]
    reading: Observation | None
    lost_at: datetime | None
    evidence: Evidence
    answers: Mapping[Action, Answer]

    @property
    def cluster(self) -> Cluster:
        """Where it is."""
        return self.finding.cluster

    @property
    def since(self) -> datetime | None:
        """When it began, as far as that is known."""
        return self.lost_at or self.finding.since

    @property
    def order(self) -> Command | None:
        """The order that the case is about."""
        return next((row for row in self.orders if row.key == self.finding.order), None)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What was read for some findings at once."""

    attempts: Mapping[str, Attempt]
    orders: Mapping[str, Sequence[Command]]
    objects: Mapping[tuple[UUID, str], Sequence[GangSeen]]
    readings: Mapping[UUID, Observation]
    nodes: Mapping[tuple[UUID, str], str]
    lost_at: Mapping[str, datetime]


def find_cases(
    now: datetime, *, clusters: Collection[str] = (), kinds: Collection[str] = ()
) -> list[Finding]:
    """Every finding, or those of some clusters and kinds by name. At most 5 queries.

    Raises:
        NotFoundError: there is no such cluster.
    """
    known = members()
    missing = set(clusters) - {cluster.name for cluster in known}
    if missing:
        raise NotFoundError(f"There is no cluster {min(missing)!r}.")
    chosen = [cluster for cluster in known if not clusters or cluster.name in clusters]
    return find(chosen, now, [Kind(kind) for kind in kinds] or list(Kind))


def finding_of(case_id: UUID, now: datetime) -> Finding | None:
    """The finding with that id; None when nothing is wrong there (any more)."""
    return next((finding for finding in find(members(), now) if finding.id == case_id), None)


def with_evidence(findings: Sequence[Finding], now: datetime) -> list[Case]:
    """The cases of these findings, in order. At most 6 queries."""
    rows = _read(findings)
    return [_case(finding, rows, now) for finding in findings]


def _read(findings: Sequence[Finding]) -> _Rows:
    fences = sorted({finding.fence for finding in findings if finding.fence})
    clusters = list({finding.cluster.pk for finding in findings})
    attempts = {
        attempt.fence: attempt
        for attempt in Attempt.objects.filter(fence__in=fences).select_related(
            "cluster", "job", "job__tenant", "job__user"
        )
    }
    orders: dict[str, list[Command]] = defaultdict(list)
    for command in Command.objects.filter(fence__in=fences).defer("payload").order_by("id"):
        orders[command.fence].append(command)
    lost = [row for row in attempts.values() if row.state == Attempt.State.LOST]
    return _Rows(
        attempts=attempts,
        orders=orders,
        objects=_objects(clusters, fences),
        readings={
            row.cluster_id: row
            for row in Observation.objects.filter(cluster__in=clusters).defer("gangs")
        },
        nodes=_nodes(lost),
        lost_at=_lost_at(lost),
    )


def _objects(
    clusters: Sequence[UUID], fences: Sequence[str]
) -> Mapping[tuple[UUID, str], list[GangSeen]]:
    found: dict[tuple[UUID, str], list[GangSeen]] = defaultdict(list)
    if not fences:
        return found
    with connection.cursor() as cursor:
        cursor.execute(_OBJECTS, [list(clusters), list(fences)])
        rows = cursor.fetchall()
    for cluster_id, gang in rows:
        (seen,) = gangs_from_json([json.loads(gang) if isinstance(gang, str) else gang])
        found[cluster_id, seen.fence].append(seen)
    return found


def _nodes(lost: Sequence[Attempt]) -> Mapping[tuple[UUID, str], str]:
    """The states of the nodes that lost attempts held."""
    names = {name for attempt in lost for name in _nodes_of(attempt)}
    if not names:
        return {}
    rows = Node.objects.filter(cluster__in={row.cluster_id for row in lost}, name__in=names)
    return {(row.cluster_id, row.name): row.state for row in rows}


def _nodes_of(attempt: Attempt) -> Sequence[str]:
    return attempt.nodes_seen or attempt.nodes


def _lost_at(lost: Sequence[Attempt]) -> Mapping[str, datetime]:
    """When each was found lost, by its job's id: its events are kept 90 days."""
    if not lost:
        return {}
    rows = Event.objects.filter(
        subject__in=[str(attempt.job.uuid) for attempt in lost], kind="job.unknown"
    )
    return dict(rows.values_list("subject").annotate(at=Max("at")).order_by())


def _case(finding: Finding, rows: _Rows, now: datetime) -> Case:
    attempt = rows.attempts.get(finding.fence)
    reading = rows.readings.get(finding.cluster.pk)
    orders = tuple(rows.orders.get(finding.fence, ()))
    lost_at = rows.lost_at.get(str(attempt.job.uuid)) if attempt is not None else None
    mine = {row.key: row for row in orders}
    order = mine.get(finding.order)
    submit = None if attempt is None else mine.get(f"submit:{attempt.pk}")
    evidence = Evidence(
        kind=finding.kind,
        cluster=finding.cluster.name,
        fence=finding.fence,
        seen=_seen(finding.cluster, reading, now),
        attempt=None if attempt is None else _ours(finding, attempt, lost_at, rows),
        objects=_there(finding, reading, rows),
        order=None if order is None else OurOrder(order.kind, order.state),
        submit_state="" if submit is None else submit.state,
        cancel_is_out=any(
            row.kind == Command.Kind.CANCEL
            and row.state in OPEN
            and row.cluster_id == finding.cluster.pk
            for row in orders
        ),
    )
    return Case(finding, attempt, orders, reading, lost_at, evidence, proposals(evidence))


def _there(finding: Finding, reading: Observation | None, rows: _Rows) -> tuple[GangSeen, ...]:
    """The objects that the case is about: those of ours under the fence, or the one namesake."""
    if finding.kind is not Kind.FOREIGN_NAME:
        return tuple(rows.objects.get((finding.cluster.pk, finding.fence), ()))
    named = gangs_from_json(reading.namesakes if reading is not None else ())
    return tuple(gang for gang in named if finding.order == f"number:{gang.backend_id}")


def _seen(cluster: Cluster, reading: Observation | None, now: datetime) -> Seen:
    if reading is None:
        return Seen(is_fresh=False, begun_ms=0, accounting_answered=False)
    answers = cluster.failing_since is None and not cluster.is_silent(silent_since(now))
    return Seen(answers, to_ms(reading.begun_at), reading.accounting_answered)


def _ours(finding: Finding, attempt: Attempt, lost_at: datetime | None, rows: _Rows) -> OurAttempt:
    states = {name: rows.nodes.get((attempt.cluster_id, name)) for name in _nodes_of(attempt)}
    answering = {NodeState.UP.value, NodeState.DRAINING.value}
    is_lost = attempt.state == Attempt.State.LOST
    return OurAttempt(
        phase=Phase(attempt.state),
        account=attempt.account,
        is_here=attempt.cluster_id == finding.cluster.pk,
        is_stopping=attempt.state == Attempt.State.STOPPING,
        is_cancelled=attempt.job.cancel_asked_at is not None,
        open_run_ms=next((start for start, end, _ in attempt.runs if end is None), None),
        lost_ms=None if lost_at is None else to_ms(lost_at),
        away=tuple(name for name, state in states.items() if is_lost and state not in answering),
    )

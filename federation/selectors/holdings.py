"""What open attempts hold, and what is kept for jobs that wait, as the core sees it."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from clusters.core.resources import GangShape, NodeShape
from federation.core.lifecycle import JobState
from federation.core.reconciliation import EVICTED
from federation.core.snapshot import Holding, Reservation
from federation.models import Attempt
from federation.models import Reservation as Row
from federation.selectors.fleet import OPEN_ATTEMPTS
from kit.intervals import to_ms, to_ms_or_none
from kit.reads import Fixed

DAY = timedelta(days=1)
_GRACE_S = KeyTextTransform("grace", KeyTransform("checkpoint", "job__spec"))
_HOLDING = (
    "id",
    "job_id",
    "job__tenant_id",
    "job__priority",
    "job__wanted_class",
    "cluster_id",
    "flavor_id",
    "service_class",
    "state",
    "nodes",
    "nodes_seen",
    "gpus_per_node",
    "cpus_per_node",
    "memory_mib_per_node",
    "exclusive",
    "bound_at",
    "started_at",
    "saved_at",
    "end_cause",
    "evict_asked_at",
    "evict_for",
    "job__state",
    "job__cancel_asked_at",
    "job__hold_asked_by",
    "grace_s",
)


_ROWS = Fixed(OPEN_ATTEMPTS.annotate(grace_s=_GRACE_S).order_by().values_list(*_HOLDING))


def holdings(now: datetime) -> Iterator[Holding]:
    """Every open attempt, whatever becomes of it. 2 queries."""
    evictions = _evictions(now)
    for values in _ROWS.rows():
        row = dict(zip(_HOLDING, values, strict=True))
        yield _holding(row, *evictions.get(row["job_id"], (0, None)))


def _holding(row: Mapping[str, Any], evictions: int, evicted_at: datetime | None) -> Holding:
    nodes = tuple(row["nodes_seen"] or row["nodes"])
    shape = NodeShape(row["gpus_per_node"], row["cpus_per_node"], row["memory_mib_per_node"])
    is_asked = row["job__cancel_asked_at"] is not None or bool(row["job__hold_asked_by"])
    is_leaving = bool(row["end_cause"]) or row["job__state"] == JobState.STOPPING
    return Holding(
        attempt=row["id"],
        job=row["job_id"],
        tenant=row["job__tenant_id"],
        priority=row["job__priority"],
        cluster=row["cluster_id"],
        flavor=row["flavor_id"],
        wanted_class=row["job__wanted_class"],
        service_class=row["service_class"],
        nodes=nodes,
        shape=GangShape(len(nodes), shape, row["exclusive"]),
        since_ms=to_ms(row["bound_at"]),
        is_running=row["state"] == Attempt.State.RUNNING,
        is_lost=row["state"] == Attempt.State.LOST,
        leaves=is_asked or is_leaving or row["evict_asked_at"] is not None,
        started_ms=to_ms_or_none(row["started_at"]),
        saved_ms=to_ms_or_none(row["saved_at"]),
        grace_ms=None if row["grace_s"] is None else int(row["grace_s"]) * 1000,
        evictions=evictions,
        evicted_ms=to_ms_or_none(evicted_at),
        goes_for=None if is_asked or is_leaving else row["evict_for"],
    )


def _evictions(now: datetime) -> Mapping[int, tuple[int, datetime]]:
    """How often each job was evicted within a day, and when last."""
    rows = Attempt.objects.filter(
        evict_asked_at__gt=now - DAY, end_cause__in=EVICTED, state=Attempt.State.ENDED
    )
    counted = rows.order_by().values_list("job_id").annotate(Count("id"), Max("ended_at"))
    return {job: (count, last) for job, count, last in counted}


def reservations() -> Iterator[Reservation]:
    """Nodes kept for jobs, with the gang that each job is there. 1 query."""
    kept = Row.objects.select_related("job").only(
        "cluster_id", "flavor_id", "service_class", "nodes", "claimed_at", "deadline_at",
        "job__options", "job__exclusive",
    )  # fmt: skip
    for row in kept:
        per_node = next(o for o in row.job.options if o["flavor"] == row.flavor_id)
        need = NodeShape(
            per_node["gpus_per_node"], per_node["cpus_per_node"], per_node["memory_mib_per_node"]
        )
        yield Reservation(
            job=row.job_id,
            cluster=row.cluster_id,
            flavor=row.flavor_id,
            service_class=row.service_class,
            nodes=tuple(row.nodes),
            shape=GangShape(len(row.nodes), need, row.job.exclusive),
            claimed_ms=to_ms(row.claimed_at),
            deadline_ms=to_ms(row.deadline_at),
        )

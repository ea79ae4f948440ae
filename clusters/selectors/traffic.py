"""Reads of the outbox and of what was last seen."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, Exists, IntegerField, Min, OuterRef, Q, Value, When

from clusters.core.observation import GangSeen, GangState, Run
from clusters.models import Cluster, Command, Lease

OPEN = (Command.State.WAITING, Command.State.SENT)
_ORDER = Case(
    When(kind=Command.Kind.CANCEL, then=Value(0)),
    When(kind=Command.Kind.SIGNAL, then=Value(1)),
    default=Value(2),
    output_field=IntegerField(),
)


def due_commands(cluster_id: UUID, now: datetime, limit: int) -> list[Command]:
    """The next orders to deliver: cancel and signal before submit, older first.

    Locks them: an order that somebody drops meanwhile is either not among them, or already sent.
    """
    return list(
        Command.objects.select_for_update(no_key=True)
        .filter(cluster_id=cluster_id, state__in=OPEN, not_before__lte=now)
        .annotate(turn=_ORDER)
        .order_by("turn", "id")[:limit]
    )


def _free(kind: Lease.Kind, now: datetime) -> Q:
    taken = Lease.objects.filter(cluster=OuterRef("pk"), kind=kind, expires_at__gt=now)
    return ~Q(Exists(taken))


def clusters_to_deliver(now: datetime) -> list[UUID]:
    """Clusters with orders due and nobody at it."""
    due = Command.objects.filter(cluster=OuterRef("pk"), state__in=OPEN, not_before__lte=now)
    return list(
        Cluster.objects.filter(Exists(due), _free(Lease.Kind.DISPATCH, now)).values_list(
            "id", flat=True
        )
    )


def clusters_to_observe(now: datetime, interval: timedelta) -> list[UUID]:
    """Clusters whose reading is older than the interval and that nobody reads, oldest first."""
    return list(
        Cluster.objects.filter(
            Q(observation=None) | Q(observation__begun_at__lte=now - interval),
            _free(Lease.Kind.OBSERVE, now),
        )
        .order_by("observation__begun_at")
        .values_list("id", flat=True)
    )


def outbox_depths() -> list[Any]:
    """Per cluster: `cluster__name`, `depth`, `ambiguous` and `oldest` (when it was written)."""
    return list(
        Command.objects.filter(state__in=OPEN)
        .values("cluster__name")
        .annotate(
            depth=Count("id"),
            ambiguous=Count("id", filter=Q(state=Command.State.SENT)),
            oldest=Min("created_at"),
        )
        .order_by("cluster__name")
    )


def gang_to_json(gang: GangSeen) -> dict[str, object]:
    """The stored form of a gang that was seen."""
    lacking: dict[str, object] = {} if gang.is_whole else {"is_whole": False}
    if gang.broken is not None:
        lacking["broken"] = gang.broken.value
    return lacking | {
        "fence": gang.fence,
        "backend_id": gang.backend_id,
        "state": gang.state.value,
        "reason": gang.reason,
        "account": gang.account,
        "nodes": list(gang.nodes),
        "gpus": gang.gpus,
        "submitted_ms": gang.submitted_ms,
        "started_ms": gang.started_ms,
        "ended_ms": gang.ended_ms,
        "exit_code": gang.exit_code,
        "comment": gang.comment,
        "runs": [
            [run.start_ms, run.end_ms, run.gpus, list(run.nodes), run.state.value]
            for run in gang.runs
        ],
    }


def gangs_from_json(stored: Sequence[Any]) -> list[GangSeen]:
    """The gangs of a stored observation."""
    return [
        GangSeen(
            **{
                **row,
                "state": GangState(row["state"]),
                "broken": GangState(row["broken"]) if row.get("broken") else None,
                "nodes": tuple(row["nodes"]),
                "runs": tuple(
                    Run(start, end, gpus, tuple(nodes), GangState(state))
                    for start, end, gpus, nodes, state in row["runs"]
                ),
            }
        )
        for row in stored
    ]

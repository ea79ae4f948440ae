"""An operator's hand on jobs; each is named by `job_id` or by `name` (then all of that name)."""

from collections.abc import Callable

from simulator.deeds.common import Deed, Json, named_jobs
from simulator.engine import operator
from simulator.engine.model import World
from simulator.hostlist import expand
from simulator.runtime import Running


def _hand(act: Callable[[World, int, int], None], meaning: str) -> Deed:
    def do(cluster: Running, *, job_id: int | None = None, name: str | None = None) -> Json:
        now_ms = cluster.now_ms()
        chosen = named_jobs(cluster.world, job_id, name)
        for number in chosen:
            act(cluster.world, number, now_ms)
        return {"jobs": chosen}

    do.__doc__ = meaning
    return do


def move(
    cluster: Running,
    *,
    partition: str = "",
    nodes: str = "",
    job_id: int | None = None,
    name: str | None = None,
) -> Json:
    """A waiting job goes to another partition, to other nodes (a hostlist), or both."""
    now_ms = cluster.now_ms()
    names = tuple(expand(nodes)) if nodes else ()
    chosen = named_jobs(cluster.world, job_id, name)
    for number in chosen:
        operator.move(cluster.world, number, now_ms, partition=partition, nodes=names)
    return {"jobs": chosen}


def time_limit(
    cluster: Running, *, minutes: int, job_id: int | None = None, name: str | None = None
) -> Json:
    """A job gets another time limit; one that has run longer ends at once with TIMEOUT."""
    now_ms = cluster.now_ms()
    if minutes < 1:
        raise ValueError("minutes: at least 1")
    chosen = named_jobs(cluster.world, job_id, name)
    for number in chosen:
        operator.set_time_limit(cluster.world, number, minutes, now_ms)
    return {"jobs": chosen}


def edit(
    cluster: Running,
    *,
    comment: str | None = None,
    priority: int | None = None,
    job_id: int | None = None,
    name: str | None = None,
) -> Json:
    """A job gets another comment (ours is the mark we know our jobs by), priority, or both."""
    now_ms = cluster.now_ms()
    wanted = {"comment": comment, "priority": priority}
    changes = {field: value for field, value in wanted.items() if value is not None}
    chosen = named_jobs(cluster.world, job_id, name)
    for number in chosen:
        operator.edit(cluster.world, number, changes, now_ms)
    return {"jobs": chosen}


DEEDS: dict[str, Deed] = {
    "jobs/requeue": _hand(operator.requeue_by_hand, "a job goes back into the queue under its id"),
    "jobs/hold": _hand(operator.hold, "a job is held by an administrator"),
    "jobs/release": _hand(operator.release_by_hand, "a held job is released, whoever held it"),
    "jobs/cancel": _hand(operator.cancel_by_hand, "a job is cancelled by root"),
    "jobs/move": move,
    "jobs/time_limit": time_limit,
    "jobs/edit": edit,
}

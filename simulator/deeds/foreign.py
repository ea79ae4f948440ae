"""Other people's jobs: under any name, ahead of everybody, or just before ours."""

from simulator.config import Foreign
from simulator.deeds.common import Deed, Json, bounded, state
from simulator.engine.commands import cancel
from simulator.engine.foreign import submit_foreign, take_nodes
from simulator.engine.operator import ROOT
from simulator.hostlist import expand
from simulator.runtime import Running


def add(
    cluster: Running,
    *,
    nodes: int,
    seconds: int,
    user: str | None = None,
    account: str = "",
    name: str | None = None,
    comment: str = "",
    nodelist: str = "",
    hold: bool = False,
    count: int = 1,
) -> Json:
    """Foreign jobs on so many whole `nodes` each, of anybody and under any name, one of ours too.

    Gives the id of the last.
    """
    cluster.now_ms()
    defaults = cluster.config.foreign or Foreign()
    known = cluster.config.users
    last = 0
    for _ in range(count):
        job = submit_foreign(
            cluster.world,
            user=user or (known[-1].name if known else defaults.users[0]),
            account=account,
            name=defaults.name if name is None else name,
            nodes=nodes,
            seconds=seconds,
            comment=comment,
            hold=hold,
            required=tuple(expand(nodelist)) if nodelist else (),
        )
        last = job.id
    return {"job_id": last}


def take(cluster: Running, *, nodes: str, seconds: int = 600) -> Json:
    """A foreign job takes just these nodes (a hostlist), at once if they are free."""
    cluster.now_ms()
    job = take_nodes(cluster.world, expand(nodes), seconds=seconds)
    return {"job_id": job.id, "state": str(job.state)}


def ambush(cluster: Running, *, times: int = 1, seconds: int = 600) -> Json:
    """The next so many jobs that name their nodes find them taken just before."""
    cluster.now_ms()
    cluster.world.ambushes = bounded("times", times, 0, 1_000_000)
    cluster.world.ambush_seconds = seconds
    return state(cluster)


def remove(cluster: Running, *, job_id: int | None = None, stream: bool = True) -> Json:
    """Cancel the foreign job `job_id`, or all of them; with `stream: false` no more will come."""
    now_ms = cluster.now_ms()
    world = cluster.world
    ids = [j.id for j in world.jobs.values() if j.request.foreign and (j.waiting or j.holds_nodes)]
    chosen = [number for number in ids if job_id in {None, number}]
    for number in chosen:
        cancel(world, number, ROOT, now_ms)
    if not stream:
        world.foreign, world.ambushes = None, 0
    return {"cancelled": chosen}


DEEDS: dict[str, Deed] = {
    "foreign/add": add,
    "foreign/take": take,
    "foreign/ambush": ambush,
    "foreign/remove": remove,
}

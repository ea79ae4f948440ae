"""What happens to nodes, and to the scheduling of jobs on them."""

from simulator.deeds.common import Deed, Json, bounded, named_jobs, state
from simulator.engine.commands import blink, set_nodes, set_paused
from simulator.hostlist import expand
from simulator.runtime import Running

HOUR_MS = 3_600_000


def _change(action: str, meaning: str) -> Deed:
    def change(cluster: Running, *, nodes: str, reason: str = action) -> Json:
        names = expand(nodes)
        set_nodes(cluster.world, names, action, reason, cluster.now_ms())
        return {"nodes": names}

    change.__doc__ = meaning
    return change


def _blink(*, silent: bool, meaning: str) -> Deed:
    def change(cluster: Running, *, nodes: str, ms: int) -> Json:
        names = expand(nodes)
        blink(cluster.world, names, bounded("ms", ms, 1, HOUR_MS), cluster.now_ms(), silent=silent)
        return {"nodes": names}

    change.__doc__ = meaning
    return change


def fail_under(
    cluster: Running, *, job_id: int | None = None, name: str | None = None, which: int = 0
) -> Json:
    """The node numbered `which` of a running job goes down, and the job with it."""
    now_ms = cluster.now_ms()
    world = cluster.world
    held = [
        list(world.jobs[found].shares)
        for found in named_jobs(world, job_id, name)
        if world.jobs[found].holds_nodes
    ]
    if not held or not held[0]:
        raise ValueError("the job holds no nodes")
    struck = [held[0][which % len(held[0])]]
    set_nodes(world, struck, "down", "Not responding", now_ms)
    return {"nodes": struck}


def _paused(*, paused: bool, meaning: str) -> Deed:
    def change(cluster: Running) -> Json:
        set_paused(cluster.world, cluster.now_ms(), paused=paused)
        return state(cluster)

    change.__doc__ = meaning
    return change


DEEDS: dict[str, Deed] = {
    "nodes/down": _change("down", "nodes (a hostlist) go down: what runs there is NODE_FAIL"),
    "nodes/up": _change("up", "nodes are up again, neither down nor draining"),
    "nodes/drain": _change("drain", "nodes finish what they run and start nothing"),
    "nodes/undrain": _change("undrain", "nodes take jobs again"),
    "nodes/blink": _blink(silent=False, meaning="nodes go down, and are back after `ms`"),
    "nodes/silent": _blink(silent=True, meaning="NOT_RESPONDING for `ms`; their jobs run on"),
    "nodes/fail_under": fail_under,
    "scheduling/pause": _paused(paused=True, meaning="stop starting jobs"),
    "scheduling/resume": _paused(paused=False, meaning="start jobs again"),
}

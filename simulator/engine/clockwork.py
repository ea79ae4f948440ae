"""The world's clock: making a world, and letting its time pass.

Advancing in one step or in many gives the same world, since every event happens at its own time.
"""

import heapq
from collections.abc import Callable
from dataclasses import replace

from simulator.config import Cluster
from simulator.engine.events import push, request_pass, touch_job, touch_node
from simulator.engine.foreign import draw_foreign
from simulator.engine.lifecycle import change_request, end, forget, purge_later, release
from simulator.engine.model import Job, State, World
from simulator.engine.scheduling import run_pass
from simulator.engine.topology import build_nodes


def new_world(config: Cluster, now_ms: int) -> World:
    """A cluster that has just been switched on, with its foreign load on the way."""
    world = World(config=config, now_ms=now_ms, nodes=build_nodes(config), started_ms=now_ms)
    world.foreign = config.foreign
    world.accounting_lag_ms = config.accounting_lag_ms
    world.shifts = [(0, config.skew_ms)] if config.skew_ms else []
    world.jobs_changed_ms = world.nodes_changed_ms = now_ms
    if config.foreign is not None:
        push(world, now_ms, "foreign")
    return world


def advance(world: World, now_ms: int) -> None:
    """Let everything due until `now_ms` happen. Time never runs backwards."""
    while world.heap and world.heap[0][0] <= now_ms:
        due, _, kind, job_id = heapq.heappop(world.heap)
        world.now_ms = max(world.now_ms, due)
        _HANDLERS[kind](world, job_id, due)
    world.now_ms = max(world.now_ms, now_ms)


def _on_pass(world: World, job_id: int, due: int) -> None:
    world.pass_due_ms = None
    if not world.paused:
        run_pass(world)


def _running(world: World, job_id: int) -> Job | None:
    job = world.jobs.get(job_id)
    return job if job is not None and job.state is State.RUNNING else None


def _on_finish(world: World, job_id: int, due: int) -> None:
    job = _running(world, job_id)
    if job is None or job.finish_ms != due:
        return
    if not job.program.valid:
        end(world, job, State.FAILED, reason="NonZeroExitCode", exit_status=8 << 8)
    elif job.program.exit_code:
        status = job.program.exit_code << 8
        end(world, job, State.FAILED, reason="NonZeroExitCode", exit_status=status)
    else:
        end(world, job, State.COMPLETED)


def _on_limit(world: World, job_id: int, due: int) -> None:
    job = _running(world, job_id)
    if job is not None and job.limit_ms == due:
        slow = world.config.kill_wait_ms if job.program.ignores_signals else None
        end(world, job, State.TIMEOUT, reason="TimeLimit", completing_ms=slow)


def _on_save(world: World, job_id: int, due: int) -> None:
    """What the job was asked to save is saved; its own comment says so."""
    job = _running(world, job_id)
    if job is None or not job.signals or job.signals[-1][0] not in job.program.traps:
        return
    ran_s = round((due - job.start_ms) * world.config.speed / 1000)
    change_request(job, replace(job.request, comment=f"muster-checkpoint={ran_s}"))
    touch_job(world, job_id)


def _on_completed(world: World, job_id: int, due: int) -> None:
    job = world.jobs.get(job_id)
    if job is None or not job.completing or job.release_ms != due:
        return
    job.completing = False
    release(world, job)
    touch_job(world, job_id)
    purge_later(world, job)


def _on_purge(world: World, job_id: int, due: int) -> None:
    """MinJobAge is over: from now on only accounting knows the job."""
    job = world.jobs.get(job_id)
    if job is not None and not (job.waiting or job.holds_nodes) and job.purge_ms == due:
        forget(world, job)


def _on_eligible(world: World, job_id: int, due: int) -> None:
    job = world.jobs.get(job_id)
    if job is not None and job.waiting and job.eligible_ms == due:
        job.reason = "None"
        touch_job(world, job_id)
        request_pass(world)


def _on_foreign(world: World, job_id: int, due: int) -> None:
    if world.foreign is None:
        return
    draw_foreign(world)
    push(world, world.now_ms + world.config.job_ms(world.foreign.every_seconds), "foreign")


def _on_node(world: World, index: int, due: int) -> None:
    """A node that blinked is back."""
    node = list(world.nodes.values())[index]
    if node.back_at_ms == due:
        node.down, node.back_at_ms = False, 0
        if not node.drain:
            node.reason, node.reason_ms = "", 0
    if node.silent_until_ms == due:
        node.silent_until_ms = 0
    touch_node(world, node.name)
    request_pass(world)


_HANDLERS: dict[str, Callable[[World, int, int], None]] = {
    "pass": _on_pass,
    "finish": _on_finish,
    "limit": _on_limit,
    "save": _on_save,
    "completed": _on_completed,
    "purge": _on_purge,
    "eligible": _on_eligible,
    "foreign": _on_foreign,
    "node": _on_node,
}

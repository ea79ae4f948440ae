"""Time: what is due is done in order, each at its own instant."""

import heapq

from simulator.engine.model import World


def push(world: World, due_ms: int, kind: str, job_id: int = 0) -> None:
    """Let something happen at an instant (never before now)."""
    world.sequence += 1
    heapq.heappush(world.heap, (max(due_ms, world.now_ms), world.sequence, kind, job_id))


def drop_events(world: World, job_id: int) -> None:
    """Forget what is still to happen to a job, so that nothing strikes a later job of its id."""
    about_jobs = {"save", "finish", "limit", "completed", "purge", "eligible"}
    world.heap = [e for e in world.heap if e[3] != job_id or e[2] not in about_jobs]
    heapq.heapify(world.heap)


def request_pass(world: World) -> None:
    """Ask for a scheduling pass: soon, but not more often than the cluster's interval."""
    if world.paused or world.pass_due_ms is not None:
        return
    due = max(world.now_ms, world.last_pass_ms + world.config.pass_interval_ms)
    world.pass_due_ms = due
    push(world, due, "pass")


def touch_job(world: World, job_id: int) -> None:
    """Note a visible change of a job."""
    world.changes += 1
    world.jobs[job_id].revision = world.changes
    world.jobs_changed_ms = world.now_ms


def touch_node(world: World, name: str) -> None:
    """Note a visible change of a node."""
    world.changes += 1
    world.nodes[name].revision = world.changes
    world.nodes_changed_ms = world.now_ms

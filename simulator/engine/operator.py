"""An operator's hand on other people's jobs: what `scontrol` and `scancel` do as root."""

from collections.abc import Mapping
from dataclasses import replace

from simulator.engine.admission import INVALID_PARTITION
from simulator.engine.clockwork import advance
from simulator.engine.commands import NOT_NOW, Actor, cancel, find, update
from simulator.engine.lifecycle import change_request, requeue
from simulator.engine.model import RefusedError, State, World

ROOT = Actor("root", admin=True)


def requeue_by_hand(world: World, job_id: int, now_ms: int) -> None:
    """`scontrol update Requeue=1`, then `scontrol requeue`: back into the queue under its id.

    Its run ends as REQUEUED. RefusedError if it waits already or is still completing.
    """
    advance(world, now_ms)
    job = find(world, job_id)
    if job.waiting or job.completing:
        raise RefusedError(NOT_NOW)
    change_request(job, replace(job.request, requeue=True))
    requeue(world, job, State.REQUEUED)


def hold(world: World, job_id: int, now_ms: int) -> None:
    """`scontrol hold` as root: only an administrator can release it again."""
    update(world, job_id, {"hold": True}, ROOT, now_ms)


def release_by_hand(world: World, job_id: int, now_ms: int) -> None:
    """`scontrol release`, also of a job that waits for its owner to release it."""
    update(world, job_id, {"hold": False}, ROOT, now_ms)


def move(
    world: World, job_id: int, now_ms: int, *, partition: str = "", nodes: tuple[str, ...] = ()
) -> None:
    """Put a waiting job into another partition, on other nodes, or both."""
    advance(world, now_ms)
    if not find(world, job_id).waiting:
        raise RefusedError(NOT_NOW)
    changes: dict[str, object] = {"required_nodes": nodes} if nodes else {}
    if partition:
        if partition not in {p.name for p in world.config.partitions}:
            raise RefusedError(INVALID_PARTITION)
        changes["partition"] = partition
    update(world, job_id, changes, ROOT, now_ms)


def set_time_limit(world: World, job_id: int, minutes: int, now_ms: int) -> None:
    """Give a waiting or running job another time limit; a running one ends if it is past."""
    update(world, job_id, {"time_limit": minutes}, ROOT, now_ms)


def edit(world: World, job_id: int, changes: Mapping[str, object], now_ms: int) -> None:
    """`scontrol update`: another `comment` or `priority` (not of a held job)."""
    update(world, job_id, dict(changes), ROOT, now_ms)


def cancel_by_hand(world: World, job_id: int, now_ms: int) -> None:
    """`scancel` as root, of anybody's job."""
    cancel(world, job_id, ROOT, now_ms)

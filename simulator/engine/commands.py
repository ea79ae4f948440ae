"""What users, operators and accidents do to the cluster. Every call says when it happens.

RefusedError carries Slurm's own error number when it would not obey.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from simulator.engine.admission import INVALID_NODE, admit, fits
from simulator.engine.clockwork import advance
from simulator.engine.events import push, request_pass, touch_job, touch_node
from simulator.engine.foreign import take_nodes
from simulator.engine.lifecycle import (
    SIGTERM,
    base_priority,
    change_request,
    end,
    enqueue,
    fail_node,
    make_eligible,
)
from simulator.engine.model import Job, RefusedError, Request, State, World
from simulator.engine.program import HARMLESS

ACCESS_DENIED = 2002
INVALID_USER = 2010
INVALID_JOB = 2017
NOT_NOW = 2020
HELD = 2042
FINISHED = 2084


@dataclass(frozen=True)
class Actor:
    """Who asks: a user name, and whether Slurm takes it for an administrator."""

    user: str
    admin: bool = False


def submit(world: World, request: Request, now_ms: int) -> Job:
    """Queue a job; names may repeat, as in real Slurm."""
    advance(world, now_ms)
    filled, association = admit(world, request)
    if world.ambushes and filled.required_nodes:
        world.ambushes -= 1
        take_nodes(world, filled.required_nodes, seconds=world.ambush_seconds)
    return enqueue(world, filled, association)


def find(world: World, job_id: int) -> Job:
    """The job, if the controller still remembers it."""
    if job_id not in world.jobs:
        raise RefusedError(INVALID_JOB)
    return world.jobs[job_id]


def cancel(world: World, job_id: int, actor: Actor, now_ms: int) -> None:
    """Stop a job; a finished one is left alone without complaint."""
    advance(world, now_ms)
    job = find(world, job_id)
    if not actor.admin and actor.user != job.request.user:
        raise RefusedError(ACCESS_DENIED)
    if job.waiting:
        end(world, job, State.CANCELLED, killed_by=actor.user)
    elif job.state is State.RUNNING:
        slow = world.config.kill_wait_ms if job.program.ignores_signals else None
        end(
            world,
            job,
            State.CANCELLED,
            exit_status=SIGTERM,
            killed_by=actor.user,
            completing_ms=slow,
        )


def send_signal(world: World, job_id: int, number: int, actor: Actor, now_ms: int) -> None:
    """Deliver a signal to a running job; what its script does not trap ends it."""
    advance(world, now_ms)
    job = find(world, job_id)
    if not actor.admin and actor.user != job.request.user:
        raise RefusedError(ACCESS_DENIED)
    if job.waiting:
        raise RefusedError(NOT_NOW)
    if job.state is not State.RUNNING:
        return
    job.signals.append((number, now_ms))
    program = job.program
    if number in program.traps and program.saves is not None:
        push(world, now_ms + world.config.job_ms(program.saves), "save", job.id)
    if not (program.ignores_signals or number in program.traps or number in HARMLESS):
        end(world, job, State.FAILED, reason="JobLaunchFailure", exit_status=number)


def update(world: World, job_id: int, changes: dict[str, Any], actor: Actor, now_ms: int) -> None:
    """Change a job. `changes` holds `hold`, `priority` and fields of `Request`, already parsed."""
    advance(world, now_ms)
    job = find(world, job_id)
    if not actor.admin and actor.user != job.request.user:
        raise RefusedError(INVALID_USER)
    if job.state not in {State.PENDING, State.RUNNING}:
        raise RefusedError(FINISHED)
    hold, priority = changes.get("hold"), changes.get("priority")
    if hold is False and job.held_by_admin and not actor.admin:
        raise RefusedError(ACCESS_DENIED)
    if priority is not None:
        _check_priority(job, actor)
    fields = {k: v for k, v in changes.items() if k not in {"hold", "priority"}}
    unknown = set(fields.get("required_nodes", ())) | set(fields.get("excluded_nodes", ()))
    fixed = job.state is State.RUNNING and "required_nodes" in fields
    if fixed or not unknown <= set(world.nodes):
        raise RefusedError(INVALID_NODE)
    change_request(job, replace(job.request, **fields))
    _change_limit(world, job, fields)
    if hold is not None:
        _hold_or_release(world, job, actor, hold=hold)
    if priority is not None:
        _set_priority(world, job, priority)
    touch_job(world, job_id)
    request_pass(world)


def _check_priority(job: Job, actor: Actor) -> None:
    """Only an administrator sets priorities, and not those of held jobs."""
    if not actor.admin:
        raise RefusedError(ACCESS_DENIED)
    if job.priority == 0:
        raise RefusedError(HELD)


def _set_priority(world: World, job: Job, priority: int) -> None:
    change_request(job, replace(job.request, priority=priority, nice=0))
    job.priority = base_priority(world, job.request)


def _change_limit(world: World, job: Job, fields: dict[str, Any]) -> None:
    if "time_limit" in fields and job.state is State.RUNNING:
        job.limit_ms = job.start_ms + world.config.job_ms(job.request.time_limit * 60)
        job.end_ms = job.limit_ms
        push(world, job.limit_ms, "limit", job.id)


def _hold_or_release(world: World, job: Job, actor: Actor, *, hold: bool) -> None:
    if hold:
        job.held_by_admin = actor.admin and actor.user != job.request.user
        job.reason = "JobHeldAdmin" if job.held_by_admin else "JobHeldUser"
        job.priority, job.description, job.expected_start_ms = 0, "", 0
        if job.waiting:
            job.eligible_ms = 0
    elif job.priority == 0:
        job.held_by_admin = False
        if job.waiting and not fits(world, job.request):
            job.reason = "BadConstraints"  # and its priority stays 0, as in Slurm
        elif job.waiting:
            make_eligible(world, job)
        else:
            job.reason, job.priority = "None", base_priority(world, job.request)


def set_nodes(world: World, names: Iterable[str], action: str, reason: str, now_ms: int) -> None:
    """What an operator or an accident does to nodes: `down`, `up`, `drain` or `undrain`."""
    advance(world, now_ms)
    chosen = list(names)
    if not set(chosen) <= set(world.nodes):
        raise RefusedError(INVALID_NODE)
    for name in chosen:
        node = world.nodes[name]
        node.down = {"down": True, "up": False}.get(action, node.down)
        node.drain = {"drain": True, "undrain": False, "up": False}.get(action, node.drain)
        node.back_at_ms = 0
        node.reason = reason if node.down or node.drain else ""
        node.reason_ms = now_ms if node.reason else 0
        touch_node(world, name)
    if action == "down":
        _fail_jobs(world, chosen)
    request_pass(world)


def blink(
    world: World, names: Iterable[str], ms: int, now_ms: int, *, silent: bool = False
) -> None:
    """Nodes are down for so long, or `silent`: not responding, while their jobs run on."""
    chosen = list(names)
    if silent:
        advance(world, now_ms)
        if not set(chosen) <= set(world.nodes):
            raise RefusedError(INVALID_NODE)
    else:
        set_nodes(world, chosen, "down", "Not responding", now_ms)
    for node in (world.nodes[name] for name in chosen):
        if silent:
            node.silent_until_ms = now_ms + ms
        else:
            node.back_at_ms = now_ms + ms
        push(world, now_ms + ms, "node", node.index)
        touch_node(world, node.name)


def _fail_jobs(world: World, names: list[str]) -> None:
    struck = {job_id for name in names for job_id in world.nodes[name].jobs}
    for job_id in sorted(struck):
        job = world.jobs[job_id]
        if job.state is State.RUNNING:
            fail_node(world, job)


def set_paused(world: World, now_ms: int, *, paused: bool) -> None:
    """Stop or go on starting jobs; what runs runs on."""
    advance(world, now_ms)
    world.paused = paused
    request_pass(world)

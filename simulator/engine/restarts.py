"""What slurmctld knows after a restart: everything, nothing, or what it knew a while ago.

Nodes report the jobs they run. One that slurmctld does not know, or takes for a waiting one, is
killed ("orphan job"); one that it takes for running and no node has is NODE_FAIL. Accounting keeps
one record per job id and submit time, so a job that starts anew overwrites its record.
"""

from dataclasses import replace

from simulator.engine.admission import associations
from simulator.engine.clockwork import advance
from simulator.engine.commands import find
from simulator.engine.demand import demand_of
from simulator.engine.events import drop_events, request_pass, touch_job
from simulator.engine.lifecycle import (
    base_priority,
    end,
    forget,
    make_eligible,
    remember,
    requeue,
)
from simulator.engine.model import Job, Run, State, World
from simulator.engine.program import read_program


def lose_state(world: World, now_ms: int, *, cold: bool) -> None:
    """Start with an empty state: no jobs, job ids from 1 again. Accounting keeps its records.

    Records of jobs that were alive stay open for ever (Slurm: runaway jobs), unless the start is
    `cold` (`slurmctld -c`), which closes them as CANCELLED.
    """
    advance(world, now_ms)
    for job in list(world.jobs.values()):
        forget(world, job)
    for run in world.records:
        if cold and not run.end_ms:
            run.state, run.end_ms = State.CANCELLED, now_ms
    set_next_id(world, 1, now_ms)


def set_next_id(world: World, job_id: int, now_ms: int) -> None:
    """Let job ids go on from here; ids of jobs that slurmctld knows are passed over."""
    advance(world, now_ms)
    world.next_job_id = world.era_first_id = job_id
    world.era_ms = now_ms


def recall_state(world: World, then_ms: int, now_ms: int) -> None:
    """Start with the state of an earlier instant; what has happened since is not known."""
    advance(world, now_ms)
    then_ms = min(then_ms, now_ms)
    known = _known(world, then_ms)
    for job in list(world.jobs.values()):
        if known.get(job.id) is not job.run:
            forget(world, job)
    for run in known.values():
        _recall(world, run, then_ms)
    if then_ms < world.era_ms:
        world.era_ms, world.era_first_id = 0, 1
    world.next_job_id = _next_id(world, then_ms)
    request_pass(world)


def _runs(world: World) -> list[Run]:
    """All runs there are, also those that accounting does not have, in order of submit."""
    listed = {id(run) for run in world.records}
    unlisted = [job.run for job in world.jobs.values() if id(job.run) not in listed]
    return sorted([*world.records, *unlisted], key=lambda run: run.submit_ms)


def _known(world: World, then_ms: int) -> dict[int, Run]:
    """The last run of each job id that had been submitted by then and was not forgotten yet."""
    return {
        run.job_id: run
        for run in _runs(world)
        if run.submit_ms <= then_ms and not 0 < run.forgotten_ms <= then_ms
    }


def _next_id(world: World, then_ms: int) -> int:
    """The id that came after the last one given out by then."""
    given = [
        run.job_id
        for run in _runs(world)
        if world.era_ms <= run.submit_ms <= then_ms and not run.restarts
    ]
    return max(given, default=world.era_first_id - 1) + 1


def _recall(world: World, run: Run, then_ms: int) -> None:
    if 0 < run.end_ms <= then_ms:
        return  # it was over: kept if slurmctld still has it, else as good as past MinJobAge
    job = world.jobs.get(run.job_id)
    if 0 < run.start_ms <= then_ms:
        if job is None or job.state is not State.RUNNING:
            _miss(world, _emptied(world, run))
    elif job is None or not job.waiting or _was_held(run, then_ms):
        _wait_again(world, _emptied(world, run), held=_was_held(run, then_ms))


def _was_held(run: Run, then_ms: int) -> bool:
    """Had its owner not released it yet? What an operator held or released is not looked at."""
    return run.request.hold and not run.restarts and not 0 < run.eligible_ms <= then_ms


def _emptied(world: World, run: Run) -> Job:
    """The job as slurmctld takes it up: waiting, without nodes, whatever became of it."""
    old = world.jobs.get(run.job_id)
    if old is not None:
        forget(world, old)
    drop_events(world, run.job_id)
    request, config = run.request, world.config
    program = read_program(request.script, config.run, seed=config.seed, job_id=run.job_id)
    owner = (request.account, request.user)
    numbers = (number for number, *pair in associations(world) if tuple(pair) == owner)
    job = Job(
        id=run.job_id,
        request=request,
        demand=demand_of(request, config),
        program=program if old is None else old.program,
        run=run,
        association_id=next(numbers, 0),
        submit_ms=run.submit_ms,
        restarts=run.restarts,
        priority=run.priority or base_priority(world, request),
        eligible_ms=run.eligible_ms,
    )
    remember(world, job)
    touch_job(world, job.id)
    return job


def _wait_again(world: World, job: Job, *, held: bool) -> None:
    """It waits as it did then; its record forgets that it ran."""
    run = job.run
    run.state, run.reason, run.start_ms, run.end_ms = State.PENDING, "None", 0, 0
    run.shares, run.exit_status, run.killed_by = {}, 0, ""
    if held:
        run.eligible_ms = job.eligible_ms = job.priority = 0
        job.reason = "JobHeldUser"
    else:
        make_eligible(world, job)


def _miss(world: World, job: Job) -> None:
    """It should run and no node has it: NODE_FAIL, or back into the queue."""
    job.run.state, job.run.end_ms = State.NODE_FAIL, world.now_ms
    if job.request.requeue:
        requeue(world, job, State.NODE_FAIL)
        return
    job.state, job.start_ms = State.RUNNING, job.run.start_ms
    end(world, job, State.NODE_FAIL, reason="NodeDown", completing_ms=0)


def vanish(world: World, job_id: int, now_ms: int, state: State | None) -> None:
    """Strike a job from slurmctld's memory, as if it had never been told.

    What it ran is killed. Its open record stays open, or is closed with a final state.
    """
    advance(world, now_ms)
    job = find(world, job_id)
    if state is not None and not job.run.end_ms:
        job.run.state, job.run.end_ms = state, now_ms
    forget(world, job)


def forget_finished(world: World, now_ms: int) -> list[int]:
    """Forget every finished job now, as if MinJobAge were over; their ids."""
    advance(world, now_ms)
    over = [j for j in world.jobs.values() if not (j.waiting or j.holds_nodes)]
    for job in over:
        forget(world, job)
    return [job.id for job in over]


def lose_records(world: World, chosen: set[int]) -> int:
    """Accounting loses the records of these jobs; how many there were."""
    before = len(world.records)
    world.records = [run for run in world.records if run.job_id not in chosen]
    return before - len(world.records)


def freeze_records(world: World, chosen: set[int]) -> None:
    """Accounting never hears what becomes of these jobs from now on."""
    world.records = [
        replace(run, shares=dict(run.shares)) if run.job_id in chosen and not run.end_ms else run
        for run in world.records
    ]

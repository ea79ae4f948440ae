"""How a job moves: queued, started, ended, requeued, forgotten. Runs are booked on the way."""

from simulator.engine.demand import demand_of
from simulator.engine.events import drop_events, push, request_pass, touch_job, touch_node
from simulator.engine.model import Job, Request, Run, Share, State, Stay, World
from simulator.engine.program import read_program

SIGTERM = 15


def base_priority(world: World, request: Request) -> int:
    """Priority of the QOS less nice; at least 1, since 0 means held."""
    chosen = request.priority or world.config.qos.get(request.qos, 1000)
    return max(1, chosen - (request.nice or 0))


def enqueue(world: World, request: Request, association_id: int) -> Job:
    """Take a checked request into the queue under the next job id."""
    job_id = _next_id(world)
    now = world.now_ms
    config = world.config
    job = Job(
        id=job_id,
        request=request,
        demand=demand_of(request, config),
        program=read_program(request.script, config.run, seed=config.seed, job_id=job_id),
        run=Run(job_id, request, submit_ms=now),
        association_id=association_id,
        submit_ms=now,
    )
    remember(world, job)
    record(world, job.run)
    if request.hold:
        job.reason = "JobHeldUser"
    else:
        make_eligible(world, job)
    touch_job(world, job_id)
    return job


def _next_id(world: World) -> int:
    """The next job id that no job of the controller bears."""
    while world.next_job_id in world.jobs:
        world.next_job_id += 1
    world.next_job_id += 1
    return world.next_job_id - 1


def remember(world: World, job: Job) -> None:
    """Take a waiting job into the controller's memory."""
    world.jobs[job.id] = job
    job.run.forgotten_ms = 0
    world.waiting.add(job.id)
    world.by_name.setdefault((job.request.user, job.request.name), set()).add(job.id)


def forget(world: World, job: Job) -> None:
    """Strike a job from the controller's memory; what it holds comes free, accounting stays."""
    if job.holds_nodes:
        release(world, job)
    del world.jobs[job.id]
    job.run.forgotten_ms = world.now_ms
    world.waiting.discard(job.id)
    key = (job.request.user, job.request.name)
    world.by_name[key].discard(job.id)
    if not world.by_name[key]:
        del world.by_name[key]
    drop_events(world, job.id)
    world.jobs_changed_ms = world.now_ms


def record(world: World, run: Run) -> None:
    """Tell accounting of a new run, unless it does not listen."""
    if not world.accounting_deaf:
        world.records.append(run)


def change_request(job: Job, request: Request) -> None:
    """Give a job another request; the records of earlier runs keep theirs."""
    job.request = job.run.request = request


def make_eligible(world: World, job: Job) -> None:
    """Let the scheduler consider a job, from its begin time on."""
    job.priority = base_priority(world, job.request)
    job.eligible_ms = max(world.now_ms, job.request.begin_ms)
    job.run.eligible_ms = job.eligible_ms
    job.run.priority = job.priority
    job.reason = "BeginTime" if job.eligible_ms > world.now_ms else "None"
    if job.eligible_ms > world.now_ms:
        job.expected_start_ms = job.eligible_ms
        push(world, job.eligible_ms, "eligible", job.id)
    else:
        request_pass(world)


def start(world: World, job: Job, shares: dict[str, Share]) -> None:
    """Give a waiting job its nodes, all at once, and let its program run."""
    now = world.now_ms
    job.state, job.reason, job.description = State.RUNNING, "None", ""
    job.start_ms, job.expected_start_ms, job.exit_status = now, 0, 0
    job.shares = shares
    job.limit_ms = now + world.config.job_ms(job.request.time_limit * 60)
    job.end_ms = job.limit_ms
    job.run.state, job.run.start_ms, job.run.shares = State.RUNNING, now, shares
    job.run.priority = job.priority
    world.waiting.discard(job.id)
    who = job.request
    job.stay = Stay(job.id, who.user, who.name, who.comment, tuple(shares), now)
    world.stays.append(job.stay)
    for name, share in shares.items():
        _take(world, job, name, share)
    push(world, job.limit_ms, "limit", job.id)
    seconds = job.program.seconds
    job.finish_ms = None if seconds is None else now + world.config.job_ms(seconds)
    if job.finish_ms is not None:
        push(world, job.finish_ms, "finish", job.id)
    touch_job(world, job.id)


def _take(world: World, job: Job, name: str, share: Share) -> None:
    node = world.nodes[name]
    for index in share.gpus:
        node.owners[index] = job.id
    node.jobs.add(job.id)
    node.cpus_used += share.cpus
    node.memory_used_mb += share.memory_mb
    if job.request.exclusive:
        node.exclusive_by = job.id
    touch_node(world, name)


def leave(world: World, job: Job) -> None:
    """What the job ran has ended, one way or another."""
    if job.stay is not None:
        job.stay.end_ms, job.stay = world.now_ms, None


def release(world: World, job: Job) -> None:
    """Give back what a job holds on its nodes."""
    leave(world, job)
    for name, share in job.shares.items():
        node = world.nodes[name]
        for index in share.gpus:
            node.owners[index] = 0
        node.jobs.discard(job.id)
        node.cpus_used -= share.cpus
        node.memory_used_mb -= share.memory_mb
        node.last_busy_ms = world.now_ms
        if node.exclusive_by == job.id:
            node.exclusive_by = 0
        touch_node(world, name)
    request_pass(world)


def _close_run(world: World, job: Job, state: State, exit_status: int, killed_by: str) -> None:
    leave(world, job)
    job.run.state, job.run.end_ms = state, world.now_ms
    job.run.exit_status, job.run.killed_by = exit_status, killed_by
    if not job.run.start_ms:
        job.run.reason = job.reason


def end(
    world: World,
    job: Job,
    state: State,
    *,
    reason: str = "None",
    exit_status: int = 0,
    killed_by: str = "",
    completing_ms: int | None = None,
) -> None:
    """End a job for good. One that ran keeps its nodes while it is completing."""
    _close_run(world, job, state, exit_status, killed_by)
    ran = job.state is State.RUNNING
    job.state, job.end_ms, job.exit_status = state, world.now_ms, exit_status
    job.expected_start_ms = 0
    world.waiting.discard(job.id)
    if ran:
        job.reason, job.description = reason, ""
        job.completing = True
        wait = world.config.completing_ms if completing_ms is None else completing_ms
        job.release_ms = world.now_ms + wait
        push(world, job.release_ms, "completed", job.id)
    else:
        job.start_ms = world.now_ms
        purge_later(world, job)
    touch_job(world, job.id)
    request_pass(world)


def purge_later(world: World, job: Job) -> None:
    """Forget a finished job when MinJobAge is over."""
    job.purge_ms = world.now_ms + world.config.min_job_age_ms
    push(world, job.purge_ms, "purge", job.id)


def fail_node(world: World, job: Job) -> None:
    """What a lost node does to a running job: the end, or a place in the queue again."""
    if not job.request.requeue:
        end(world, job, State.NODE_FAIL, reason="NodeDown", completing_ms=0)
        return
    requeue(world, job, State.NODE_FAIL)


def requeue(world: World, job: Job, state: State) -> None:
    """Queue a job anew: same id, a new submit time, a new run; the old run ends as `state`."""
    if not job.run.end_ms:
        _close_run(world, job, state, 0, "")
    if job.holds_nodes:
        release(world, job)
    now = world.now_ms
    job.state, job.reason, job.description = State.PENDING, "BeginTime", ""
    job.submit_ms, job.eligible_ms = now, now + world.config.requeue_delay_ms
    job.start_ms, job.end_ms, job.limit_ms, job.finish_ms = 0, 0, 0, None
    job.expected_start_ms = job.eligible_ms
    job.shares, job.restarts, job.completing = {}, job.restarts + 1, False
    job.run = Run(
        job.id,
        job.request,
        submit_ms=now,
        eligible_ms=job.eligible_ms,
        priority=job.priority,
        restarts=job.restarts,
    )
    record(world, job.run)
    world.waiting.add(job.id)
    push(world, job.eligible_ms, "eligible", job.id)
    touch_job(world, job.id)

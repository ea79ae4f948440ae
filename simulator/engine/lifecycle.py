"""How a job moves: queued, started, ended, requeued, forgotten. Runs are booked on the way."""

from simulator.engine.demand import demand_of
from simulator.engine.events import push, request_pass, touch_job, touch_node
from simulator.engine.model import Job, Request, Run, Share, State, World
from simulator.engine.program import read_program

SIGTERM = 15


def base_priority(world: World, request: Request) -> int:
    """Priority of the QOS less nice; at least 1, since 0 means held."""
    chosen = request.priority or world.config.qos.get(request.qos, 1000)
    return max(1, chosen - (request.nice or 0))


def enqueue(world: World, request: Request, association_id: int) -> Job:
    """Take a checked request into the queue under the next job id."""
    job_id = world.next_job_id
    world.next_job_id += 1
    now = world.now_ms
    config = world.config
    job = Job(
        id=job_id,
        request=request,
        demand=demand_of(request, config),
        program=read_program(request.script, config.run, seed=config.seed, job_id=job_id),
        run=Run(job_id=job_id, submit_ms=now),
        association_id=association_id,
        submit_ms=now,
    )
    world.jobs[job_id] = job
    world.requests[job_id] = request
    world.records.append(job.run)
    world.waiting.add(job_id)
    world.by_name.setdefault((request.user, request.name), set()).add(job_id)
    if request.hold:
        job.reason = "JobHeldUser"
    else:
        make_eligible(world, job)
    touch_job(world, job_id)
    return job


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


def release(world: World, job: Job) -> None:
    """Give back what a job holds on its nodes."""
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
        push(world, world.now_ms + wait, "completed", job.id)
    else:
        job.start_ms = world.now_ms
        push(world, world.now_ms + world.config.min_job_age_ms, "purge", job.id)
    touch_job(world, job.id)
    request_pass(world)


def fail_node(world: World, job: Job) -> None:
    """What a lost node does to a running job: the end, or a place in the queue again."""
    if not job.request.requeue:
        end(world, job, State.NODE_FAIL, reason="NodeDown", completing_ms=0)
        return
    _close_run(world, job, State.NODE_FAIL, 0, "")
    release(world, job)
    requeue(world, job)


def requeue(world: World, job: Job) -> None:
    """Queue a job anew: same id, a new submit time, a new run in accounting."""
    now = world.now_ms
    job.state, job.reason, job.description = State.PENDING, "BeginTime", ""
    job.submit_ms, job.eligible_ms = now, now + world.config.requeue_delay_ms
    job.start_ms, job.end_ms, job.limit_ms, job.finish_ms = 0, 0, 0, None
    job.expected_start_ms = job.eligible_ms
    job.shares, job.restarts = {}, job.restarts + 1
    job.run = Run(job.id, submit_ms=now, eligible_ms=job.eligible_ms, priority=job.priority)
    world.records.append(job.run)
    world.waiting.add(job.id)
    push(world, job.eligible_ms, "eligible", job.id)
    touch_job(world, job.id)

"""The scheduling pass: priority, then age; whole gangs; what must wait is planned around.

A job that cannot start reserves the nodes it will get, at the time they come free; a later job may
start now only on nodes nobody reserved, or if its time limit ends before. This is what Slurm's
main and backfill schedulers do together.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from simulator.engine.demand import able_nodes, has_free, share_of
from simulator.engine.dependencies import dependency_state
from simulator.engine.events import touch_job
from simulator.engine.lifecycle import start
from simulator.engine.model import Job, Node, State, World
from simulator.engine.topology import block_of
from simulator.hostlist import compress

# How many waiting jobs get a planned start and a fresh reason in one pass (Slurm: bf_max_job_test).
PLANNED_JOBS = 50
_NODES_DOWN = (
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)


@dataclass
class Pass:
    """What one pass knows: nodes with anything free, when nodes come free, what is reserved."""

    world: World
    with_cpus: list[Node]
    with_gpus: list[Node]
    free_at: dict[str, int] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    blocked: int = 0


def run_pass(world: World) -> None:
    """Start every waiting job that can start, in order; give the others their reasons."""
    world.last_pass_ms = world.now_ms
    ready = [job for job in map(world.jobs.__getitem__, world.waiting) if _is_ready(world, job)]
    ready.sort(key=lambda job: (-job.priority, job.id))
    with_cpus = [n for n in world.nodes.values() if n.available and _has_cpus(n)]
    current = Pass(world, with_cpus, [n for n in with_cpus if 0 in n.owners])
    for job in ready:
        _consider(current, job)


def _has_cpus(node: Node) -> bool:
    return node.exclusive_by == 0 and node.cpus_used < node.cpus


def _is_ready(world: World, job: Job) -> bool:
    """May the scheduler look at it? A held or early job keeps the reason it has."""
    if job.priority == 0 or job.eligible_ms > world.now_ms:
        return False
    state = dependency_state(world, job)
    if state != "fulfilled":
        _set_reason(
            world, job, "Dependency" if state == "waiting" else "DependencyNeverSatisfied", ""
        )
        return False
    return True


def _set_reason(world: World, job: Job, reason: str, description: str) -> None:
    job.last_evaluated_ms = world.now_ms
    if (job.reason, job.description) != (reason, description):
        job.reason, job.description = reason, description
        touch_job(world, job.id)


def _consider(current: Pass, job: Job) -> None:
    world = current.world
    chosen = _choose(current, job)
    if chosen is None:
        if current.blocked < PLANNED_JOBS:
            _plan(current, job)
        else:
            _set_reason(world, job, "Priority", "")
        return
    job.last_evaluated_ms = world.now_ms
    start(world, job, {node.name: share_of(node, job.demand) for node in chosen})
    current.with_cpus = [n for n in current.with_cpus if n not in chosen or _has_cpus(n)]
    current.with_gpus = [n for n in current.with_gpus if n not in chosen or 0 in n.owners]


def _choose(current: Pass, job: Job) -> list[Node] | None:
    """The nodes the job gets now, or None."""
    world, request, demand = current.world, job.request, job.demand
    pool = current.with_gpus if demand.gpus else current.with_cpus
    if len(pool) < demand.nodes:
        return None
    ends = world.now_ms + world.config.job_ms(request.time_limit * 60)
    usable = [
        node
        for node in _candidates(world, job, pool)
        if has_free(node, demand) and current.reserved.get(node.name, ends) >= ends
    ]
    required = [node for node in usable if node.name in request.required_nodes]
    if len(required) < len(request.required_nodes):
        return None
    return _pick(world, usable, required, job)


def _candidates(world: World, job: Job, pool: Iterable[Node]) -> list[Node]:
    """Those of the pool that the job may use; a job with all its nodes named uses only those."""
    request = job.request
    if len(request.required_nodes) >= job.demand.nodes:
        pool = [world.nodes[name] for name in request.required_nodes]
    able = able_nodes(world, request.partition, job.demand)
    excluded = request.excluded_nodes
    return [node for node in pool if node.name in able and node.name not in excluded]


def _pick(world: World, usable: list[Node], required: list[Node], job: Job) -> list[Node] | None:
    """Required nodes and the rest from the first group that has enough."""
    for group in _groups(world, usable, required, job):
        if len(group) >= job.demand.nodes and all(node in group for node in required):
            rest = [node for node in group if node not in required]
            return (required + rest)[: job.demand.nodes]
    return None


def _groups(
    world: World, usable: list[Node], required: list[Node], job: Job
) -> Iterator[list[Node]]:
    """Sets of nodes to take from, best first: blocks of the lowest tier, the tightest first."""
    same = job.demand.constraint.same
    for name in same:
        yield [node for node in usable if name in node.features]
    if same:
        return
    for tier in [] if required else world.config.tiers:
        blocks: dict[int, list[Node]] = {}
        for node in usable:
            blocks.setdefault(block_of(tier, node.index), []).append(node)
        yield from sorted(blocks.values(), key=len)
    yield usable


def _plan(current: Pass, job: Job) -> None:
    """Why it waits, and when and where it should start; the place is reserved for it."""
    world = current.world
    able = _candidates(world, job, able_nodes(world, job.request.partition, job.demand).values())
    gone = [node.name for node in able if not node.available]
    wanted = set(job.request.required_nodes)
    if wanted & set(gone):
        missing = compress(sorted(wanted & set(gone)))
        text = f"ReqNodeNotAvail, UnavailableNodes:{missing}"
        _expect(world, job, 0)
        _set_reason(world, job, "ReqNodeNotAvail", text)
        return
    if len(able) - len(gone) < job.demand.nodes:
        _expect(world, job, 0)
        _set_reason(world, job, "Resources", _NODES_DOWN)
        return
    _reserve(current, job, [node for node in able if node.available])
    _set_reason(world, job, "Priority" if current.blocked else "Resources", "")
    current.blocked += 1


def _reserve(current: Pass, job: Job, able: list[Node]) -> None:
    world = current.world
    able.sort(key=lambda node: (_free_at(current, node), node.index))
    wanted = set(job.request.required_nodes)
    chosen = [node for node in able if node.name in wanted]
    chosen += [node for node in able if node.name not in wanted]
    chosen = chosen[: job.demand.nodes]
    starts = max(_free_at(current, node) for node in chosen)
    ends = starts + world.config.job_ms(job.request.time_limit * 60)
    for node in chosen:
        current.reserved[node.name] = min(starts, current.reserved.get(node.name, starts))
        current.free_at[node.name] = ends
    _expect(world, job, starts)


def _free_at(current: Pass, node: Node) -> int:
    """When the node is empty, as far as time limits and earlier plans tell."""
    if node.name not in current.free_at:
        jobs = current.world.jobs
        ends = [jobs[i].limit_ms for i in node.jobs if jobs[i].state is State.RUNNING]
        current.free_at[node.name] = max(ends, default=current.world.now_ms)
    return current.free_at[node.name]


def _expect(world: World, job: Job, start_ms: int) -> None:
    if job.expected_start_ms != start_ms:
        job.expected_start_ms = start_ms
        touch_job(world, job.id)

"""The scheduling pass: priority, then age; whole gangs; what must wait is planned around.

A job that cannot start reserves the nodes it will get, at the time they come free; a later job may
start now only on nodes nobody reserved, or if its time limit ends before. This is what Slurm's
main and backfill schedulers do together.
"""

from collections.abc import Collection, Iterable, Iterator

from simulator.engine.demand import able_nodes, has_free, share_of
from simulator.engine.dependencies import dependency_state
from simulator.engine.events import touch_job
from simulator.engine.lifecycle import start
from simulator.engine.model import Job, Node, State, World
from simulator.engine.topology import block_of
from simulator.hostlist import compress

# How many waiting jobs get a planned start and a fresh reason in one pass (Slurm: bf_max_job_test).
PLANNED_JOBS = 20
_NODES_DOWN = (
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)


class Pass:
    """What one pass knows: nodes with anything free, when nodes come free, what is reserved."""

    def __init__(self, world: World) -> None:
        """Look at the nodes once; when they come free is worked out if somebody has to wait."""
        self.world = world
        self.with_cpus = [n for n in world.nodes.values() if n.available and _has_cpus(n)]
        self.with_gpus = [n for n in self.with_cpus if 0 in n.owners]
        self.reserved: dict[str, int] = {}
        self.blocked = 0
        self._free_at: dict[str, int] = {}
        self._by_time: list[Node] = []

    def free_at(self, node: Node) -> int:
        """When the node is empty, as far as time limits and earlier plans tell."""
        return self._free_at[node.name]

    def by_time(self) -> list[Node]:
        """All nodes, those that come free first in front."""
        if not self._by_time:
            self._by_time = list(self.world.nodes.values())
            self._free_at = {n.name: _emptied_at(self.world, n) for n in self._by_time}
            self._by_time.sort(key=self.free_at)
        return self._by_time

    def reserve(self, nodes: list[Node], start_ms: int, end_ms: int) -> None:
        """Keep nodes for a waiting job from one instant to another."""
        for node in nodes:
            self.reserved[node.name] = min(start_ms, self.reserved.get(node.name, start_ms))
            self._free_at[node.name] = end_ms
        self._by_time.sort(key=self.free_at)


def _emptied_at(world: World, node: Node) -> int:
    jobs = (world.jobs[i] for i in node.jobs)
    ends = [job.limit_ms for job in jobs if job.state is State.RUNNING]
    return max(ends, default=world.now_ms)


def run_pass(world: World) -> None:
    """Start every waiting job that can start, in order; give the others their reasons."""
    world.last_pass_ms = world.now_ms
    ready = [job for job in map(world.jobs.__getitem__, world.waiting) if _is_ready(world, job)]
    ready.sort(key=lambda job: (-job.priority, job.id))
    current = Pass(world)
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
    full = [node for node in chosen if not _has_cpus(node)]
    without_gpus = [node for node in chosen if 0 not in node.owners]
    current.with_cpus = _without(current.with_cpus, full)
    current.with_gpus = _without(current.with_gpus, {*full, *without_gpus})


def _without(nodes: list[Node], gone: Collection[Node]) -> list[Node]:
    return [node for node in nodes if node not in gone] if gone else nodes


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
    lost = [name for name in job.request.required_nodes if not world.nodes[name].available]
    chosen = [] if lost else _earliest(current, job)
    if not chosen:
        text = f"ReqNodeNotAvail, UnavailableNodes:{compress(lost)}" if lost else _NODES_DOWN
        _expect(world, job, 0)
        _set_reason(world, job, "ReqNodeNotAvail" if lost else "Resources", text)
        return
    starts = max(current.free_at(node) for node in chosen)
    current.reserve(chosen, starts, starts + world.config.job_ms(job.request.time_limit * 60))
    _expect(world, job, starts)
    _set_reason(world, job, "Priority" if current.blocked else "Resources", "")
    current.blocked += 1


def _earliest(current: Pass, job: Job) -> list[Node]:
    """The nodes that come free first, of those that are up and the job may use; none if too few."""
    count = job.demand.nodes
    wanted = job.request.required_nodes
    able = [n for n in _candidates(current.world, job, current.by_time()) if n.available]
    if wanted:
        able.sort(key=lambda node: node.name not in wanted)
    same = job.demand.constraint.same
    groups = [[n for n in able if name in n.features][:count] for name in same] or [able[:count]]
    enough = [group for group in groups if len(group) == count]
    return min(enough, key=lambda group: max(map(current.free_at, group)), default=[])


def _expect(world: World, job: Job, start_ms: int) -> None:
    if job.expected_start_ms != start_ms:
        job.expected_start_ms = start_ms
        touch_job(world, job.id)

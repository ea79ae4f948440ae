"""What every node of a cluster carries: ours, foreign, free, out; summed by flavor."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from clusters.core.domains import CLUSTER, HOST, TIERS, NodeRoom, natural
from clusters.core.observation import NodeState
from clusters.core.resources import NodeShape
from clusters.core.topology import Room
from clusters.models import Cluster, ClusterFlavor, Node, Observation
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.selectors.jobs import visible_jobs
from kit.errors import NotFoundError
from kit.intervals import to_ms
from tenancy.models import User


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a bar: what it is, how many GPUs, where it starts and how wide (per cent)."""

    kind: str
    gpus: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Load:
    """GPUs by who has them. `out` is free but not to be had: drained, down or reserved there."""

    gpus: int = 0
    ours: int = 0
    foreign: int = 0
    out: int = 0

    @property
    def free(self) -> int:
        """What can be given to a gang now."""
        return self.gpus - self.ours - self.foreign - self.out

    @property
    def parts(self) -> list[Part]:
        """The bar, left to right, without empty parts."""
        parts, start = [], 0
        for kind, gpus in (("ours", self.ours), ("foreign", self.foreign), ("out", self.out)):
            if gpus:
                share = 100 / self.gpus
                parts.append(Part(kind, gpus, round(start * share, 3), round(gpus * share, 3)))
            start += gpus
        return parts

    def __add__(self, other: "Load") -> "Load":
        return Load(
            self.gpus + other.gpus,
            self.ours + other.ours,
            self.foreign + other.foreign,
            self.out + other.out,
        )


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """One node. `jobs` are the row ids of our jobs on it; `why` says why it takes no work."""

    name: str
    device: str
    path: tuple[tuple[str, str], ...]
    load: Load
    state: str
    why: str
    jobs: tuple[int, ...]
    shape: NodeShape

    @property
    def is_up(self) -> bool:
        """Whether it takes new work."""
        return self.state == NodeState.UP

    @property
    def room(self) -> NodeRoom:
        """As the topology counts it, GPUs only."""
        free = NodeShape(self.load.free, self.shape.cpus, self.shape.memory_mib)
        return NodeRoom(self.name, self.path, self.shape, free, self.is_up)


@dataclass(frozen=True, slots=True)
class Block:
    """The largest block of wholly free nodes within one domain of a tier."""

    tier: str
    gpus: int
    nodes: int
    fragmentation: float


@dataclass(frozen=True, slots=True)
class FlavorLoad:
    """One GPU model of a cluster."""

    flavor: str
    nodes: int
    nodes_out: int
    gpus_per_node: int
    load: Load
    blocks: tuple[Block, ...]

    @property
    def largest(self) -> Block | None:
        """The largest block of all, in the lowest tier that has it."""
        return max(self.blocks, key=lambda block: block.gpus, default=None)


@dataclass(frozen=True)
class ClusterLoad:
    """One cluster: its row, what it carries, and what of it is silent, closed or foreign."""

    cluster: Cluster
    nodes: tuple[NodeLoad, ...]
    flavors: tuple[FlavorLoad, ...]
    reading: Observation | None
    is_silent: bool

    @property
    def load(self) -> Load:
        """The whole cluster."""
        return sum((flavor.load for flavor in self.flavors), Load())

    @property
    def standing(self) -> str:
        """One word for people: `never seen`, `silent`, `open`, or what `closed` says."""
        if self.cluster.last_seen_at is None:
            return "never seen"
        if self.is_silent:
            return "silent"
        return self.closed or "open"

    @property
    def closed(self) -> str:
        """Why it takes no new work, by an admin's decision: one word, "" = it is open."""
        if self.cluster.leave_plan:
            return "leaving"
        return _CLOSED.get(self.cluster.state, "")

    @property
    def queues(self) -> list[dict[str, Any]]:
        """The member queues as last seen."""
        rows = self.reading.queues if self.reading else []
        return [
            {
                "name": name,
                "is_open": is_open,
                "nodes": nodes,
                "longest_ms": None if longest_s is None else longest_s * 1000,
            }
            for name, is_open, nodes, longest_s in rows
        ]


_CLOSED: Mapping[str, str] = {
    Cluster.State.DRAINING: "draining",
    Cluster.State.CUT_OFF: "cut off",
}


@dataclass(slots=True)
class _Holdings:
    """Our GPUs and jobs by (cluster, node)."""

    gpus: dict[tuple[UUID, str], int] = field(default_factory=lambda: defaultdict(int))
    whole: set[tuple[UUID, str]] = field(default_factory=set)
    jobs: dict[tuple[UUID, str], list[int]] = field(default_factory=lambda: defaultdict(list))


def cluster_loads(now: datetime) -> list[ClusterLoad]:
    """Every cluster, by name. Five queries, however many there are."""
    return _loads(Cluster.objects.order_by("name"), now)


def cluster_load(name: str, now: datetime) -> ClusterLoad:
    """One cluster by name.

    Raises:
        NotFoundError: there is none of that name.
    """
    loads = _loads(Cluster.objects.filter(name=name), now)
    if not loads:
        raise NotFoundError("There is no such cluster.")
    return loads[0]


def jobs_on(user: User, nodes: Iterable[NodeLoad]) -> dict[int, Job]:
    """Those of the jobs on the nodes that the user may see, by row id. One query."""
    keys = {job for node in nodes for job in node.jobs}
    return {job.pk: job for job in visible_jobs(user).filter(pk__in=keys).defer("spec")}


def _loads(rows: Any, now: datetime) -> list[ClusterLoad]:
    clusters = list(rows.defer("secret", "options", "probe"))
    keys = [cluster.id for cluster in clusters]
    flavors: dict[UUID, list[ClusterFlavor]] = defaultdict(list)
    for named in ClusterFlavor.objects.filter(cluster__in=keys).order_by("flavor_id"):
        flavors[named.cluster_id].append(named)
    readings = {
        row.cluster_id: row for row in Observation.objects.filter(cluster__in=keys).defer("gangs")
    }
    holdings = _holdings(keys)
    nodes: dict[UUID, list[Node]] = defaultdict(list)
    for node in Node.objects.filter(cluster__in=keys).order_by():
        nodes[node.cluster_id].append(node)
    silent_since = now - timedelta(milliseconds=settings.ENVIRONMENT.silent_after_ms)
    return [
        _cluster_load(
            cluster,
            nodes[cluster.id],
            flavors[cluster.id],
            readings.get(cluster.id),
            holdings,
            now,
            is_silent=cluster.is_silent(silent_since),
        )
        for cluster in clusters
    ]


def _holdings(clusters: Sequence[UUID]) -> _Holdings:
    found = _Holdings()
    attempts: Iterable[Attempt] = OPEN_ATTEMPTS.filter(cluster__in=clusters).only(
        "cluster_id", "job_id", "nodes", "nodes_seen", "gpus_per_node", "exclusive"
    )
    for attempt in attempts:
        for name in attempt.nodes_seen or attempt.nodes:
            key = (attempt.cluster_id, name)
            found.gpus[key] += attempt.gpus_per_node
            found.jobs[key].append(attempt.job_id)
            if attempt.exclusive:
                found.whole.add(key)
    return found


def _cluster_load(
    cluster: Cluster,
    rows: Sequence[Node],
    named: Sequence[ClusterFlavor],
    reading: Observation | None,
    holdings: _Holdings,
    now: datetime,
    *,
    is_silent: bool,
) -> ClusterLoad:
    reserved = _reserved_now(reading, to_ms(now) + cluster.clock_skew_ms)
    nodes = tuple(
        sorted(
            (_node_load(row, holdings, reserved) for row in rows),
            key=lambda node: ([natural(domain) for _, domain in node.path], natural(node.name)),
        )
    )
    flavors = tuple(
        _flavor_load(one.flavor_id, [node for node in nodes if node.device == one.device])
        for one in named
    )
    return ClusterLoad(cluster, nodes, flavors, reading, is_silent)


def _reserved_now(reading: Observation | None, cluster_ms: int) -> Mapping[str, str]:
    """Nodes that the member's own admin keeps now, with the reservation's name."""
    reserved = {}
    for name, nodes, start_ms, end_ms, _ in reading.reservations if reading else []:
        if start_ms <= cluster_ms < end_ms:
            reserved.update(dict.fromkeys(nodes, name))
    return reserved


def _node_load(row: Node, holdings: _Holdings, reserved: Mapping[str, str]) -> NodeLoad:
    key = (row.cluster_id, row.name)
    ours = row.gpus if key in holdings.whole else min(row.gpus, holdings.gpus.get(key, 0))
    foreign = min(row.gpus - ours, row.foreign_gpus)
    state, why = row.state, row.reason
    if state == NodeState.UP and row.name in reserved:
        state, why = "reserved", f"reserved on the cluster: {reserved[row.name]}"
    out = 0 if state == NodeState.UP else row.gpus - ours - foreign
    return NodeLoad(
        name=row.name,
        device=row.device,
        path=tuple((tier, domain) for tier, domain in row.path),
        load=Load(row.gpus, ours, foreign, out),
        state=state,
        why=why,
        jobs=tuple(holdings.jobs.get(key, ())),
        shape=NodeShape(row.gpus, row.cpus, row.memory_mib),
    )


def _flavor_load(flavor: str, nodes: Sequence[NodeLoad]) -> FlavorLoad:
    largest_node = max((node.load.gpus for node in nodes), default=0)
    return FlavorLoad(
        flavor=flavor,
        nodes=len(nodes),
        nodes_out=sum(not node.is_up for node in nodes),
        gpus_per_node=largest_node,
        load=sum((node.load for node in nodes), Load()),
        blocks=tuple(_blocks(nodes, largest_node)),
    )


def _blocks(nodes: Sequence[NodeLoad], gpus_per_node: int) -> Iterable[Block]:
    """The largest free block of each tier between a host and the whole cluster, lowest first."""
    if not nodes:
        return
    room = Room([node.room for node in nodes])
    free = room.free_blocks()
    for tier in TIERS[HOST + 1 : CLUSTER + 1]:
        if tier in free:
            gpus = free[tier]
            count = gpus // gpus_per_node if gpus_per_node else 0
            yield Block(tier, gpus, count, room.fragmentation(tier))

"""The room of one cluster for one flavor: free blocks, best fit, fragmentation.

A required tier that a cluster lacks is met there only by a lower tier that it has: nodes that share
a leaf also share whatever lies above it.

A `Room` counts incrementally: for each kind of ask it keeps the candidate nodes of every domain
and catches up with the nodes taken since it was last asked, so that a gang costs no scan of all
nodes. Kinds that no node tells apart share their counts.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from clusters.core.domains import CLUSTER, HOST, RANK, TIERS, NodeRoom, Tree
from clusters.core.resources import GangShape, NodeShape

__all__ = ["RANK", "TIERS", "Block", "Fit", "NodeRoom", "Room"]

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Block:
    """Where a gang would go: its nodes in rank order and the lowest tier that holds them all.

    `leftover` is what the block's candidate nodes keep free, in GPUs.
    """

    nodes: tuple[str, ...]
    tier: str
    leftover: int


@dataclass(frozen=True, slots=True, order=True)
class Fit:
    """That a gang fits: the rank of the tier, and the GPUs left over in its block; less is better."""

    rank: int
    leftover: int


class _Counts:
    """The candidate nodes of one kind of ask, counted in every domain.

    `gpus[i]` is the free GPUs of candidate i, -1 for a node that cannot take a member; `sizes` and
    `free` are candidates and their free GPUs by rank and slot; `hosts` counts candidates by their
    free GPUs. `seen` is how much of the room's log of changed nodes is counted.
    """

    __slots__ = ("excluded", "exclusive", "free", "gpus", "hosts", "need", "seen", "sizes")

    def __init__(
        self, tree: Tree, need: NodeShape, *, exclusive: bool, excluded: frozenset[str]
    ) -> None:
        self.need = need
        self.exclusive = exclusive
        self.excluded = {tree.numbers[name] for name in excluded if name in tree.numbers}
        self.gpus = [-1] * len(tree.order)
        self.sizes = [[0] * len(domains) for domains in tree.by_rank]
        self.free = [[0] * len(domains) for domains in tree.by_rank]
        self.hosts: Counter[int] = Counter()
        self.seen = 0


class Room:
    """The room for one flavor in one cluster while a plan is made; nodes can only be taken."""

    def __init__(self, nodes: Sequence[NodeRoom]) -> None:
        tree = Tree(nodes)
        self._begin(tree, [node.free for node in tree.order], [node.usable for node in tree.order])

    def _begin(self, tree: Tree, free: list[NodeShape], usable: list[bool]) -> None:
        self._tree = tree
        self._free = free
        self._usable = usable
        self._whole = [
            is_usable and left == node.total
            for is_usable, left, node in zip(usable, free, tree.order, strict=True)
        ]
        self._broken = [0] * len(tree.parents)
        for number, whole in enumerate(self._whole):
            if not whole:
                self._break(number)
        self._log: list[int] = []
        self._counts: dict[tuple[NodeShape, bool, frozenset[str]], _Counts] = {}
        # Values that tell nodes apart. A superset stays exact, so none is ever removed.
        self._steps = tuple(
            sorted({_dimension(shape, axis) for shape in set(free)}) for axis in range(3)
        )

    @cached_property
    def at_rest(self) -> "Room":
        """The same nodes, all usable and nothing taken: what can never fit, fails here too."""
        room = Room.__new__(Room)
        order = self._tree.order
        room._begin(self._tree, [node.total for node in order], [True] * len(order))
        return room

    @property
    def free_gpus(self) -> int:
        """Free GPUs of the usable nodes."""
        return sum(
            free.gpus for free, is_usable in zip(self._free, self._usable, strict=True) if is_usable
        )

    def fit(
        self, shape: GangShape, required: str = "", excluded: frozenset[str] = NOTHING
    ) -> Fit | None:
        """The lowest tier that holds the gang, and how tight its tightest block there is."""
        counts = self._counted(shape, excluded)
        for rank in self._ranks(shape, required):
            if rank == HOST:
                if counts.hosts:
                    return Fit(HOST, min(counts.hosts) - shape.gpus)
            elif max(counts.sizes[rank]) >= shape.nodes:
                return Fit(rank, self._tightest(counts, rank, shape.nodes) - shape.gpus)
        return None

    def best_block(
        self, shape: GangShape, required: str = "", excluded: frozenset[str] = NOTHING
    ) -> Block | None:
        """The block the gang should take, or None when none holds it whole.

        The lowest tier that fits; there the tightest block (fewest candidate GPUs left over), then
        the one that breaks the fewest wholly free domains, then the first in name order. Inside,
        the fewest sub-domains are opened and the rest goes where it leaves least. `required` is the
        widest tier allowed, "" for any; `excluded` nodes are left alone.
        """
        fit = self.fit(shape, required, excluded)
        if fit is None:
            return None
        counts = self._counted(shape, excluded)
        tightest = fit.leftover + shape.gpus
        growth = self._growth()
        if fit.rank == HOST:
            chosen = [self._tightest_host(counts, tightest, growth)]
        else:
            sizes, free = counts.sizes[fit.rank], counts.free[fit.rank]
            domains = self._tree.by_rank[fit.rank]
            equal = (
                domain
                for slot, domain in enumerate(domains)
                if free[slot] == tightest and sizes[slot] >= shape.nodes
            )
            domain = min(equal, key=lambda d: (growth[d], d))
            chosen = sorted(self._inside(domain, shape.nodes, counts, growth))
        order = self._tree.order
        return Block(tuple(order[n].name for n in chosen), TIERS[fit.rank], fit.leftover)

    def widest(
        self, shape: GangShape, required: str = "", excluded: frozenset[str] = NOTHING
    ) -> int:
        """The most members of the gang that one allowed domain could hold now (0 = none)."""
        counts = self._counted(shape, excluded)
        ranks = list(self._ranks(replace(shape, nodes=2), required))
        if ranks:
            return max(max(counts.sizes[rank]) for rank in ranks)
        return min(1, sum(counts.hosts.values()))

    def take(self, nodes: Iterable[str], shape: GangShape) -> None:
        """Give a member to each of the nodes."""
        for name in nodes:
            number = self._tree.numbers[name]
            free = self._free[number]
            left = _taken(free, shape)
            assert min(left.gpus, left.cpus, left.memory_mib) >= 0, f"{name} has not enough free"
            self._free[number] = left
            if self._whole[number]:
                self._whole[number] = False
                self._break(number)
            self._log.append(number)
            for axis, steps in enumerate(self._steps):
                value = _dimension(left, axis)
                place = bisect_left(steps, value)
                if place == len(steps) or steps[place] != value:
                    insort(steps, value)

    def free_blocks(self) -> Mapping[str, int]:
        """By tier, the most GPUs on wholly free nodes that share one domain of it."""
        return self._blocks(self._whole)

    def fragmentation(self, tier: str) -> float:
        """0 to 1: how much smaller the largest free block of a tier is than it could be.

        1 - largest free block / min(free GPUs, GPUs of the tier's largest domain). An empty
        cluster has 0, so has a full one; a tier the cluster lacks has 0.
        """
        usable = self._blocks(self._usable)
        best = min(self.free_gpus, usable.get(tier, 0))
        return 1 - self.free_blocks()[tier] / best if best else 0.0

    def _blocks(self, counted: Sequence[bool]) -> dict[str, int]:
        tree = self._tree
        sums = [0] * len(tree.parents)
        widest_host = 0
        for number, node in enumerate(tree.order):
            if counted[number]:
                widest_host = max(widest_host, node.total.gpus)
                for domain in tree.chains[tree.home[number]]:
                    sums[domain] += node.total.gpus
        blocks = {TIERS[HOST]: widest_host}
        for rank, domains in enumerate(tree.by_rank):
            if domains:
                blocks[TIERS[rank]] = max(sums[domain] for domain in domains)
        return blocks

    def _break(self, number: int) -> None:
        for domain in self._tree.chains[self._tree.home[number]]:
            self._broken[domain] += 1

    def _growth(self) -> list[int]:
        """For each domain, how many wholly free domains (itself and above) taking of it breaks."""
        growth: list[int] = []
        for parent, broken in zip(self._tree.parents, self._broken, strict=True):
            growth.append((growth[parent] if parent >= 0 else 0) + (broken == 0))
        return growth

    def _ranks(self, shape: GangShape, required: str) -> Iterator[int]:
        """The ranks that may hold the gang, lowest first; one node is its own host."""
        if shape.nodes == 1:
            yield HOST
            return
        widest = RANK[required] if required else CLUSTER
        yield from (rank for rank in range(1, widest + 1) if self._tree.by_rank[rank])

    def _counted(self, shape: GangShape, excluded: frozenset[str]) -> _Counts:
        """The counts for a kind of ask, up to date."""
        need = self._rounded(shape.per_node)
        key = (need, shape.exclusive, excluded)
        counts = self._counts.get(key)
        if counts is None:
            counts = _Counts(self._tree, need, exclusive=shape.exclusive, excluded=excluded)
            self._recount(counts, range(len(self._free)))
            self._counts[key] = counts  # complete before other threads see it
        elif counts.seen < len(self._log):
            self._recount(counts, set(self._log[counts.seen :]))
        counts.seen = len(self._log)
        return counts

    def _rounded(self, need: NodeShape) -> NodeShape:
        """The need raised to the next values that tell nodes apart: the same nodes satisfy both."""
        values = []
        for axis, steps in enumerate(self._steps):
            value = _dimension(need, axis)
            place = bisect_left(steps, value)
            values.append(steps[place] if place < len(steps) else value)
        return NodeShape(*values)

    def _recount(self, counts: _Counts, numbers: Iterable[int]) -> None:
        tree, hosts, gpus = self._tree, counts.hosts, counts.gpus
        for number in numbers:
            before, after = gpus[number], self._candidate(counts, number)
            if before == after:
                continue
            gpus[number] = after
            size = (after >= 0) - (before >= 0)
            free = max(after, 0) - max(before, 0)
            if before >= 0:
                hosts[before] -= 1
                if not hosts[before]:
                    del hosts[before]
            if after >= 0:
                hosts[after] += 1
            for domain in tree.chains[tree.home[number]]:
                rank, slot = tree.ranks[domain], tree.slots[domain]
                counts.sizes[rank][slot] += size
                counts.free[rank][slot] += free

    def _candidate(self, counts: _Counts, number: int) -> int:
        """The node's free GPUs if it can take a member, else -1."""
        free, need = self._free[number], counts.need
        if (
            free.gpus < need.gpus
            or free.cpus < need.cpus
            or free.memory_mib < need.memory_mib
            or not self._usable[number]
            or (counts.exclusive and not self._whole[number])
            or number in counts.excluded
        ):
            return -1
        return free.gpus

    @staticmethod
    def _tightest(counts: _Counts, rank: int, nodes: int) -> int:
        sizes = zip(counts.sizes[rank], counts.free[rank], strict=True)
        return min(free for size, free in sizes if size >= nodes)

    def _tightest_host(self, counts: _Counts, gpus: int, growth: Sequence[int]) -> int:
        home = self._tree.home
        return min(
            (number for number, free in enumerate(counts.gpus) if free == gpus),
            key=lambda n: (growth[home[n]] + self._whole[n], n),
        )

    def _inside(
        self, domain: int, nodes: int, counts: _Counts, growth: Sequence[int]
    ) -> Iterator[int]:
        """The nodes to take of a domain that holds them: few sub-domains, the rest tightest."""
        tree = self._tree
        parts = [
            (-counts.sizes[rank][slot], counts.free[rank][slot], growth[child], child, True)
            for child in tree.children[domain]
            for rank, slot in ((tree.ranks[child], tree.slots[child]),)
            if counts.sizes[rank][slot]
        ] + [
            (-1, counts.gpus[host], growth[domain], host, False)
            for host in tree.hosts[domain]
            if counts.gpus[host] >= 0
        ]
        parts.sort()
        while nodes > -parts[0][0]:
            size, _, _, part, is_domain = parts.pop(0)
            nodes += size
            yield from self._inside(part, -size, counts, growth) if is_domain else (part,)
        _, _, part, is_domain = min(part[1:] for part in parts if -part[0] >= nodes)
        yield from self._inside(part, nodes, counts, growth) if is_domain else (part,)


def _dimension(shape: NodeShape, axis: int) -> int:
    return (shape.gpus, shape.cpus, shape.memory_mib)[axis]


def _taken(free: NodeShape, shape: GangShape) -> NodeShape:
    if shape.exclusive:
        return NodeShape(0, 0, 0)
    need = shape.per_node
    return NodeShape(
        free.gpus - need.gpus, free.cpus - need.cpus, free.memory_mib - need.memory_mib
    )

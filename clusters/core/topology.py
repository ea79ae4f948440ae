"""The room of one cluster for one flavor: free blocks, best fit, fragmentation.

A required tier that a cluster lacks is met there only by a lower tier that it has: nodes that share
a leaf also share whatever lies above it.

A `Room` counts incrementally: for each kind of ask it keeps the candidate nodes of every domain
and catches up with the nodes taken since it was last asked, so that a gang costs no scan of all
nodes. Kinds that no node tells apart share their counts.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from clusters.core.counts import Counts, Fit
from clusters.core.domains import CLUSTER, HOST, RANK, TIERS, NodeRoom, Tree
from clusters.core.resources import GangShape, NodeShape

__all__ = ["NOTHING", "RANK", "TIERS", "Block", "Fit", "NodeRoom", "Room"]

NOTHING: frozenset[str] = frozenset()
_Kind = tuple[NodeShape, bool, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Block:
    """Where a gang would go: its nodes in rank order and the lowest tier that holds them all.

    `leftover` is what the block's candidate nodes keep free, in GPUs.
    """

    nodes: tuple[str, ...]
    tier: str
    leftover: int


class Room:
    """The room for one flavor in one cluster while a plan is made; nodes can only be taken."""

    def __init__(self, nodes: Sequence[NodeRoom]) -> None:
        tree = Tree(nodes)
        self._begin(tree, [node.free for node in tree.order], [node.usable for node in tree.order])

    def _begin(self, tree: Tree, free: Sequence[NodeShape], usable: Sequence[bool]) -> None:
        self._tree = tree
        self._usable = list(usable)
        # By dimension (GPUs, CPUs, MiB), what is free of each node; a node not usable has -1.
        pairs = list(zip(usable, free, strict=True))
        self._free = (
            [left.gpus if is_usable else -1 for is_usable, left in pairs],
            [left.cpus if is_usable else -1 for is_usable, left in pairs],
            [left.memory_mib if is_usable else -1 for is_usable, left in pairs],
        )
        self._whole = [True] * len(pairs)
        self._broken = [0] * len(tree.parents)
        for number, (is_usable, left) in enumerate(pairs):
            self._mark(number, whole=is_usable and left == tree.order[number].total)
        self._log: list[int] = []
        self._counts: dict[_Kind, Counts] = {}  # by the rounded need
        self._known: dict[_Kind, Counts] = {}  # by the need as asked, until a step is added
        # Values that tell nodes apart. A superset stays exact, so none is ever removed.
        self._steps = tuple(sorted(set(values)) for values in self._free)

    @cached_property
    def at_rest(self) -> "Room":
        """The same nodes, all usable and nothing taken: what can never fit, fails here too."""
        room = Room.__new__(Room)
        order = self._tree.order
        room._begin(self._tree, [node.total for node in order], [True] * len(order))
        return room

    def with_free(self, free: Mapping[str, NodeShape]) -> "Room":
        """The same nodes in a room of their own, where the named ones have other room."""
        room = Room.__new__(Room)
        room._tree, room._usable = self._tree, self._usable
        room._whole, room._broken = list(self._whole), list(self._broken)
        room._free = (list(self._free[0]), list(self._free[1]), list(self._free[2]))
        room._log, room._counts, room._known = [], {}, {}
        room._steps = tuple(map(list, self._steps))
        for number, left in ((self._tree.numbers[name], left) for name, left in free.items()):
            if self._usable[number]:
                room._set(number, left)
        return room

    def _set(self, number: int, left: NodeShape) -> None:
        """Give a usable node that nobody has counted yet other room."""
        for axis, value in enumerate(left):
            self._free[axis][number] = value
            self._add_step(axis, value)
        self._mark(number, whole=left == self._tree.order[number].total)

    @property
    def free_gpus(self) -> int:
        """Free GPUs of the usable nodes."""
        return sum(gpus for gpus in self._free[0] if gpus > 0)

    def fit(
        self, shape: GangShape, required: str = "", excluded: frozenset[str] = NOTHING
    ) -> Fit | None:
        """The lowest tier that holds the gang, and how tight its tightest block there is."""
        counts, asked = self._counted(shape, excluded), (shape.nodes, required)
        if asked in counts.fits:
            tightest = counts.fits[asked]
        else:
            tightest = counts.fits[asked] = self._tightest(counts, *asked)
        return Fit(tightest.rank, tightest.leftover - shape.gpus) if tightest else None

    def _tightest(self, counts: Counts, nodes: int, required: str) -> Fit | None:
        """How so many candidates would fit, if they took nothing of their block."""
        if nodes == 1:  # one node is its own host
            return Fit(HOST, min(counts.hosts)) if counts.hosts else None
        for rank in self._ranks(required):
            if counts.most(rank) >= nodes:
                sizes = zip(counts.sizes[rank], counts.free[rank], strict=True)
                return Fit(rank, min([free for size, free in sizes if size >= nodes]))
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
    ) -> tuple[int, int]:
        """The most members of the gang that one allowed domain could hold now, and the cluster."""
        counts = self._counted(shape, excluded)
        found = counts.widest.get(required)
        if found is None:
            anywhere = counts.sizes[CLUSTER][0]
            together = map(counts.most, self._ranks(required))
            found = counts.widest[required] = max(together, default=min(1, anywhere)), anywhere
        return found

    def take(self, nodes: Collection[str], shape: GangShape) -> None:
        """Give a member to each of the nodes."""
        assert self.holds(nodes, shape), "one of the nodes has not enough free"
        self.keep(nodes, shape)

    def _add_step(self, axis: int, value: int) -> None:
        steps = self._steps[axis]
        place = bisect_left(steps, value)
        if place == len(steps) or steps[place] != value:
            insort(steps, value)
            self._known.clear()

    def holds(self, nodes: Iterable[str], shape: GangShape) -> bool:
        """Whether each of the nodes has room for a member of the gang now."""
        asked = shape.per_node
        return all(
            all(values[number] >= need for values, need in zip(self._free, asked, strict=True))
            and (self._whole[number] or not shape.exclusive)
            for number in map(self._tree.numbers.__getitem__, nodes)
        )

    def keep(self, nodes: Iterable[str], shape: GangShape) -> int:
        """Set a member aside on each of the nodes as far as there is room; the GPUs set aside.

        What the nodes lack is still held by others. A node of an exclusive gang is set aside whole.
        """
        gpus = 0
        for name in nodes:
            number = self._tree.numbers[name]
            gpus += self._free[0][number]
            for axis, need in enumerate(shape.per_node):
                values = self._free[axis]
                values[number] = 0 if shape.exclusive else max(0, values[number] - need)
                self._add_step(axis, values[number])
            gpus -= self._free[0][number]
            self._mark(number, whole=False)
            self._log.append(number)
        return gpus

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

    def _mark(self, number: int, *, whole: bool) -> None:
        """Note whether nothing is taken of a node."""
        if self._whole[number] != whole:
            for domain in self._tree.chains[self._tree.home[number]]:
                self._broken[domain] += self._whole[number] - whole
            self._whole[number] = whole

    def _growth(self) -> list[int]:
        """For each domain, how many wholly free domains (itself and above) taking of it breaks."""
        growth: list[int] = []
        for parent, broken in zip(self._tree.parents, self._broken, strict=True):
            growth.append((growth[parent] if parent >= 0 else 0) + (broken == 0))
        return growth

    def _ranks(self, required: str) -> Iterator[int]:
        """The ranks above the host that may hold a gang, lowest first."""
        widest = RANK[required] if required else CLUSTER
        return (rank for rank in range(1, widest + 1) if self._tree.by_rank[rank])

    def _counted(self, shape: GangShape, excluded: frozenset[str]) -> Counts:
        """The counts for a kind of ask, up to date."""
        kind = (shape.per_node, shape.exclusive, excluded)
        counts = self._known.get(kind)
        if counts is None:
            key = (self._rounded(shape.per_node), shape.exclusive, excluded)
            counts = self._counts.get(key)
            if counts is None:
                counts = Counts(self._tree, key[0], exclusive=key[1], excluded=excluded)
                self._count(counts)
                counts.seen = len(self._log)
            self._known[kind] = self._counts[key] = counts  # complete before other threads see it
        if counts.seen < len(self._log):
            self._recount(counts, set(self._log[counts.seen :]))
            counts.seen = len(self._log)
        return counts

    def _rounded(self, need: NodeShape) -> NodeShape:
        """The need raised to the next values that tell nodes apart: the same nodes satisfy both."""
        values = []
        for steps, value in zip(self._steps, need, strict=True):
            place = bisect_left(steps, value)
            values.append(steps[place] if place < len(steps) else value)
        return NodeShape(*values)

    def _count(self, counts: Counts) -> None:
        """Count all nodes: first where they are at home, then upwards."""
        tree, need = self._tree, counts.need
        asked, cpus_asked, memory_asked = need
        counts.gpus = [
            gpus if gpus >= asked and cpus >= cpus_asked and memory >= memory_asked else -1
            for gpus, cpus, memory in zip(*self._free, strict=True)
        ]
        if counts.exclusive or counts.excluded:
            for number, whole in enumerate(self._whole):
                if number in counts.excluded or (counts.exclusive and not whole):
                    counts.gpus[number] = -1
        sizes, free = [0] * len(tree.parents), [0] * len(tree.parents)
        at_home = zip(tree.home, counts.gpus, strict=True)
        candidates = [(home, gpus) for home, gpus in at_home if gpus >= 0]
        for home, gpus in candidates:
            sizes[home] += 1
            free[home] += gpus
        for domain in range(len(sizes) - 1, 0, -1):
            sizes[tree.parents[domain]] += sizes[domain]
            free[tree.parents[domain]] += free[domain]
        counts.sizes = [[sizes[domain] for domain in domains] for domains in tree.by_rank]
        counts.free = [[free[domain] for domain in domains] for domains in tree.by_rank]
        counts.hosts = Counter([gpus for _, gpus in candidates])

    def _recount(self, counts: Counts, numbers: Iterable[int]) -> None:
        """Count the nodes that were taken since: they have less, or are candidates no more."""
        tree, hosts, gpus = self._tree, counts.hosts, counts.gpus
        asked, cpus_asked, memory_asked = counts.need
        free, free_cpus, free_memory = self._free
        counts.forget()
        for number in numbers:
            before = gpus[number]
            stays = (
                free[number] >= asked
                and free_cpus[number] >= cpus_asked
                and free_memory[number] >= memory_asked
                and not counts.exclusive  # something was taken of the node
                and number not in counts.excluded
            )
            after = free[number] if stays else -1
            if before == after:
                continue
            gpus[number] = after
            hosts[before] -= 1
            if not hosts[before]:
                del hosts[before]
            if after >= 0:
                hosts[after] += 1
            lost, less = int(after < 0), before - max(after, 0)
            for domain in tree.chains[tree.home[number]]:
                rank, slot = tree.ranks[domain], tree.slots[domain]
                counts.sizes[rank][slot] -= lost
                counts.free[rank][slot] -= less

    def _tightest_host(self, counts: Counts, gpus: int, growth: Sequence[int]) -> int:
        home = self._tree.home
        return min(
            (number for number, free in enumerate(counts.gpus) if free == gpus),
            key=lambda n: (growth[home[n]] + self._whole[n], n),
        )

    def _inside(
        self, domain: int, nodes: int, counts: Counts, growth: Sequence[int]
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

"""What a room counts for one kind of ask: its candidate nodes, in every domain."""

from collections import Counter
from typing import NamedTuple

from clusters.core.domains import Tree
from clusters.core.resources import NodeShape


class Fit(NamedTuple):
    """That a gang fits: the rank of the tier, and the GPUs left over in its block; less is better."""

    rank: int
    leftover: int


class Counts:
    """The candidate nodes of one kind of ask, counted in every domain.

    `gpus[i]` is the free GPUs of candidate i, -1 for a node that cannot take a member; `sizes` and
    `free` are candidates and their free GPUs by rank and slot; `hosts` counts candidates by their
    free GPUs. `seen` is how much of the room's log of changed nodes is counted. What was asked since
    is kept: `largest` is the most candidates of a domain by rank, `fits` are the tightest blocks by
    nodes and required tier, `widest` by required tier the most nodes of a domain and in all.
    """

    __slots__ = (
        "excluded", "exclusive", "fits", "free", "gpus", "hosts", "largest", "need", "seen", "sizes",
        "widest",
    )  # fmt: skip

    def __init__(
        self, tree: Tree, need: NodeShape, *, exclusive: bool, excluded: frozenset[str]
    ) -> None:
        self.need = need
        self.exclusive = exclusive
        self.excluded = {tree.numbers[name] for name in excluded if name in tree.numbers}
        self.gpus: list[int] = []
        self.sizes: list[list[int]] = []
        self.free: list[list[int]] = []
        self.hosts: Counter[int] = Counter()
        self.largest: dict[int, int] = {}
        self.fits: dict[tuple[int, str], Fit | None] = {}
        self.widest: dict[str, tuple[int, int]] = {}
        self.seen = 0

    def forget(self) -> None:
        """Forget what was asked, as the counts change."""
        self.largest.clear()
        self.fits.clear()
        self.widest.clear()

    def most(self, rank: int) -> int:
        """The most candidates that one domain of the rank holds."""
        found = self.largest.get(rank)
        if found is None:
            found = self.largest[rank] = max(self.sizes[rank])
        return found

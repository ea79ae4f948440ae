"""Nodes drawn where they are: outer domains (spines), inner ones (leaves), a tile for each node."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from federation.models import Job
from federation.selectors.load import Load, NodeLoad


@dataclass(frozen=True, slots=True)
class Tile:
    """One node. `job` is set when one of its jobs may be seen; `is_here` marks it."""

    node: NodeLoad
    job: Job | None
    is_here: bool

    @property
    def words(self) -> str:
        """What the tile shows, for those who do not see it."""
        load = self.node.load
        parts = [f"{load.gpus} GPUs"]
        parts += [f"{gpus} {kind}" for kind, gpus in self._counts(load) if gpus]
        if not self.node.is_up:
            parts.append(f"takes no work ({self.node.why or self.node.state})")
        if self.job is not None:
            parts.append(f"runs {self.job.name or self.job.uuid}")
        return ", ".join(parts)

    @staticmethod
    def _counts(load: Load) -> tuple[tuple[str, int], ...]:
        return (("ours", load.ours), ("foreign", load.foreign), ("free", load.free))


@dataclass(frozen=True, slots=True)
class Inner:
    """A lowest domain (a leaf) and its nodes."""

    title: str
    tiles: tuple[Tile, ...]

    @property
    def load(self) -> Load:
        """What its nodes carry."""
        return sum((tile.node.load for tile in self.tiles), Load())

    @property
    def has_here(self) -> bool:
        """Whether a node of it is marked."""
        return any(tile.is_here for tile in self.tiles)


@dataclass(frozen=True, slots=True)
class Outer:
    """What lies above the leaves (a spine); an empty title when the tree has one level."""

    title: str
    inner: tuple[Inner, ...]


def draw(
    nodes: Iterable[NodeLoad],
    jobs: Mapping[int, Job],
    here: Collection[str] = (),
) -> list[Outer]:
    """The nodes (in topology order) as a drawing. `jobs` are those that may be named."""
    drawing = []
    for above, spine in groupby(nodes, key=lambda node: node.path[:-1]):
        leaves = [
            Inner(
                title=" ".join(last) if last else "No topology known",
                tiles=tuple(_tile(node, jobs, here) for node in leaf),
            )
            for last, leaf in groupby(spine, key=lambda node: node.path[-1] if node.path else None)
        ]
        drawing.append(Outer(" · ".join(" ".join(step) for step in above), tuple(leaves)))
    return drawing


def around(drawing: Iterable[Outer]) -> list[Outer]:
    """Only the leaves that hold a marked node."""
    kept = [
        Outer(outer.title, tuple(leaf for leaf in outer.inner if leaf.has_here))
        for outer in drawing
    ]
    return [outer for outer in kept if outer.inner]


def _tile(node: NodeLoad, jobs: Mapping[int, Job], here: Collection[str]) -> Tile:
    job = next((jobs[key] for key in node.jobs if key in jobs), None)
    return Tile(node, job, node.name in here)

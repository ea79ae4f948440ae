"""What was made of a cluster's rows last time, so that a reading makes only what changed.

Of a large cluster's thousands of jobs and nodes few change between two readings. A row whose text is
one of last time's is not even parsed. Kept per process and endpoint.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

from clusters.backends.slurm import gres
from clusters.backends.slurm.read import (
    JOB,
    NODE,
    JobRow,
    controller_job,
    node,
    others_job,
    usage_by_node,
)
from clusters.backends.slurm.topology import Topology
from clusters.backends.slurm.values import Decoder, Json, number, parsed
from clusters.core.backend import Connection
from clusters.core.observation import NodeSeen
from clusters.core.resources import NodeShape
from kit.ids import is_fence

T = TypeVar("T")


class SeenJob(NamedTuple):
    """A job of the controller, and what it holds of each of its nodes while it holds them."""

    row: JobRow
    usage: Mapping[str, NodeShape]


class SeenNode(NamedTuple):
    """A node, its GPUs in use by its own word, and its hardware threads a core."""

    node: NodeSeen
    gpus_used: int
    threads: int


class Memo(Generic[T]):
    """Values made of rows, by the row's text. Rows that were not among the last are forgotten."""

    def __init__(self, fields: Decoder, make: Callable[[Json], T]) -> None:
        self._fields, self._make = fields, make
        self._kept: dict[bytes, T] = {}

    def of(self, texts: Iterable[bytes]) -> list[T]:
        """The values of these rows; made only where the text differs from all of the last time."""
        kept: dict[bytes, T] = {}
        values: list[T] = []
        for text in texts:
            key = blake2b(text, digest_size=16).digest()
            known = key in self._kept
            kept[key] = self._kept[key] if known else self._make(parsed(text, self._fields))
            values.append(kept[key])
        self._kept = kept
        return values


class Readings:
    """The memos of one cluster under one configuration."""

    def __init__(self, connection: Connection) -> None:
        self.options = dict(connection.options)
        self._topology = Topology(self.options)
        self._nodes = Memo(NODE, self._node)
        self._jobs = Memo(JOB, self._job)
        self._threads: dict[str, int] = {}

    def nodes(self, texts: Iterable[bytes]) -> list[SeenNode]:
        """Nodes; read before the jobs, which need their threads."""
        seen = self._nodes.of(texts)
        threads = {one.node.name: one.threads for one in seen}
        if threads != self._threads:
            self._threads = threads
            self._jobs = Memo(JOB, self._job)
        return seen

    def jobs(self, texts: Iterable[bytes]) -> list[SeenJob]:
        """Jobs of the controller."""
        return self._jobs.of(texts)

    def _node(self, raw: Json) -> SeenNode:
        used = gres.count(raw.get("gres_used"))
        return SeenNode(node(raw, self._topology), used, number(raw.get("threads")) or 1)

    def _job(self, raw: Json) -> SeenJob:
        may_be_ours = raw.get("comment") or is_fence(str(raw.get("name")))
        row = controller_job(raw) if may_be_ours else others_job(raw)
        threads = self._threads.get(row.nodes[0], 1) if row.nodes else 1
        return SeenJob(row, usage_by_node(raw, threads) if row.state.holds_nodes else {})


_READINGS: dict[str, Readings] = {}


def forget() -> None:
    """Know as much as a process that has read nothing yet."""
    _READINGS.clear()


def readings_of(connection: Connection) -> Readings:
    """The memos of a cluster; new ones when its options changed.

    Raises:
        ValueError, re.error: the options' expressions or topology.conf cannot be read.
    """
    known = _READINGS.get(connection.endpoint)
    if known is None or known.options != dict(connection.options):
        known = _READINGS[connection.endpoint] = Readings(connection)
    return known

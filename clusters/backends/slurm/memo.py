"""What was made of a cluster's rows last time, so that a reading makes only what changed.

Of a large cluster's thousands of jobs and nodes few change between two readings, and comparing the
fields that matter costs a tenth of making our values of them anew. Kept per process and endpoint.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from clusters.backends.slurm import gres
from clusters.backends.slurm.read import JobRow, controller_job, node, usage_by_node
from clusters.backends.slurm.topology import Topology
from clusters.backends.slurm.values import Json, number
from clusters.core.backend import Connection
from clusters.core.observation import NodeSeen
from clusters.core.resources import NodeShape

T = TypeVar("T")

# Whatever `controller_job` and `usage_by_node` read, and `node`: a test holds these complete.
JOB_FIELDS = (
    "job_id", "name", "user_name", "comment", "job_state", "state_reason", "hold", "nodes",
    "required_nodes", "start_time", "end_time", "submit_time", "exit_code", "restart_cnt",
    "tres_alloc_str", "tres_req_str", "gres_detail", "job_resources",
)  # fmt: skip
NODE_FIELDS = (
    "name", "gres", "gres_used", "active_features", "features", "state", "state_flags",
    "effective_cpus", "cpus", "real_memory", "partitions", "reason", "threads",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job of the controller, and what it holds of each of its nodes while it holds them."""

    row: JobRow
    usage: Mapping[str, NodeShape]


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node, its GPUs in use by its own word, and its hardware threads a core."""

    node: NodeSeen
    gpus_used: int
    threads: int


class Memo(Generic[T]):
    """Values made of raw rows, by key. Rows that were not among the last ones are forgotten."""

    def __init__(self, key: str, fields: Sequence[str]) -> None:
        self._key = key
        self._fields = fields
        self._kept: dict[object, tuple[tuple[object, ...], T]] = {}

    def of(self, rows: Iterable[Json], make: Callable[[Json], T]) -> list[T]:
        """The values of these rows; made only where a field differs from the last time."""
        values: list[T] = []
        kept: dict[object, tuple[tuple[object, ...], T]] = {}
        for raw in rows:
            key, facts = str(raw.get(self._key)), tuple(map(raw.get, self._fields))
            known = self._kept.get(key)
            if known is None or known[0] != facts:
                known = (facts, make(raw))
            kept[key] = known
            values.append(known[1])
        self._kept = kept
        return values


class Readings:
    """The memos of one cluster under one configuration."""

    def __init__(self, connection: Connection) -> None:
        self.options = dict(connection.options)
        self._topology = Topology(self.options)
        self._nodes: Memo[SeenNode] = Memo("name", NODE_FIELDS)
        self._jobs: Memo[SeenJob] = Memo("job_id", JOB_FIELDS)
        self._threads: dict[str, int] = {}

    def nodes(self, rows: Iterable[Json]) -> list[SeenNode]:
        """Nodes; read before the jobs, which need their threads."""
        seen = self._nodes.of(rows, self._node)
        threads = {one.node.name: one.threads for one in seen}
        if threads != self._threads:
            self._threads = threads
            self._jobs = Memo("job_id", JOB_FIELDS)
        return seen

    def jobs(self, rows: Iterable[Json]) -> list[SeenJob]:
        """Jobs of the controller."""
        return self._jobs.of(rows, self._job)

    def _node(self, raw: Json) -> SeenNode:
        used = gres.count(raw.get("gres_used"))
        return SeenNode(node(raw, self._topology), used, number(raw.get("threads")) or 1)

    def _job(self, raw: Json) -> SeenJob:
        row = controller_job(raw)
        threads = self._threads.get(row.nodes[0], 1) if row.nodes else 1
        return SeenJob(row, usage_by_node(raw, threads) if row.state.holds_nodes else {})


_READINGS: dict[str, Readings] = {}


def readings_of(connection: Connection) -> Readings:
    """The memos of a cluster; new ones when its options changed.

    Raises:
        ValueError, re.error: the options' expressions or topology.conf cannot be read.
    """
    known = _READINGS.get(connection.endpoint)
    if known is None or known.options != dict(connection.options):
        known = _READINGS[connection.endpoint] = Readings(connection)
    return known

"""What one bulk read of a cluster says, in our words.

Times are milliseconds since the epoch on the cluster's own clock, except `begun_ms`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from clusters.core.checkpoint_note import noted_step

MOST_SKEW_MS = 2**31 - 1
ACCOUNTING_LAG_MS = 60_000  # what a cluster's accounting has not heard by then it never hears


class NodeState(StrEnum):
    """Whether a node can take new work."""

    UP = "up"
    DRAINING = "draining"
    DOWN = "down"
    UNKNOWN = "unknown"


class GangState(StrEnum):
    """The backend's word for an attempt, told apart only as far as decisions need it."""

    HELD = "held"
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    NODE_FAILED = "node_failed"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def is_final(self) -> bool:
        """Whether this run is over for good."""
        return self in _FINAL

    @property
    def holds_nodes(self) -> bool:
        """Whether the backend has given nodes to this run."""
        return self in {GangState.STARTING, GangState.RUNNING, GangState.ENDING}


_FINAL = {
    GangState.SUCCEEDED,
    GangState.FAILED,
    GangState.TIMED_OUT,
    GangState.NODE_FAILED,
    GangState.PREEMPTED,
    GangState.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One node. `device` and `gpus` are its GPU kind and count; `path` its domains, widest first.

    `path` holds (tier, domain name) pairs in the cluster's own tier names; the node itself is not
    part of it.
    """

    name: str
    state: NodeState
    device: str
    gpus: int
    cpus: int
    memory_mib: int
    path: tuple[tuple[str, str], ...]
    queues: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One stay of an attempt on nodes: [start, end), end None while it lasts.

    A requeue by the backend makes a second run of the same attempt.
    """

    start_ms: int
    end_ms: int | None
    gpus: int
    nodes: tuple[str, ...]
    state: GangState


def clock_skew_ms(cluster_ms: int, our_ms: int) -> int:
    """How far a cluster's clock is ahead of ours; 24 days either way is the most that is kept."""
    return max(-MOST_SKEW_MS, min(cluster_ms - our_ms, MOST_SKEW_MS))


@dataclass(frozen=True, slots=True)
class GangSeen:
    """One object on the backend that bears a fence of ours.

    `runs` are all of its stays on nodes, unless not `is_whole`: earlier ones are not told yet, for
    accounting is away or lags. `pinned` are the nodes it was submitted for; it is not kept with the
    reading. `broken` is how it will end: a member is lost, and nobody there ends the others.
    """

    fence: str
    backend_id: str
    state: GangState
    reason: str
    account: str
    nodes: tuple[str, ...]
    gpus: int
    submitted_ms: int | None
    started_ms: int | None
    ended_ms: int | None
    exit_code: int | None
    comment: str = ""
    runs: tuple[Run, ...] = ()
    pinned: tuple[str, ...] = ()
    is_whole: bool = True
    broken: GangState | None = None

    @property
    def checkpoint_step(self) -> int | None:
        """The step that the job says to have saved, in its comment; None = it says none."""
        return noted_step(self.comment)


@dataclass(frozen=True, slots=True)
class ForeignLoad:
    """What others hold and wait for: GPUs by node (also CPUs and MiB), and job counts."""

    gpus: Mapping[str, int] = field(default_factory=dict)
    cpus: Mapping[str, int] = field(default_factory=dict)
    memory_mib: Mapping[str, int] = field(default_factory=dict)
    running: int = 0
    pending: int = 0
    pending_gpus: int = 0


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A member queue or partition: open or not, its nodes' count, its longest time limit (s)."""

    name: str
    is_open: bool
    nodes: int
    max_time_s: int | None


@dataclass(frozen=True, slots=True)
class ReservationSeen:
    """A reservation made by the member's own admin: these nodes are not ours in [start, end)."""

    name: str
    nodes: tuple[str, ...]
    start_ms: int
    end_ms: int
    is_maintenance: bool


@dataclass(frozen=True, slots=True)
class Observation:
    """One bulk read. `begun_ms` is our clock before the first request.

    `accounting_answered` False means that an absent gang proves nothing. `namesakes` are living
    objects named like ours that bear no Muster's mark: never touched, shown to admins.
    """

    begun_ms: int
    cluster_ms: int
    nodes: tuple[NodeSeen, ...]
    queues: tuple[QueueSeen, ...]
    reservations: tuple[ReservationSeen, ...]
    gangs: tuple[GangSeen, ...]
    foreign: ForeignLoad
    accounting_answered: bool
    namesakes: tuple[GangSeen, ...] = ()

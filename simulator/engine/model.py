"""What a cluster consists of: jobs, their runs, nodes, and the world that holds them.

Times are integer milliseconds UTC. Every visible change gets a number of its own (`revision`), so
that whoever renders a row may keep it until then.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from simulator.config import Cluster, Foreign
from simulator.engine.constraints import Constraint
from simulator.engine.program import Program


class State(StrEnum):
    """Job states, with Slurm's own names; REQUEUED is only ever a run's, in accounting."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    REQUEUED = "REQUEUED"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for; None where nothing was said. Memory in MB, time limit in minutes."""

    user: str
    uid: int
    name: str
    account: str
    partition: str
    qos: str
    script: str
    nodes_min: int = 1
    nodes_max: int = 0
    tasks: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus_per_node: int = 0
    gpu_type: str = ""
    gres: str = ""
    memory_per_node_mb: int | None = None
    memory_per_cpu_mb: int | None = None
    constraints: str = ""
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    time_limit: int = 0
    nice: int | None = None
    priority: int | None = None
    hold: bool = False
    dependency: str = ""
    begin_ms: int = 0
    requeue: bool = True
    exclusive: bool = False
    comment: str = ""
    directory: str = ""
    standard_output: str = ""
    standard_error: str = ""
    standard_input: str = ""
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """Whole nodes wanted and, on each of them, GPUs, CPUs and memory (MB)."""

    nodes: int
    gpus: int
    cpus: int
    memory_mb: int
    exclusive: bool
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class Share:
    """What a job holds on one node: GPU indices, CPUs, memory in MB."""

    gpus: tuple[int, ...]
    cpus: int
    memory_mb: int


@dataclass(slots=True, eq=False)
class Run:
    """One run as accounting keeps it; `start_ms` 0 until it starts, `end_ms` 0 until it ends.

    `forgotten_ms` is when the controller struck its job from memory, 0 while it knows it. It has
    the request of its own: a job id may be given out again after a wipe.
    """

    job_id: int
    request: Request
    submit_ms: int
    eligible_ms: int = 0
    start_ms: int = 0
    end_ms: int = 0
    state: State = State.PENDING
    reason: str = "None"
    shares: dict[str, Share] = field(default_factory=dict)
    exit_status: int = 0
    killed_by: str = ""
    priority: int = 0
    restarts: int = 0
    forgotten_ms: int = 0


@dataclass(slots=True, eq=False)
class Stay:
    """What really ran where, whatever slurmctld and accounting know of it; `end_ms` 0: it runs."""

    job_id: int
    user: str
    name: str
    comment: str
    nodes: tuple[str, ...]
    start_ms: int
    end_ms: int = 0


@dataclass(slots=True, eq=False)
class Job:
    """A job in the controller's memory. `exit_status` is a raw wait status (768 = exit code 3)."""

    id: int
    request: Request
    demand: Demand
    program: Program
    run: Run
    association_id: int
    submit_ms: int
    state: State = State.PENDING
    reason: str = "None"
    description: str = ""
    priority: int = 0
    held_by_admin: bool = False
    eligible_ms: int = 0
    start_ms: int = 0
    end_ms: int = 0
    expected_start_ms: int = 0
    last_evaluated_ms: int = 0
    completing: bool = False
    shares: dict[str, Share] = field(default_factory=dict)
    restarts: int = 0
    exit_status: int = 0
    finish_ms: int | None = None
    limit_ms: int = 0
    release_ms: int = 0
    purge_ms: int = 0
    signals: list[tuple[int, int]] = field(default_factory=list)
    stay: Stay | None = None
    revision: int = 0

    @property
    def waiting(self) -> bool:
        """Is it in the queue?"""
        return self.state is State.PENDING

    @property
    def holds_nodes(self) -> bool:
        """Does it hold nodes: running, or completing?"""
        return self.state is State.RUNNING or self.completing


@dataclass(slots=True, eq=False)
class Node:
    """A node. `owners[i]` is the job that holds GPU i, 0 if none.

    `silent_until_ms`: it does not respond until then; `back_at_ms`: it is down until then. 0: not.
    """

    name: str
    index: int
    features: tuple[str, ...]
    cpus: int
    memory_mb: int
    owners: list[int]
    jobs: set[int] = field(default_factory=set)
    cpus_used: int = 0
    memory_used_mb: int = 0
    exclusive_by: int = 0
    down: bool = False
    drain: bool = False
    reason: str = ""
    reason_ms: int = 0
    last_busy_ms: int = 0
    silent_until_ms: int = 0
    back_at_ms: int = 0
    revision: int = 0

    @property
    def available(self) -> bool:
        """May jobs start here?"""
        return not (self.down or self.drain or self.silent_until_ms)


@dataclass(slots=True, eq=False)
class World:
    """A whole cluster at `now_ms`, with what will happen next in `heap`.

    `heap` holds (due, sequence, kind, job id); an event that no longer applies is skipped when it
    comes up. `records` are the runs that accounting keeps, oldest first; `stays` is the truth, which
    no deed rewrites. `by_name` finds jobs of
    one user and name; `able` keeps which nodes could ever hold a demand in a partition. Job ids
    have counted up from `era_first_id` since `era_ms`. `shifts` are (instant, offset): from then on
    the cluster's clock shows so much more. `guests` are (account, user) of foreign jobs' owners.
    `account_limits` are accounts' limits by resource (GrpTRES), which are kept and not enforced;
    `changed_accounts` those that were changed, the last one ahead.
    """

    config: Cluster
    now_ms: int
    nodes: dict[str, Node]
    started_ms: int
    jobs: dict[int, Job] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    by_name: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    able: dict[tuple[str, Demand], dict[str, Node]] = field(default_factory=dict)
    records: list[Run] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    heap: list[tuple[int, int, str, int]] = field(default_factory=list)
    next_job_id: int = 1
    era_ms: int = 0
    era_first_id: int = 1
    sequence: int = 0
    changes: int = 0
    pass_due_ms: int | None = None
    last_pass_ms: int = -1
    paused: bool = False
    jobs_changed_ms: int = 0
    nodes_changed_ms: int = 0
    foreign: Foreign | None = None
    foreign_drawn: int = 0
    guests: list[tuple[str, str]] = field(default_factory=list)
    ambushes: int = 0
    ambush_seconds: int = 0
    accounting_lag_ms: int = 0
    accounting_deaf: bool = False
    shifts: list[tuple[int, int]] = field(default_factory=list)
    account_limits: dict[str, dict[str, int]] = field(default_factory=dict)
    changed_accounts: list[str] = field(default_factory=list)


class RefusedError(Exception):
    """Slurm would not have it: its own error number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

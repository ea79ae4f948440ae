"""What clusters to simulate: dataclasses, their JSON form, and examples.

The JSON form has the same names; what is left out takes the default shown here, and an unknown
name is an error.
"""

import dataclasses
import json
import typing
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any


class ConfigError(Exception):
    """The configuration cannot be used; the text says where and why."""


@dataclass(frozen=True)
class Tier:
    """A level of the network: blocks of so many nodes, lowest level first.

    `nodes` is one size for all blocks or the sizes of the blocks in turn. As in real Slurm, the
    REST side shows a block only as a feature of its nodes: name and number, e.g. `leaf003`.
    """

    name: str
    nodes: int | list[int]
    digits: int = 3


@dataclass(frozen=True)
class Partition:
    """A queue over some or all (`nodes` = "") of the nodes; time limits in minutes."""

    name: str
    nodes: str = ""
    default: bool = False
    max_minutes: int = 20160
    default_minutes: int | None = None


@dataclass(frozen=True)
class User:
    """A UNIX account of the cluster and the Slurm accounts it may charge; the first is default."""

    name: str
    uid: int
    accounts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RunTimes:
    """What a script without directive does: seconds drawn between the two, and how many fail."""

    seconds: list[int] = field(default_factory=lambda: [60, 600])
    failure_percent: int = 0


@dataclass(frozen=True)
class Foreign:
    """A stream of other people's jobs that keeps about `percent` of the nodes busy.

    Each job takes `nodes` (smallest, largest) whole nodes for `seconds` (shortest, longest) of job
    time; every `every_seconds` of job time the stream is topped up.
    """

    percent: int = 25
    nodes: list[int] = field(default_factory=lambda: [1, 2])
    seconds: list[int] = field(default_factory=lambda: [600, 7200])
    every_seconds: int = 120
    users: list[str] = field(default_factory=lambda: ["nadia", "otto"])
    account: str = "physics"
    name: str = "foreign"


@dataclass(frozen=True)
class Token:
    """A bearer token of a Volcano cluster, its owner, and what it may.

    A right is `[group, resource, verb]`, everywhere, or with a namespace as the fourth; "*" is any.
    """

    token: str
    user: str = "admin"
    rights: list[list[str]] = field(default_factory=lambda: [["*", "*", "*"]])


@dataclass(frozen=True)
class Queue:
    """A queue of a Volcano cluster; amounts by resource, as quantities."""

    name: str
    capability: dict[str, str] = field(default_factory=dict)
    deserved: dict[str, str] = field(default_factory=dict)
    parent: str = "root"
    reclaimable: bool = True


@dataclass(frozen=True)
class Volcano:
    """What only a cluster of kind `volcano` has. Queues `root` and `default` are always there."""

    tokens: list[Token] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=lambda: ["team"])
    queues: list[Queue] = field(default_factory=list)
    priority_classes: dict[str, int] = field(default_factory=dict)
    gpu_resource: str = "nvidia.com/gpu"
    schedule_period_ms: int = 1000


@dataclass(frozen=True)
class Cluster:
    """One simulated cluster. Delays are wall milliseconds and are not divided by `speed`.

    `kind` is `slurm`, which needs `jwt_key_file`, or `volcano`, which needs tokens. Volcano takes
    nodes, GPUs, tiers, the clock and the state file from here and leaves partitions, accounts, users,
    qos and foreign load alone.
    """

    name: str
    jwt_key_file: str = ""
    kind: str = "slurm"
    port: int = 0
    host: str = "127.0.0.1"
    nodes: int = 16
    node_prefix: str = ""
    gpus_per_node: int = 8
    gpu_type: str = "h100"
    gres: str = "gpu"
    cpus: int = 128
    sockets: int = 2
    threads: int = 2
    memory_mb: int = 1_000_000
    memory_per_cpu_mb: int = 1000
    features: list[str] = field(default_factory=list)
    tiers: list[Tier] = field(default_factory=list)
    partitions: list[Partition] = field(
        default_factory=lambda: [Partition(name="batch", default=True)]
    )
    accounts: list[str] = field(default_factory=lambda: ["ml"])
    users: list[User] = field(default_factory=list)
    admins: list[str] = field(default_factory=lambda: ["root", "slurm"])
    qos: dict[str, int] = field(default_factory=lambda: {"low": 1000, "high": 100_000})
    speed: float = 1.0
    clock: str = "wall"
    start_ms: int = 1_800_000_000_000
    control: bool = False
    seed: int = 1
    run: RunTimes = field(default_factory=RunTimes)
    foreign: Foreign | None = None
    state_file: str | None = None
    min_job_age_ms: int = 300_000
    completing_ms: int = 300
    kill_wait_ms: int = 2000
    requeue_delay_ms: int = 6000
    pass_interval_ms: int = 250
    accounting_lag_ms: int = 500
    skew_ms: int = 0
    controller_timeout_ms: int = 4000
    volcano: Volcano = field(default_factory=Volcano)

    @property
    def prefix(self) -> str:
        """What node names start with; by default the cluster's name and `-n`."""
        return self.node_prefix or f"{self.name}-n"

    def job_ms(self, seconds: float) -> int:
        """Wall milliseconds that so many seconds of job time take here; at least one."""
        return max(1, round(seconds * 1000 / self.speed))


@dataclass(frozen=True)
class Config:
    """All clusters of one process."""

    clusters: list[Cluster]


def load(path: Path) -> Config:
    """Read a configuration file; ConfigError says what is wrong with it."""
    try:
        return parse(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(data: Any) -> Config:
    """The configuration held by decoded JSON; ConfigError names the field at fault."""
    config: Config = _build(Config, data, "")
    names = [c.name for c in config.clusters]
    if len(set(names)) != len(names):
        raise ConfigError("two clusters have the same name")
    for cluster in config.clusters:
        _check(cluster)
    return config


def dump(config: Config) -> str:
    """The JSON text that `load` reads back."""
    return json.dumps(dataclasses.asdict(config), indent=2)


def _check(cluster: Cluster) -> None:
    where = f"cluster {cluster.name}"
    if cluster.nodes < 1 or cluster.speed <= 0 or not cluster.partitions:
        raise ConfigError(f"{where}: needs nodes, a partition and a speed above zero")
    if cluster.clock not in {"wall", "manual"}:
        raise ConfigError(f'{where}: clock is "wall" or "manual"')
    sizes = [t.nodes for t in cluster.tiers]
    if any(size < 1 for s in sizes for size in (s if isinstance(s, list) else [s])):
        raise ConfigError(f"{where}: a tier has blocks of at least one node")
    _check_kind(cluster, where)


def _check_kind(cluster: Cluster, where: str) -> None:
    if cluster.kind not in {"slurm", "volcano"}:
        raise ConfigError(f'{where}: kind is "slurm" or "volcano"')
    if cluster.kind == "slurm":
        if not cluster.jwt_key_file:
            raise ConfigError(f"{where}: jwt_key_file: is needed")
        return
    if not cluster.volcano.tokens:
        raise ConfigError(f"{where}: volcano/tokens: at least one is needed")
    if cluster.volcano.schedule_period_ms < 1:
        raise ConfigError(f"{where}: volcano/schedule_period_ms: at least 1")
    if any(len(right) not in {3, 4} for t in cluster.volcano.tokens for right in t.rights):
        raise ConfigError(f"{where}: volcano/tokens: a right has three or four words")


def _build(kind: Any, value: Any, where: str) -> Any:
    """A dataclass, list or plain value of the declared type from decoded JSON."""
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, value, where)
    if origin in {UnionType, typing.Union}:
        return _build_union(arguments, value, where)
    if origin is list:
        _expect(list, value, where)
        return [_build(arguments[0], v, f"{where}/{i}") for i, v in enumerate(value)]
    if origin is dict:
        _expect(dict, value, where)
        return {k: _build(arguments[1], v, f"{where}/{k}") for k, v in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    _expect(kind, value, where)
    return value


def _build_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    lists = [k for k in kinds if typing.get_origin(k) is list]
    plain = [k for k in kinds if k is not type(None) and k not in lists]
    return _build((lists if isinstance(value, list) and lists else plain)[0], value, where)


def _build_dataclass(kind: Any, value: Any, where: str) -> Any:
    _expect(dict, value, where)
    types = typing.get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}
    for name in value:
        if name not in known:
            raise ConfigError(f"{where}/{name}: unknown field")
    for name, declared in known.items():
        has_default = (
            declared.default is not dataclasses.MISSING
            or declared.default_factory is not dataclasses.MISSING
        )
        if name not in value and not has_default:
            raise ConfigError(f"{where}/{name}: is needed")
    return kind(**{name: _build(types[name], v, f"{where}/{name}") for name, v in value.items()})


def _expect(kind: type, value: Any, where: str) -> None:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{where or '/'}: must be {kind.__name__}, not {type(value).__name__}")

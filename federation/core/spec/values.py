"""A job as its user asked for it: the parsed body as typed values, and the form stored in rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.core.capabilities import IMAGE, SCRIPT
from clusters.core.container import Container
from federation.core.spec.container import from_json, to_json
from federation.core.spec.quantities import (
    read_memory_mib,
    read_moment_ms,
    write_memory,
    write_moment,
)

STORED_VERSION: Final = 1


class UnknownSpecVersionError(ValueError):
    """A row holds a spec of a form that this version does not know; leave the row alone."""


@dataclass(frozen=True, slots=True)
class GangAsk:
    """Sizes of the gang. `memory_mib_per_node` None: the cluster's own rule holds."""

    nodes: int
    gpus_per_node: int
    cpus_per_gpu: int = 1
    memory_mib_per_node: int | None = None

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.nodes * self.gpus_per_node

    def to_json(self) -> dict[str, Any]:
        """As in the API."""
        sizes: dict[str, Any] = {
            "nodes": self.nodes,
            "gpus_per_node": self.gpus_per_node,
            "cpus_per_gpu": self.cpus_per_gpu,
        }
        if self.memory_mib_per_node is not None:
            sizes["memory_per_node"] = write_memory(self.memory_mib_per_node)
        return sizes

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "GangAsk":
        """The stored form read back."""
        memory = stored.get("memory_per_node")
        return cls(
            stored["nodes"],
            stored["gpus_per_node"],
            stored["cpus_per_gpu"],
            None if memory is None else read_memory_mib(memory),
        )


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How the job splits its work: tp x cp x pp x dp = GPUs. `more` holds the fields that are only
    handed on (batch sizes, precision, the model's shape), as in the API."""

    tp: int
    pp: int
    dp: int
    cp: int
    ep: int
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """GPUs that the factors multiply to."""
        return self.tp * self.cp * self.pp * self.dp

    def to_json(self) -> dict[str, Any]:
        """As in the API."""
        sizes = {"tp": self.tp, "pp": self.pp, "dp": self.dp, "cp": self.cp, "ep": self.ep}
        return {**sizes, **self.more}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Parallelism":
        """The stored form read back."""
        sizes = {name: stored[name] for name in ("tp", "pp", "dp", "cp", "ep")}
        return cls(**sizes, more={k: v for k, v in stored.items() if k not in sizes})

    def environment(self) -> dict[str, str]:
        """`MUSTER_TP` and so on, for the job; only what was given or is a factor."""
        names = ("global_batch", "micro_batch", "zero", "precision", "recompute")
        sizes = {"tp": self.tp, "pp": self.pp, "dp": self.dp, "cp": self.cp, "ep": self.ep}
        given = {name: self.more[name] for name in names if name in self.more}
        if "sequence_parallel" in self.more:
            given["sequence_parallel"] = int(self.more["sequence_parallel"])
        return {f"MUSTER_{name.upper()}": str(value) for name, value in {**sizes, **given}.items()}


@dataclass(frozen=True, slots=True)
class FlavorChoice:
    """An acceptable flavor with the gang and parallelism the job would take there."""

    name: str
    gang: GangAsk
    parallelism: Parallelism | None = None

    def to_json(self, base: "FlavorChoice") -> str | dict[str, Any]:
        """As in the API: the name alone when nothing differs from the job's own."""
        stored: dict[str, Any] = {"name": self.name}
        if self.gang != base.gang:
            stored["gang"] = self.gang.to_json()
        if self.parallelism is not None and self.parallelism != base.parallelism:
            stored["parallelism"] = self.parallelism.to_json()
        return stored if len(stored) > 1 else self.name

    @classmethod
    def from_json(cls, stored: str | Mapping[str, Any], base: "FlavorChoice") -> "FlavorChoice":
        """The stored form read back."""
        if isinstance(stored, str):
            return cls(stored, base.gang, base.parallelism)
        gang, split = stored.get("gang"), stored.get("parallelism")
        return cls(
            stored["name"],
            base.gang if gang is None else GangAsk.from_json(gang),
            base.parallelism if split is None else Parallelism.from_json(split),
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How the job saves its work; `interval_ms` and `store` None = not said."""

    signal: str
    grace_ms: int
    interval_ms: int | None = None
    store: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As in the API."""
        stored: dict[str, Any] = {"signal": self.signal, "grace": self.grace_ms // 1000}
        if self.interval_ms is not None:
            stored["interval"] = self.interval_ms // 1000
        if self.store is not None:
            stored["store"] = self.store
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Checkpoint":
        """The stored form read back."""
        interval = stored.get("interval")
        return cls(
            stored["signal"],
            stored["grace"] * 1000,
            None if interval is None else interval * 1000,
            stored.get("store"),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """What is run: a script (Slurm), a container (Kubernetes) or both; "" = not said.

    `tasks_per_node` are the processes that `srun` starts on each.
    """

    script: str = ""
    workdir: str = ""
    output: str = ""
    error: str = ""
    tasks_per_node: int = 1
    container: Container | None = None

    @property
    def forms(self) -> list[str]:
        """In which forms it can be started (`clusters.core.capabilities`): script, image."""
        return [SCRIPT] * bool(self.script) + [IMAGE] * (self.container is not None)

    def to_json(self) -> dict[str, Any]:
        """As in the API."""
        texts = ("script", "workdir", "output", "error")
        stored = {name: text for name in texts if (text := getattr(self, name))}
        more = {"tasks_per_node": self.tasks_per_node} if self.tasks_per_node != 1 else {}
        return {**stored, **more, **(to_json(self.container) if self.container else {})}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Run":
        """The stored form read back."""
        names = ("script", "workdir", "output", "error", "tasks_per_node")
        own = {name: stored[name] for name in names if name in stored}
        return cls(**own, container=from_json(stored))


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job. `flavors` carry their gangs whole; `gang` and `parallelism` are the job's own.

    Tiers are the federation's words or "". `priority` is 0 to 1000. `name` is for people only.
    """

    tenant: str
    gang: GangAsk
    flavors: tuple[FlavorChoice, ...]
    time_limit_ms: int
    run: Run
    name: str = ""
    service_class: str = "auto"
    priority: int = 500
    prefer: str = "order"
    exclusive: bool = False
    start_timeout_ms: int = 300_000
    max_restarts: int = 3
    required_tier: str = ""
    preferred_tier: str = ""
    parallelism: Parallelism | None = None
    checkpoint: Checkpoint | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    only_clusters: tuple[str, ...] = ()
    avoid_clusters: tuple[str, ...] = ()
    not_before_ms: int | None = None

    @property
    def stores(self) -> tuple[str, ...]:
        """Every store and data set that the job's cluster must have, sorted, each once."""
        saved = self.checkpoint.store if self.checkpoint else None
        return tuple(sorted({*self.requires, *([saved] if saved else [])}))

    @property
    def claims(self) -> list[str]:
        """The volume claims of its container, sorted, with `:ro` where it only reads."""
        volumes = self.run.container.volumes if self.run.container else ()
        return sorted({f"{one.claim}:ro" if one.read_only else one.claim for one in volumes})

    def options(self) -> list[dict[str, Any]]:
        """The flavors in order with what is asked of each node: the form of `Job.options`.

        `memory_mib_per_node` 0 = not asked.
        """
        return [
            {
                "flavor": choice.name,
                "nodes": choice.gang.nodes,
                "gpus_per_node": choice.gang.gpus_per_node,
                "cpus_per_node": choice.gang.cpus_per_gpu * choice.gang.gpus_per_node,
                "memory_mib_per_node": choice.gang.memory_mib_per_node or 0,
            }
            for choice in self.flavors
        ]

    def environment_on(self, flavor: str) -> dict[str, str]:
        """The user's variables and, of the parallelism on that flavor, `MUSTER_TP` and so on."""
        choice = next((c for c in self.flavors if c.name == flavor), None)
        split = choice.parallelism if choice else self.parallelism
        return {**self.environment, **(split.environment() if split else {})}

    def to_json(self) -> dict[str, Any]:
        """The stored form: the API's body in one spelling (seconds, Mi or Gi), and `v`."""
        base = FlavorChoice("", self.gang, self.parallelism)
        return {
            "v": STORED_VERSION,
            "name": self.name,
            "tenant": self.tenant,
            "class": self.service_class,
            "priority": self.priority,
            "flavors": [choice.to_json(base) for choice in self.flavors],
            "prefer": self.prefer,
            "gang": {
                **self.gang.to_json(),
                "exclusive": self.exclusive,
                "start_timeout": self.start_timeout_ms // 1000,
                "max_restarts": self.max_restarts,
            },
            "topology": {
                "required": self.required_tier or None,
                "preferred": self.preferred_tier or None,
            },
            "parallelism": self.parallelism.to_json() if self.parallelism else None,
            "time_limit": self.time_limit_ms // 1000,
            "checkpoint": self.checkpoint.to_json() if self.checkpoint else None,
            "run": self.run.to_json(),
            "environment": dict(self.environment),
            "requires": list(self.requires),
            "labels": dict(self.labels),
            "clusters": {"only": list(self.only_clusters), "avoid": list(self.avoid_clusters)},
            "not_before": None if self.not_before_ms is None else write_moment(self.not_before_ms),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "JobSpec":
        """The stored form read back.

        Raises:
            UnknownSpecVersionError: the row was written by a newer version.
        """
        if stored.get("v") != STORED_VERSION:
            raise UnknownSpecVersionError(f"A spec of version {stored.get('v')!r}.")
        gang, split = GangAsk.from_json(stored["gang"]), stored["parallelism"]
        base = FlavorChoice("", gang, Parallelism.from_json(split) if split else None)
        checkpoint, moment = stored["checkpoint"], stored["not_before"]
        return cls(
            tenant=stored["tenant"],
            gang=gang,
            flavors=tuple(FlavorChoice.from_json(item, base) for item in stored["flavors"]),
            time_limit_ms=stored["time_limit"] * 1000,
            run=Run.from_json(stored["run"]),
            name=stored["name"],
            service_class=stored["class"],
            priority=stored["priority"],
            prefer=stored["prefer"],
            exclusive=stored["gang"]["exclusive"],
            start_timeout_ms=stored["gang"]["start_timeout"] * 1000,
            max_restarts=stored["gang"]["max_restarts"],
            required_tier=stored["topology"]["required"] or "",
            preferred_tier=stored["topology"]["preferred"] or "",
            parallelism=base.parallelism,
            checkpoint=Checkpoint.from_json(checkpoint) if checkpoint else None,
            environment=stored["environment"],
            requires=tuple(stored["requires"]),
            labels=stored["labels"],
            only_clusters=tuple(stored["clusters"]["only"]),
            avoid_clusters=tuple(stored["clusters"]["avoid"]),
            not_before_ms=None if moment is None else read_moment_ms(moment),
        )

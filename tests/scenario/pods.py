"""A simulated Volcano cluster of the laboratory, and the truth about it: every pod as it happened.

It shows what `tests.scenario.lab.Simulated` shows of Slurm, in the same words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from clusters.backends.volcano.translate import FENCE
from simulator.config import Cluster, Tier, Token, Volcano
from simulator.control import deeds_of
from simulator.deeds.common import call
from simulator.engine.model import State
from simulator.kubernetes.objects import at
from simulator.kubernetes.resources import BY_PLURAL
from simulator.kubernetes.store import Change
from simulator.volcano.cluster import VolcanoCluster
from simulator.volcano.writes import delete
from tests.scenario.known import Known

NAMESPACE = "team"
_OVER = {"Aborted", "Completed", "Failed", "Terminated"}
# What a lever of the Slurm laboratory is here.
_AS = {
    "slurmctld/restart": "api/restart",
    "slurmctld/forget_finished": "watches/cut",
    "nodes/down": "nodes/silent",
    "nodes/up": "nodes/speak",
    "nodes/blink": "nodes/silent",
}


@dataclass
class Pod:
    """A pod of ours: from when to when it held its GPUs (None = it has not begun, or lasts)."""

    fence: str
    node: str = ""
    gpus: int = 0
    bound_ms: int | None = None
    freed_ms: int | None = None
    has_succeeded: bool = False


@dataclass(frozen=True)
class Named:
    """The part of a Slurm request that is asked for."""

    name: str


@dataclass(frozen=True)
class Share:
    """GPUs of a node."""

    gpus: range


@dataclass
class Stay:
    """An attempt's object, as a job or a run of Slurm would look."""

    request: Named
    pods: list[Pod]
    is_over: bool
    priority: int = 1

    @property
    def holds_nodes(self) -> bool:
        return any(pod.bound_ms is not None and pod.freed_ms is None for pod in self.pods)

    @property
    def shares(self) -> dict[str, Share]:
        return {pod.node: Share(range(pod.gpus)) for pod in self.pods if pod.bound_ms is not None}

    @property
    def start_ms(self) -> int:
        return min((pod.bound_ms for pod in self.pods if pod.bound_ms is not None), default=0)

    @property
    def end_ms(self) -> int:
        """When the last pod gave its GPUs back; 0 = they are held."""
        freed = [pod.freed_ms for pod in self.pods if pod.bound_ms is not None]
        if not freed or None in freed:
            return 0
        return max(ms for ms in freed if ms is not None)

    @property
    def state(self) -> State:
        is_done = self.pods and all(pod.has_succeeded for pod in self.pods)
        return State.COMPLETED if is_done else State.CANCELLED


@dataclass
class Pods:
    """One simulated Volcano cluster: its side door, and the truth about it, read without asking."""

    name: str
    endpoint: str
    running: VolcanoCluster
    doubtful: set[str] = field(default_factory=set)
    key: bytes = b"k" * 32
    _pods: dict[str, Pod] = field(default_factory=dict)  # by uid
    _jobs: dict[str, Stay] = field(default_factory=dict)  # by fence
    ahead_ms = 0

    def __post_init__(self) -> None:
        self.running.store.hearers.append(self._hear)

    @property
    def nodes(self) -> list[str]:
        """Its nodes' names."""
        return [name for _, name in self.running.store.items[BY_PLURAL["nodes"]]]

    def next_key(self) -> bytes:
        """Another token than the one it has."""
        return b"%c" % (97 + (self.key[0] + 1 - 97) % 26) * 32

    def take_key(self, key: bytes) -> None:
        """Only this token is good from now on."""
        people = self.running.gate.people
        people[key.decode()] = people.pop(self.key.decode())
        self.key = key

    def control(self, deed: str, **data: Any) -> Mapping[str, Any]:
        """Pulls a lever, by the name that it has in Slurm's laboratory; unknown ones do nothing."""
        if deed in ("slurmctld/down", "slurmctld/up"):
            self.running.faults.controller_down = deed.endswith("down")
            return {}
        name = _AS.get(deed, deed)
        found = deeds_of(self.running).get(name)
        if found is None:
            return {}
        fitting = signature(found).parameters.keys() & data.keys()
        return call(found, self.running, {name: data[name] for name in fitting})

    def mend(self) -> None:
        """Ends every fault and lets it work."""
        for deed in ("faults/clear", "scheduling/resume"):
            self.control(deed)
        self.control("nodes/speak", nodes=",".join(self.nodes))
        self.running.now_ms()
        for key in list(self.running.store.items[BY_PLURAL["jobs"]]):
            self.running._mark(key)  # controllers that come back look at everything

    @property
    def runs(self) -> list[Stay]:
        """Every run of ours that got nodes: what is to be billed."""
        self.running.now_ms()
        return [job for job in self._jobs.values() if job.start_ms]

    def remember(self) -> list[Known]:
        """Every run of ours that there ever was."""
        return [
            Known(run.request.name, run.start_ms, run.end_ms, gpus_of(run)) for run in self.runs
        ]

    def shown_ms(self, ms: int) -> int:
        """A moment as the cluster writes it: whole seconds."""
        return ms // 1000 * 1000

    def latest_shown_ms(self, start_ms: int, end_ms: int) -> int:
        """The latest that its clock showed while a run lasted."""
        return self.shown_ms(end_ms)

    def known(self) -> list[str]:
        """Nothing here can be made a second time under its name."""
        return []

    def living(self) -> list[Stay]:
        """Our objects that wait or run."""
        self.running.now_ms()
        return [job for job in self._jobs.values() if not job.is_over or job.holds_nodes]

    def operator(self, deed: str, job: int, value: int) -> None:
        """Somebody with kubectl aborts a job of ours, deletes it, or deletes one of its pods."""
        self.running.now_ms()
        jobs = list(self.running.store.items[BY_PLURAL["jobs"]].values())
        if not jobs:
            return
        chosen = jobs[job % len(jobs)]
        name = chosen["metadata"]["name"]
        pods = [
            raw
            for raw in self.running.store.items[BY_PLURAL["pods"]].values()
            if raw["metadata"]["labels"].get(FENCE) == name
        ]
        if deed == "slurmctld/forget":
            self.doubtful.add(name)  # nobody can tell any more how it ended
            self.running._apply([delete("jobs", chosen)])
        elif deed == "nodes/fail_under" and pods:
            self.running._apply([delete("pods", pods[value % len(pods)])])
        self.running.settle()

    def _hear(self, change: Change) -> None:
        if change.resource.plural == "jobs":
            self._hear_job(change)
        elif change.resource.plural == "pods":
            self._hear_pod(change)

    def _hear_job(self, change: Change) -> None:
        fence = (change.new["metadata"].get("labels") or {}).get(FENCE)
        if not fence:
            return
        job = self._jobs.setdefault(fence, Stay(Named(fence), [], is_over=False))
        phase = str(at(change.new, "status", "state", "phase") or "")
        job.is_over = phase in _OVER or change.type == "DELETED"

    def _hear_pod(self, change: Change) -> None:
        raw, now_ms = change.new, self.running._at_ms
        fence = (raw["metadata"].get("labels") or {}).get(FENCE)
        if not fence:
            return
        pod = self._pods.get(raw["metadata"]["uid"])
        if pod is None:
            pod = self._pods[raw["metadata"]["uid"]] = Pod(fence)
            job = self._jobs.setdefault(fence, Stay(Named(fence), [], is_over=False))
            job.pods.append(pod)
        if raw["spec"].get("nodeName") and pod.bound_ms is None:
            pod.node, pod.bound_ms = raw["spec"]["nodeName"], now_ms
            limits = raw["spec"]["containers"][0]["resources"]["limits"]
            pod.gpus = int(limits.get("nvidia.com/gpu", 0))
        phase = at(raw, "status", "phase")
        is_free = phase in ("Succeeded", "Failed") or change.type == "DELETED"
        if is_free and pod.freed_ms is None:
            pod.freed_ms, pod.has_succeeded = now_ms, phase == "Succeeded"


def gpus_of(run: Stay) -> int:
    """GPUs of a run."""
    return sum(len(share.gpus) for share in run.shares.values())


def pods_cluster(name: str, endpoint: str, nodes: int, start_ms: int) -> Pods:
    """A cluster of so many nodes of 8 GPUs in leaves of four, with a manual clock."""
    volcano = Volcano(tokens=[Token("k" * 32, "muster")], namespaces=[NAMESPACE])
    config = Cluster(
        name=name,
        kind="volcano",
        nodes=nodes,
        tiers=[Tier("leaf", 4)],
        clock="manual",
        start_ms=start_ms,
        control=True,
        volcano=volcano,
    )
    return Pods(name, endpoint, VolcanoCluster(config))

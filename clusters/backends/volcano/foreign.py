"""What pods that are not ours hold: sums that each change of a pod goes into.

Amounts are whole numbers as Volcano's scheduler counts them (GPUs, thousandths of a CPU, bytes), so
that what was added can be taken off again to the last bit.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from typing import Any

from clusters.backends.volcano.nodes import RESOURCES
from clusters.backends.volcano.quantities import MIB, amount
from clusters.core.observation import ForeignLoad

Json = Mapping[str, Any]
_NAMES = (*RESOURCES, "cpu", "memory")
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Load:
    """What one pod holds, or waits for while it has no node (""). `owner` is the uid of its job."""

    node: str
    owner: str
    gpus: int
    milli_cpus: int
    memory: int


def load_of(pod: Json) -> Load | None:
    """The load of a pod; None if it is over, or has no node and wants no GPU."""
    if (pod.get("status") or {}).get("phase") in _OVER:
        return None
    spec, meta = pod["spec"], pod["metadata"]
    need = _need(spec)
    node, gpus = spec.get("nodeName") or "", sum(need[:-2])
    if not node and not gpus:
        return None
    owners = meta.get("ownerReferences") or ()
    owner = str(owners[0]["uid"] if owners else meta["uid"]) if gpus else ""
    return Load(str(node), owner, gpus, need[-2], need[-1])


@dataclass(slots=True)
class Foreign:
    """The sums: by node [GPUs, thousandths of CPUs, bytes], and by owner the pods and their GPUs."""

    held: dict[str, list[int]] = field(default_factory=dict)
    running: Counter[str] = field(default_factory=Counter)
    waiting: defaultdict[str, list[int]] = field(
        default_factory=lambda: defaultdict(lambda: [0, 0])
    )

    def add(self, load: Load, sign: int = 1) -> None:
        """Put a pod's load to the sums, or take it off again (`sign` -1)."""
        if load.node:
            held = self.held.setdefault(load.node, [0, 0, 0])
            for place, count in enumerate((load.gpus, load.milli_cpus, load.memory)):
                held[place] += sign * count
            if not any(held):
                del self.held[load.node]
            if load.gpus:
                self.running[load.owner] += sign
                if not self.running[load.owner]:
                    del self.running[load.owner]
            return
        waiting = self.waiting[load.owner]
        waiting[0] += sign
        waiting[1] += sign * load.gpus
        if not waiting[0]:
            del self.waiting[load.owner]

    def load(self) -> ForeignLoad:
        """The sums in our words."""
        return ForeignLoad(
            gpus={node: held[0] for node, held in self.held.items() if held[0]},
            cpus={node: -(-held[1] // 1000) for node, held in self.held.items() if held[1]},
            memory_mib={node: -(-held[2] // MIB) for node, held in self.held.items() if held[2]},
            running=len(self.running),
            pending=len(self.waiting),
            pending_gpus=sum(gpus for _, gpus in self.waiting.values()),
        )


def foreign_load(pods: Iterable[Json]) -> ForeignLoad:
    """What pods that are not ours hold, by node, and what those wait for that ask for GPUs.

    Whatever made them counts alike: bare pods, Kubernetes Jobs, others' vcjobs, daemons. Jobs are
    counted by their owner.
    """
    sums = Foreign()
    for load in map(load_of, pods):
        if load is not None:
            sums.add(load)
    return sums.load()


def _need(spec: Json) -> tuple[int, ...]:
    """What the scheduler sets aside for a pod: for all its containers, or for one before them."""
    running = [_requests(one) for one in spec.get("containers") or ()]
    before = [_requests(one) for one in spec.get("initContainers") or ()]
    need = tuple(map(sum, zip(*running, strict=True))) if running else (0,) * len(_NAMES)
    return tuple(map(max, zip(need, *before, strict=True)))


def _requests(container: Json) -> tuple[int, ...]:
    said = (container.get("resources") or {}).get("requests") or {}
    return tuple(_whole(name, said[name]) if name in said else 0 for name in _NAMES)


@lru_cache(maxsize=4096)  # thousands of pods ask for the same
def _whole(name: str, text: object) -> int:
    """An amount in whole units of its resource, rounded up."""
    return ceil(amount(text) * (1000 if name == "cpu" else 1))

"""Queues: their state, what is allocated in them, and whether more may be admitted (12, 19)."""

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at
from simulator.kubernetes.pods import requests
from simulator.kubernetes.quantities import as_text, number, total
from simulator.volcano.fitting import Amounts
from simulator.volcano.writes import Write, put_status

ROOT = "root"
_GROUP = "scheduling.k8s.io/group-name"


def group_of(pod: Json) -> tuple[str, str]:
    """Namespace and name of the PodGroup a pod says it belongs to."""
    meta = pod["metadata"]
    return meta.get("namespace", ""), str((meta.get("annotations") or {}).get(_GROUP, ""))


def state_of(queue: Json) -> str:
    """Open unless its status says otherwise."""
    return str(at(queue, "status", "state") or "Open")


class Ledger:
    """What each queue holds: by pods that run, and by gangs that were let in and wait."""

    def __init__(self, queues: list[Json], podgroups: list[Json], pods: list[Json]) -> None:
        """Pods whose PodGroup is gone count nowhere, though they may hold their nodes (0.9)."""
        self.queues = {q["metadata"]["name"]: q for q in queues}
        groups = {(g["metadata"]["namespace"], g["metadata"]["name"]): g for g in podgroups}
        self.allocated: dict[str, Amounts] = {name: {} for name in self.queues}
        self.waiting: dict[str, Amounts] = {name: {} for name in self.queues}
        for pod in pods:
            group = groups.get(group_of(pod))
            if group is not None:
                self.add(group, [pod])
        for group in podgroups:
            if at(group, "status", "phase") == "Inqueue":
                self.let_in(group)

    def _line(self, name: str) -> list[str]:
        """The queue and those above it."""
        line: list[str] = []
        while name in self.queues and name not in line:
            line.append(name)
            name = at(self.queues[name], "spec", "parent") or ROOT
        return line

    def add(self, group: Json, pods: list[Json]) -> None:
        """These pods of a gang hold what they ask for."""
        amounts = total([{**requests(pod["spec"]), "pods": 1} for pod in pods])
        for name in self._line(group["spec"].get("queue", "default")):
            self.allocated[name] = total([self.allocated[name], amounts])

    def let_in(self, group: Json) -> None:
        """A gang was admitted and will ask for its least."""
        for name in self._line(group["spec"].get("queue", "default")):
            self.waiting[name] = total([self.waiting[name], least(group)])

    def missing(self, group: Json, amounts: Amounts, *, with_waiting: bool) -> str:
        """The first resource of which a queue has not enough left; "" if all have."""
        for name in self._line(group["spec"].get("queue", "default")):
            capability = at(self.queues[name], "spec", "capability") or {}
            held = self.allocated[name]
            if with_waiting:
                held = total([held, self.waiting[name]])
            for resource, value in sorted(amounts.items()):
                most = capability.get(resource)
                if most is not None and held.get(resource, 0) + value > number(most):
                    return resource
        return ""


def least(group: Json) -> Amounts:
    """What a PodGroup needs to begin, by resource."""
    asked = at(group, "spec", "minResources") or {}
    return {k: number(v) for k, v in asked.items() if not k.startswith(("requests.", "limits."))}


def settled(queue: Json, allocated: Amounts, *, has_groups: bool) -> list[Write]:
    """The status of a queue: state and what is allocated; Closing ends when it is empty."""
    state = state_of(queue)
    if state == "Closing" and not has_groups:
        state = "Closed"
    amounts = {name: as_text(value) for name, value in sorted(allocated.items()) if value}
    status = {"allocated": {"cpu": "0", "memory": "0", **amounts}, "reservation": {}}
    return put_status("queues", queue, {**status, "state": state})


def ordered(queue: Json, action: str, *, has_groups: bool) -> list[Write]:
    """What a Command to a queue does."""
    state = {"OpenQueue": "Open", "CloseQueue": "Closing" if has_groups else "Closed"}.get(action)
    if state is None:
        return []
    return put_status("queues", queue, {**(queue.get("status") or {}), "state": state})


def defaulted(queue: Json) -> list[Write]:
    """A new queue is Open."""
    if at(queue, "status", "state"):
        return []
    return settled(queue, {}, has_groups=False)

"""One cycle of the scheduler: enqueue, allocate, and the phases of PodGroups.

Gangs start whole or not at all. Reclaim and preempt are not played. The words were recorded (01,
04, 05, 11).
"""

from collections import Counter
from dataclasses import dataclass, field

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at, instant, is_going
from simulator.kubernetes.pods import requests, with_condition
from simulator.kubernetes.quantities import total
from simulator.volcano.fitting import Free
from simulator.volcano.gangs import Trial, give_back, place
from simulator.volcano.queues import Ledger, group_of, least, settled, state_of
from simulator.volcano.topology import Domain, domains
from simulator.volcano.writes import Bind, Note, Status, Write, put_status

_READY = "tasks in gang are ready to be scheduled"
_ENDED = {"Succeeded", "Failed"}
_SCHEDULER = "volcano"


@dataclass(frozen=True)
class Seen:
    """All that a cycle looks at."""

    nodes: list[Json]
    pods: list[Json]
    podgroups: list[Json]
    queues: list[Json]
    hypernodes: list[Json] = field(default_factory=list)
    classes: list[Json] = field(default_factory=list)


def cycle(seen: Seen, now_ms: int) -> list[Write]:
    """The writes of one cycle."""
    session = _Session(seen, now_ms)
    for group in session.order(seen.podgroups):
        session.enqueue(group)
    for group in session.order(seen.podgroups):
        session.allocate(group)
    session.close()
    return session.writes


def _is_bound(pod: Json) -> bool:
    return bool(at(pod, "spec", "nodeName"))


def _phase(thing: Json) -> str:
    return str(at(thing, "status", "phase") or "")


class _Session:
    """A cycle under way: what is free now, what gangs have, what is to be written."""

    def __init__(self, seen: Seen, now_ms: int) -> None:
        self.seen, self.now_ms = seen, now_ms
        self.writes: list[Write] = []
        holding = [p for p in seen.pods if _is_bound(p) and _phase(p) not in _ENDED]
        self.free = Free(_ready(seen.nodes), holding)
        self.ledger = Ledger(seen.queues, seen.podgroups, holding)
        self.domains = domains(seen.hypernodes, seen.nodes)
        self.everything = Domain("", tuple(sorted(self.free.nodes)))
        self.values = {c["metadata"]["name"]: int(c.get("value", 0)) for c in seen.classes}
        self.members: dict[tuple[str, str], list[Json]] = {}
        for pod in seen.pods:
            self.members.setdefault(group_of(pod), []).append(pod)

    def order(self, groups: list[Json]) -> list[Json]:
        """Priority, then age, then name."""
        return sorted(
            groups,
            key=lambda g: (
                -self.values.get(g["spec"].get("priorityClassName", ""), 0),
                g["metadata"]["creationTimestamp"],
                int(g["metadata"]["resourceVersion"]) if not _phase(g) else 0,
                g["metadata"]["name"],
            ),
        )

    def pods_of(self, group: Json) -> list[Json]:
        """The gang's pods, in order of name and index."""
        meta = group["metadata"]
        found = self.members.get((meta["namespace"], meta["name"]), [])
        return sorted(
            found, key=lambda pod: (len(pod["metadata"]["name"]), pod["metadata"]["name"])
        )

    def enqueue(self, group: Json) -> None:
        """Let a gang in that fits its queue: Pending becomes Inqueue."""
        if _phase(group) not in {"", "Pending"}:
            return
        status = dict(group.get("status") or {})
        if any(_is_bound(pod) for pod in self.pods_of(group)):
            return
        queue = self.ledger.queues.get(group["spec"].get("queue", "default"))
        missing = (
            "" if queue is None else self.ledger.missing(group, least(group), with_waiting=True)
        )
        if missing:
            said = f"queue resource quota insufficient: insufficient {missing}"
            self.writes.append(Note(group, "Normal", "Unschedulable", said))
        admitted = queue is not None and state_of(queue) == "Open" and not missing
        if admitted:
            self.ledger.let_in(group)
        self._unready(group, "0/0", [f"{group['spec']['minMember']} minAvailable"])
        status["phase"] = "Inqueue" if admitted else "Pending"
        self._status(group, status)

    def allocate(self, group: Json) -> None:
        """Place what waits of a gang that was let in, if with that the gang is whole."""
        pods = [pod for pod in self.pods_of(group) if not is_going(pod)]
        pending = [p for p in pods if not _is_bound(p) and _phase(p) == "Pending"]
        if not _phase(group) or (_phase(group) == "Pending" and len(pending) == len(pods)):
            return
        gated = [pod for pod in pending if pod["spec"].get("schedulingGates")]
        trial = Trial()
        if pending and not gated:
            trial = place(pending, group, self.free, self.domains, self.everything)
            whole = len(pods) - len(pending) + len(trial.placed) >= group["spec"]["minMember"]
            if whole and not self._over(group, pending, trial):
                self._bind(group, pending, trial)
                return
            give_back(trial, pending, self.free)
        self._phases(group, pods, pending, trial)

    def _over(self, group: Json, pods: list[Json], trial: Trial) -> bool:
        chosen = [p for p in pods if p["metadata"]["name"] in trial.placed]
        asked = total(requests(pod["spec"]) for pod in chosen)
        return bool(self.ledger.missing(group, asked, with_waiting=False))

    def _bind(self, group: Json, pending: list[Json], trial: Trial) -> None:
        """The gang is whole: bound now, Running in the next cycle."""
        chosen = [pod for pod in pending if pod["metadata"]["name"] in trial.placed]
        for pod in chosen:
            meta = pod["metadata"]
            node = trial.placed[meta["name"]]
            self.writes.append(Bind(meta["namespace"], meta["name"], node))
            said = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
            self.writes.append(Note(pod, "Normal", "Scheduled", said))
        self.ledger.add(group, chosen)
        count, least_pods = len(chosen), group["spec"]["minMember"]
        said = (
            f"0/{count} tasks in gang unschedulable: pod group is ready, {count} Binding, "
            f"{least_pods} minAvailable"
        )
        self.writes.append(Note(group, "Warning", "Unschedulable", said))
        status = dict(group.get("status") or {})
        status["conditions"] = self._condition(group, "Scheduled", _READY, "")
        self._status(group, status)

    def _phases(self, group: Json, pods: list[Json], pending: list[Json], trial: Trial) -> None:
        """The phase of a gang that got nothing in this cycle."""
        tally = Counter(_phase(pod) for pod in pods)
        bound = [pod for pod in pods if _is_bound(pod)]
        status = {k: v for k, v in (group.get("status") or {}).items() if k in _KEPT}
        status |= {n.lower(): tally[n] for n in ("Running", "Succeeded", "Failed") if tally[n]}
        broken = len(bound) - tally["Failed"] < group["spec"]["minMember"] and tally["Failed"] > 0
        if pending or broken:
            status["conditions"] = self._explain(group, pods, pending, trial)
        whole = len(bound) >= group["spec"]["minMember"]
        if broken and tally["Running"]:
            status["phase"] = "Unknown"
        elif whole:
            over = tally["Succeeded"] + tally["Failed"] == len(bound)
            status["phase"] = "Completed" if over and bound else "Running"
            if _phase(group) == "Inqueue":
                self.writes.append(Note(group, "Normal", "Scheduled", "pod group is ready"))
        elif _phase(group) != "Inqueue":
            status["phase"] = "Pending"
        self._status(group, status)

    def _explain(
        self, group: Json, pods: list[Json], pending: list[Json], trial: Trial
    ) -> list[Json]:
        """Conditions of the gang and of its waiting pods that say why it waits."""
        least_pods = group["spec"]["minMember"]
        bound = at(group, "spec", "networkTopology")
        hard = bool(bound) and bound.get("mode", "hard") == "hard"
        piped = 0 if hard else len(trial.placed)
        tally = Counter(_phase(pod) for pod in pods if pod not in pending)
        told = [f"{count} {phase}" for phase, count in tally.items()]
        told += [f"{len(pending) - piped} Pending"] if len(pending) > piped else []
        told += [f"{piped} Pipelined"] if piped else []
        told = sorted([*told, f"{least_pods} minAvailable"])
        words = f"pod group is not ready, {', '.join(told)}"
        refused = [p for p in pending if p["metadata"]["name"] not in trial.placed]
        if refused:
            able = f"{len(trial.placed)} Schedulable, " if hard and trial.placed else ""
            words += f"; Pending: {able}{len(refused)} Unschedulable"
        reasons = {name: why for name, why in trial.refused.items() if why}
        if reasons:
            name = min(reasons, key=lambda n: (len(n), n))
            words += f". Origin reason is {name}: {reasons[name]}"
        for pod in pending:
            self._tell_pod(pod, trial, words, hard=hard)
        count = len(pending) or sum(_phase(pod) == "Failed" for pod in pods)
        said = f"{count}/{len(pods)} tasks in gang unschedulable: {words}"
        self.writes.append(Note(group, "Warning", "Unschedulable", said))
        return self._condition(group, "Unschedulable", "NotEnoughResources", said)

    def _tell_pod(self, pod: Json, trial: Trial, words: str, *, hard: bool) -> None:
        meta = pod["metadata"]
        node = None if hard else trial.placed.get(meta["name"])
        reason, said = "Unschedulable", trial.refused.get(meta["name"]) or words
        if pod["spec"].get("schedulingGates"):
            reason = "SchedulingGated"
            said = "Scheduling is blocked due to non-empty scheduling gates"
        elif node is not None:
            said = (
                f"Pod {meta['namespace']}/{meta['name']} can possibly be assigned to {node}, once "
                "resource is released and minAvailable is satisfied"
            )
        told = {"type": "PodScheduled", "status": "False", "reason": reason, "message": said}
        conditions = with_condition(pod["status"], told, self.now_ms)
        self.writes += put_status("pods", pod, {**pod["status"], "conditions": conditions})

    def _unready(self, group: Json, share: str, told: list[str]) -> None:
        said = f"{share} tasks in gang unschedulable: pod group is not ready, {', '.join(told)}"
        self.writes.append(Note(group, "Warning", "Unschedulable", said))

    def _condition(self, group: Json, kind: str, reason: str, message: str) -> list[Json]:
        """Conditions are never taken back; one of the same words stays as it is (13)."""
        new: Json = {"type": kind, "status": "True", "reason": reason}
        if message:
            new["message"] = message
        known: list[Json] = at(group, "status", "conditions") or []
        old = next((c for c in known if c["type"] == kind), None)
        if old is not None and new.items() <= old.items():
            return known
        new["lastTransitionTime"] = instant(self.now_ms)
        new["transitionID"] = f"{group['metadata']['uid']}-{self.now_ms}"
        return [new if c is old else c for c in known] if old is not None else [*known, new]

    def _status(self, group: Json, status: Json) -> None:
        if status != (group.get("status") or {}):
            meta = group["metadata"]
            self.writes.append(Status("podgroups", meta["namespace"], meta["name"], status))

    def close(self) -> None:
        """Queues show what is allocated in them now."""
        used = Counter(g["spec"].get("queue", "default") for g in self.seen.podgroups)
        for queue in self.seen.queues:
            name = queue["metadata"]["name"]
            amounts = self.ledger.allocated[name]
            self.writes += settled(queue, amounts, has_groups=bool(used[name]))


_KEPT = {"phase", "conditions"}


def _ready(nodes: list[Json]) -> list[Json]:
    """Nodes with a kubelet that ever said what they have."""
    return [node for node in nodes if at(node, "status", "allocatable")]

"""Whether a pod fits a node, in the scheduler's words when it does not (05, 09, 11)."""

from collections import Counter

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at
from simulator.kubernetes.pods import requests
from simulator.kubernetes.quantities import number

Amounts = dict[str, float]

_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
_TAINTS = "node(s) had untolerated taint(s)"
_CORDONED = "node(s) were unschedulable"
_HARD_EFFECTS = {"NoSchedule", "NoExecute"}


class Free:
    """What is free on each node; taken from as pods are placed in trial."""

    def __init__(self, nodes: list[Json], pods: list[Json]) -> None:
        """Nodes by name, less what the bound pods that have not ended ask for."""
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.left: dict[str, Amounts] = {
            name: {k: number(v) for k, v in (at(n, "status", "allocatable") or {}).items()}
            for name, n in self.nodes.items()
        }
        self.whole = {name: dict(amounts) for name, amounts in self.left.items()}
        for pod in pods:
            self.take(str(at(pod, "spec", "nodeName")), requests(pod["spec"]))

    def take(self, node: str, amounts: Amounts) -> None:
        """Less is free there; a node that is gone has nothing anyway."""
        left = self.left.get(node)
        if left is not None:
            for name, value in amounts.items():
                left[name] = left.get(name, 0) - value

    def give(self, node: str, amounts: Amounts) -> None:
        """Undo a `take`."""
        self.take(node, {name: -value for name, value in amounts.items()})

    def is_touched(self, node: str) -> bool:
        """Does something run there?"""
        return self.left[node] != self.whole[node]


def why_not(pod: Json, amounts: Amounts, node: Json, left: Amounts) -> str:
    """Why a pod does not fit a node now; "" if it fits."""
    if at(node, "spec", "unschedulable"):
        return _CORDONED
    if not _selected(pod["spec"], node):
        return _AFFINITY
    if not _tolerated(pod["spec"], node):
        return _TAINTS
    for name, value in sorted(amounts.items()):
        if value > left.get(name, 0):
            return f"Insufficient {name}"
    return ""


def sentence(reasons: Counter[str], where: str = "") -> str:
    """As the scheduler tells it: `0/16 nodes are unavailable: 16 Insufficient nvidia.com/gpu.`"""
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    place = f"In hyperNode {where}: " if where else ""
    return f"{place}0/{reasons.total()} nodes are unavailable: {told}."


def _selected(spec: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    wanted = spec.get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    needed = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = at(spec, "affinity", "nodeAffinity", needed, "nodeSelectorTerms")
    return not terms or any(_term(term, node, labels) for term in terms)


def _term(term: Json, node: Json, labels: Json) -> bool:
    named = {"metadata.name": node["metadata"]["name"]}
    return all(_expression(e, labels) for e in term.get("matchExpressions") or []) and all(
        _expression(e, named) for e in term.get("matchFields") or []
    )


def _expression(expression: Json, values: Json) -> bool:
    value = values.get(expression["key"])
    wanted = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def _tolerated(spec: Json, node: Json) -> bool:
    tolerations = spec.get("tolerations") or []
    return all(
        any(tolerates(t, taint) for t in tolerations)
        for taint in at(node, "spec", "taints") or []
        if taint.get("effect") in _HARD_EFFECTS
    )


def tolerates(toleration: Json, taint: Json) -> bool:
    """Does a toleration cover a taint?"""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("value", "") == taint.get("value", ""))

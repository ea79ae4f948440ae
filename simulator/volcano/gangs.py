"""Placing a gang in trial: every pod, or as many as there is room for, and why not the others."""

import json
import sys
from collections import Counter
from dataclasses import dataclass, field

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at
from simulator.kubernetes.pods import requests
from simulator.kubernetes.quantities import total
from simulator.volcano.fitting import Amounts, Free, sentence, why_not
from simulator.volcano.topology import Domain, allowed


@dataclass
class Trial:
    """Pods placed by name, and for those that were not, why (empty: no reason is told)."""

    placed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def place(
    pods: list[Json], podgroup: Json, free: Free, found: list[Domain], everything: Domain
) -> Trial:
    """A trial of all pods under the gang's bounds. What it takes of `free` stays taken.

    Of the domains that hold the whole gang, the closest, then the one that is left the fullest.
    Where none has the room no reason is told, as recorded (05, 11).
    """
    parts = _parts(pods, podgroup)
    chosen = Trial(refused={pod["metadata"]["name"]: "" for pod in pods})
    best = (len(pods) + 1, 0, 0, 0)
    for domain in allowed(at(podgroup, "spec", "networkTopology"), found, everything):
        if not _roomy(domain, pods, free):
            continue
        trial = _in_parts(parts, domain, free, found)
        rank = (
            len(trial.refused),
            domain.tier if domain.name else sys.maxsize,
            _untouched(trial, domain, free),
            len(domain.nodes),
        )
        give_back(trial, pods, free)
        if rank < best:
            best, chosen = rank, trial
    for pod in pods:
        node = chosen.placed.get(pod["metadata"]["name"])
        if node is not None:
            free.take(node, requests(pod["spec"]))
    return chosen


def _roomy(domain: Domain, pods: list[Json], free: Free) -> bool:
    """Has a HyperNode as much free as all pods ask for? The whole cluster is always tried."""
    if not domain.name:
        return True
    asked = total(requests(pod["spec"]) for pod in pods)
    left = total(free.left[name] for name in domain.nodes if name in free.left)
    return all(value <= left.get(name, 0) for name, value in asked.items())


def _untouched(trial: Trial, domain: Domain, free: Free) -> int:
    """How many nodes of the domain stay empty: the fuller it gets, the better."""
    used = set(trial.placed.values())
    return sum(n not in used and not free.is_touched(n) for n in domain.nodes if n in free.left)


def give_back(trial: Trial, pods: list[Json], free: Free) -> None:
    """Undo what a trial has taken."""
    for pod in pods:
        node = trial.placed.get(pod["metadata"]["name"])
        if node is not None:
            free.give(node, requests(pod["spec"]))


@dataclass(frozen=True)
class _Part:
    pods: list[Json]
    bound: Json | None


def _parts(pods: list[Json], podgroup: Json) -> list[_Part]:
    """The gang by partition, each with its own bound; pods of no partition are one part."""
    bounds = {
        group["name"]: group.get("networkTopology")
        for group in at(podgroup, "spec", "subGroupPolicy") or []
    }
    found: dict[tuple[str, str], list[Json]] = {}
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        task = labels.get("volcano.sh/task-spec", "")
        part = labels.get("volcano.sh/partition-id", "") if task in bounds else ""
        found.setdefault((task if part else "", part), []).append(pod)
    return [_Part(members, bounds.get(task)) for (task, _), members in found.items()]


def _in_parts(parts: list[_Part], outer: Domain, free: Free, found: list[Domain]) -> Trial:
    whole = Trial()
    inside = set(outer.nodes)
    for part in parts:
        inner = [
            Domain(d.name, tuple(n for n in d.nodes if n in inside), d.tier)
            for d in allowed(part.bound, found, outer)
        ]
        tried = Trial(refused={pod["metadata"]["name"]: "" for pod in part.pods})
        for domain in [d for d in inner if _roomy(d, part.pods, free)]:
            give_back(tried, part.pods, free)
            tried = _fill(part.pods, domain, free)
            if not tried.refused:
                break
        whole.placed |= tried.placed
        whole.refused |= tried.refused
    return whole


def _fill(pods: list[Json], domain: Domain, free: Free) -> Trial:
    """Each pod on the fullest node that takes it; the first by name among equals.

    Room only shrinks on the way: pods alike go on where the one before them stopped.
    """
    trial = Trial()
    names = [name for name in domain.nodes if name in free.nodes]
    names.sort(key=lambda name: (not free.is_touched(name), name))
    scans: dict[str, _Scan] = {}
    for pod in pods:
        scan = scans.setdefault(_likeness(pod), _Scan(requests(pod["spec"])))
        node = _next_node(pod, scan, names, free)
        if node:
            free.take(node, scan.amounts)
            trial.placed[pod["metadata"]["name"]] = node
        else:
            words = sentence(scan.reasons, domain.name) if scan.reasons else ""
            trial.refused[pod["metadata"]["name"]] = words
    return trial


@dataclass
class _Scan:
    """How far pods of one kind have looked, and why not further back."""

    amounts: Amounts
    position: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def _next_node(pod: Json, scan: _Scan, names: list[str], free: Free) -> str:
    while scan.position < len(names):
        name = names[scan.position]
        why = why_not(pod, scan.amounts, free.nodes[name], free.left[name])
        if not why:
            return name
        scan.reasons[why] += 1
        scan.position += 1
    return ""


def _likeness(pod: Json) -> str:
    """The same for pods that fit the same nodes."""
    spec = pod["spec"]
    where = [spec.get(part) for part in ("nodeSelector", "affinity", "tolerations")]
    return json.dumps([where, [c.get("resources") for c in spec.get("containers", [])]])

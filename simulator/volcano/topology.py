"""HyperNodes: which nodes each one holds, and which of them a topology bound allows."""

import re
from dataclasses import dataclass

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at
from simulator.volcano.writes import Write, put_status


@dataclass(frozen=True)
class Domain:
    """A set of nodes to place a gang in; without a name it is the whole cluster."""

    name: str
    nodes: tuple[str, ...]
    tier: int = 0


def domains(hypernodes: list[Json], nodes: list[Json]) -> list[Domain]:
    """All HyperNodes with the nodes they hold, closest (lowest tier) first."""
    by_name = {h["metadata"]["name"]: h for h in hypernodes}
    machines = {n["metadata"]["name"]: n for n in nodes}
    found = [
        Domain(name, tuple(sorted(_held(name, by_name, machines, set()))), h["spec"]["tier"])
        for name, h in by_name.items()
    ]
    return sorted(found, key=lambda domain: (domain.tier, domain.name))


def _held(name: str, by_name: dict[str, Json], nodes: dict[str, Json], seen: set[str]) -> set[str]:
    if name in seen or name not in by_name:
        # HyperNodes in circles are accepted (13): what was seen is not looked at again.
        return set()
    seen.add(name)
    held: set[str] = set()
    for member in by_name[name]["spec"].get("members") or []:
        selector = member.get("selector") or {}
        if member.get("type") == "Node":
            held |= set(_chosen(selector, nodes))
        else:
            for child in _chosen(selector, by_name):
                held |= _held(child, by_name, nodes, seen)
    return held


def _chosen(selector: Json, things: dict[str, Json]) -> list[str]:
    exact = at(selector, "exactMatch", "name")
    if exact is not None:
        return [exact] if exact in things else []
    return [name for name, thing in things.items() if _chooses(selector, thing)]


def _chooses(selector: Json, thing: Json) -> bool:
    name = thing["metadata"]["name"]
    exact, pattern = at(selector, "exactMatch", "name"), at(selector, "regexMatch", "pattern")
    wanted = at(selector, "labelMatch", "matchLabels")
    if exact is not None:
        return bool(exact == name)
    if pattern is not None:
        return re.search(pattern, name) is not None
    labels = thing["metadata"].get("labels") or {}
    return wanted is not None and all(labels.get(k) == v for k, v in wanted.items())


def allowed(bound: Json | None, found: list[Domain], everything: Domain) -> list[Domain]:
    """The domains to try in turn under a `networkTopology`; without a hard bound at last all.

    A mode left out is hard; hard without a tier, or with an unknown tier name, bounds nothing (05).
    """
    if not bound:
        return [everything]
    tier = _tier(bound, found)
    if bound.get("mode", "hard") == "hard" and tier is not None:
        return [domain for domain in found if domain.tier <= tier]
    return [*found, everything]


def _tier(bound: Json, found: list[Domain]) -> int | None:
    tier = bound.get("highestTierAllowed")
    if tier is None:
        return None
    top = max((domain.tier for domain in found), default=-1)
    return None if tier > top else int(tier)


def counted(hypernode: Json, nodes: list[Json]) -> list[Write]:
    """`status.nodeCount`: the direct members; an exact name counts, node or not (11)."""
    number = 0
    for member in hypernode["spec"].get("members") or []:
        selector = member.get("selector") or {}
        if member.get("type") != "Node" or "exactMatch" in selector:
            number += 1
        else:
            number += sum(_chooses(selector, node) for node in nodes)
    return put_status("hypernodes", hypernode, {"nodeCount": number})

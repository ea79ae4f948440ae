"""Where nodes sit, by Volcano's HyperNodes.

A HyperNode has a tier number (lower = closer) and members: nodes or other HyperNodes, named exactly,
by a regular expression or by labels. Its tier is the federation's by `tierName` where that is one of
ours; else by option `tier.<tier>` = the number; else the numbers in use are, from the closest:
leaf; leaf and spine; domain, leaf and spine.

`status.nodeCount` is not looked at: it counts members by name, also such that do not exist.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from clusters.core.domains import RANK, TIERS

Path = tuple[tuple[str, str], ...]
Json = Mapping[str, Any]

_OURS = TIERS[1:-1]  # every node is a host and every cluster a cluster anyway
_USUAL = {1: ("leaf",), 2: ("leaf", "spine"), 3: ("domain", "leaf", "spine")}


def paths(
    hypernodes: Sequence[Json], nodes: Mapping[str, Mapping[str, str]], options: Mapping[str, str]
) -> dict[str, Path]:
    """For each node (name -> labels) its domains as (tier, name), widest first.

    Circles end where they close, members that are not there mean nothing, and of two HyperNodes of
    one tier that hold a node the first by name counts.
    """
    known = {one["metadata"]["name"]: one for one in hypernodes}
    tiers = _tiers(known, options)
    above: dict[str, list[str]] = {}
    holders: dict[str, list[str]] = {}
    for name in sorted(known):
        for member in known[name]["spec"].get("members") or ():
            selector = member.get("selector") or {}
            if member.get("type") == "HyperNode":
                for child in _named(selector, known):
                    above.setdefault(child, []).append(name)
            else:
                for node in {*_named(selector, nodes), *_labelled(selector, nodes)}:
                    holders.setdefault(node, []).append(name)
    return {node: _path(holders.get(node, ()), above, tiers) for node in nodes}


def _tiers(known: Mapping[str, Json], options: Mapping[str, str]) -> dict[str, str]:
    """The federation's tier of each HyperNode; those without one are missing."""
    numbers = sorted({one["spec"].get("tier", 0) for one in known.values()})
    by_number = dict(zip(numbers, _USUAL.get(len(numbers), ()), strict=False))
    told = {str(options[f"tier.{tier}"]): tier for tier in _OURS if f"tier.{tier}" in options}
    if told:
        by_number = {number: told[str(number)] for number in numbers if str(number) in told}
    found = {}
    for name, one in known.items():
        own = one["spec"].get("tierName", "")
        tier = own if own in _OURS else by_number.get(one["spec"].get("tier", 0))
        if tier:
            found[name] = tier
    return found


def _named(selector: Json, names: Collection[str]) -> Iterator[str]:
    exact = (selector.get("exactMatch") or {}).get("name")
    pattern = (selector.get("regexMatch") or {}).get("pattern")
    if exact:
        yield from (exact,) if exact in names else ()
    elif pattern:
        try:
            found = re.compile(pattern)
        except re.error:  # Volcano ignores it, too
            return
        yield from (name for name in names if found.search(name))


def _labelled(selector: Json, nodes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    wanted = (selector.get("labelMatch") or {}).get("matchLabels")
    if wanted:
        yield from (
            name
            for name, labels in nodes.items()
            if all(labels.get(key) == value for key, value in wanted.items())
        )


def _path(
    holders: Sequence[str], above: Mapping[str, Sequence[str]], tiers: Mapping[str, str]
) -> Path:
    """The domains from the HyperNodes that hold a node up to the top, one of a tier."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    ahead = list(holders)
    while ahead:
        name = ahead.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if name in tiers:
            found.setdefault(tiers[name], name)
        ahead += above.get(name, ())
    return tuple((tier, found[tier]) for tier in sorted(found, key=RANK.__getitem__, reverse=True))

"""Where a node sits. REST shows no topology, so it is read from node features or a topology.conf.

Options: `tier.<tier>` is a regular expression that one feature of each node matches, `<tier>` being
a tier of the federation (`clusters.core.domains`), e.g. `tier.leaf` = `^rack\\d+$`; without any,
features like `leaf000` and `spine000` are looked for. `topology_conf` is the text of the cluster's
topology.conf and then takes the place of features: its switches get the tiers of option `tiers`
(widest first, default `spine,leaf`), the switch next to the nodes the last one.
"""

import re
from collections.abc import Iterable, Mapping

from clusters.backends.slurm.hostlist import expand
from clusters.core.domains import RANK

Path = tuple[tuple[str, str], ...]

_PAIR = re.compile(r"(\w+)=(\S+)")


class Topology:
    """The paths of a cluster's nodes, widest domain first."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.tiers = _tiers(options)
        self._features = {
            tier: re.compile(options.get(f"tier.{tier}", rf"^{re.escape(tier)}\d+$"))
            for tier in self.tiers
        }
        text = options.get("topology_conf", "")
        self._paths = parse_topology_conf(text, self.tiers) if text.strip() else None

    def path(self, node: str, features: Iterable[str]) -> Path:
        """The node's domains as (tier, name); tiers nothing is known of are left out."""
        if self._paths is not None:
            return self._paths.get(node, ())
        found = tuple(features)
        pairs = ((tier, self._match(pattern, found)) for tier, pattern in self._features.items())
        return tuple((tier, name) for tier, name in pairs if name)

    @staticmethod
    def _match(pattern: re.Pattern[str], features: tuple[str, ...]) -> str:
        return next((feature for feature in features if pattern.search(feature)), "")


def _tiers(options: Mapping[str, str]) -> tuple[str, ...]:
    """Widest first: as listed, else by rank in the federation (a stored object has no order)."""
    listed = tuple(tier.strip() for tier in options.get("tiers", "").split(",") if tier.strip())
    named = {key.removeprefix("tier.") for key in options if key.startswith("tier.")}
    return listed or tuple(sorted(named, key=_rank)) or ("spine", "leaf")


def _rank(tier: str) -> tuple[int, str]:
    return -RANK.get(tier, len(RANK)), tier


def parse_topology_conf(text: str, tiers: tuple[str, ...]) -> dict[str, Path]:
    """Node paths from `SwitchName=... Nodes=... / Switches=...` lines.

    The switch next to the nodes takes the last tier, the one above it the tier before, and so on;
    switches above the widest tier (a root that joins all) are left out.

    Raises:
        ValueError: a switch above itself, or a malformed host list.
    """
    nodes: dict[str, tuple[str, ...]] = {}
    above: dict[str, str] = {}
    for line in text.splitlines():
        fields = {key.lower(): value for key, value in _PAIR.findall(line.split("#")[0])}
        switch = fields.get("switchname")
        if not switch:
            continue
        nodes[switch] = expand(fields.get("nodes", ""))
        above.update(dict.fromkeys(expand(fields.get("switches", "")), switch))
    paths: dict[str, Path] = {}
    for switch, names in nodes.items():
        chain = _chain(switch, above)
        path = tuple(reversed(tuple(zip(reversed(tiers), chain, strict=False))))
        paths.update(dict.fromkeys(names, path))
    return paths


def _chain(switch: str, above: Mapping[str, str]) -> list[str]:
    chain = [switch]
    while chain[-1] in above:
        if above[chain[-1]] in chain:
            raise ValueError(f"switch {switch!r} is above itself")
        chain.append(above[chain[-1]])
    return chain

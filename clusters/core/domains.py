"""The tree of domains of one cluster: tiers, nodes in rank order, the domains above each.

Tiers are the federation's: `host < domain < leaf < spine < cluster`, lower = closer. Every node is
a host of its own and every cluster one domain of tier `cluster`; what lies between comes from the
nodes' paths, and trees may differ in depth.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from clusters.core.resources import NOTHING_TAKEN, NodeShape

TIERS = ("host", "domain", "leaf", "spine", "cluster")
RANK = {tier: rank for rank, tier in enumerate(TIERS)}
HOST, CLUSTER = RANK["host"], RANK["cluster"]
Path = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node: what it has, what is free of it, and its domains (federation tiers, any order).

    `usable` is False for a node that takes no new work (down, draining, not ours now). `foreign` is
    what others than us hold of it.
    """

    name: str
    path: tuple[tuple[str, str], ...]
    total: NodeShape
    free: NodeShape
    usable: bool = True
    foreign: NodeShape = NOTHING_TAKEN


@cache
def natural(name: str) -> tuple[tuple[int, str | int], ...]:
    """A key that sorts n2 before n10."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((1, int(p)) if p[:1] in "0123456789" else (0, p) for p in parts if p)


def _between(path: Iterable[tuple[str, str]]) -> Path:
    """The (rank, domain) pairs strictly between host and cluster, widest first."""
    pairs = {RANK[tier]: domain for tier, domain in path if tier in RANK}
    return tuple((rank, pairs[rank]) for rank in range(CLUSTER - 1, HOST, -1) if rank in pairs)


class Tree:
    """Nodes in rank order and the domains above them, as numbers; domain 0 is the cluster.

    Parents have lower numbers than their children. `by_rank` lists the domains of a rank and
    `slots[d]` is the place of d there; `chains[d]` is d and all above it; `home[i]` is the
    narrowest domain of node i, `hosts[d]` the nodes whose home is d.
    """

    def __init__(self, nodes: Sequence[NodeRoom]) -> None:
        paths = {node.name: _between(node.path) for node in nodes}
        self.order = sorted(
            nodes,
            key=lambda n: ([natural(d) for _, d in paths[n.name]], natural(n.name)),
        )
        self.numbers = {node.name: number for number, node in enumerate(self.order)}
        assert len(self.numbers) == len(self.order), "two nodes bear one name"
        self.parents, self.ranks, self.slots = [-1], [CLUSTER], [0]
        self.chains: list[tuple[int, ...]] = [(0,)]
        self.children: list[list[int]] = [[]]
        self.hosts: list[list[int]] = [[]]
        self.by_rank: list[list[int]] = [[] for _ in TIERS]
        self.by_rank[CLUSTER].append(0)
        self.home: list[int] = []
        known: dict[Path, int] = {(): 0}
        for number, node in enumerate(self.order):
            home = self._domain(paths[node.name], known)
            self.home.append(home)
            self.hosts[home].append(number)

    def _domain(self, path: Path, known: dict[Path, int]) -> int:
        found = known.get(path)
        if found is not None:
            return found
        parent = self._domain(path[:-1], known)
        number = known[path] = len(self.parents)
        rank = path[-1][0]
        self.parents.append(parent)
        self.ranks.append(rank)
        self.slots.append(len(self.by_rank[rank]))
        self.by_rank[rank].append(number)
        self.chains.append((number, *self.chains[parent]))
        self.children.append([])
        self.children[parent].append(number)
        self.hosts.append([])
        return number


def shared_tier(paths: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The lowest tier of which nodes with these paths share a domain; one node is a host.

    A domain is told by its whole path: two leaves of one name under two spines are two leaves.
    """
    if len(paths) == 1:
        return TIERS[HOST]
    between = [_between(path) for path in paths]
    shared = TIERS[CLUSTER]
    for depth, (rank, _) in enumerate(between[0], start=1):
        if any(path[:depth] != between[0][:depth] for path in between):
            break
        shared = TIERS[rank]
    return shared

"""What comes free on the nodes of clusters when gangs leave: those that go anyway, and victims."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from uuid import UUID

from clusters.core.resources import GangShape, NodeShape, left_of
from clusters.core.topology import NodeRoom, Room
from federation.core.draft import Draft
from federation.core.snapshot import Holding, Site, Snapshot


class Departures:
    """Rooms as they will be; foreign load stays, and what the draft promised is taken.

    After each change of the draft `begin` has to be called again.
    """

    def __init__(self, snapshot: Snapshot, draft: Draft) -> None:
        self._draft = draft
        self._on: dict[UUID, dict[str, list[Holding]]] = defaultdict(lambda: defaultdict(list))
        self._left_by: dict[UUID, set[str]] = defaultdict(set)
        for held in snapshot.holdings:
            if held.goes:
                self._left_by[held.cluster].update(held.nodes)
            else:
                for name in held.nodes:
                    self._on[held.cluster][name].append(held)
        self._nodes: dict[tuple[str, str], Mapping[str, NodeRoom]] = {}
        self._promised: dict[UUID, dict[str, list[GangShape]]] = {}
        self._changed: dict[tuple[str, str], dict[str, NodeShape]] = {}
        self.begin()

    def begin(self) -> None:
        """See what the draft has promised by now, and whom it evicts."""
        self._changed.clear()
        self._promised = defaultdict(lambda: defaultdict(list))
        for binding in self._draft.promised:
            for name in binding.nodes:
                self._promised[binding.cluster][name].append(binding.shape)
        for claim in self._draft.claims:
            for held in claim.victims:
                self._left_by[held.cluster].update(held.nodes)

    def is_at(self, site: Site, held: Holding) -> bool:
        """Whether the gang holds a node of the site."""
        return held.cluster == site.cluster.id and not self._nodes_of(site).keys().isdisjoint(
            held.nodes
        )

    def room(self, site: Site, victims: Iterable[Holding]) -> Room:
        """The site when the victims, and all who leave anyway, are gone."""
        nodes, at_site = self._nodes_of(site), [held for held in victims if self.is_at(site, held)]
        gone = {held.attempt for held in at_site} | self._draft.victims
        names = {name for held in at_site for name in held.nodes if name in nodes}
        left = {name: self._left(site, nodes[name], gone) for name in names}
        if not left and self._left_by[site.cluster.id].isdisjoint(nodes):
            return self._draft.room(site)  # nobody leaves: it stays as it is
        return self._draft.room(site).with_free({**self._without_leavers(site), **left})

    def hold(self, site: Site, names: Iterable[str], shape: GangShape) -> bool:
        """Whether each of the nodes has room for a member when those who leave anyway are gone."""
        nodes, on = self._nodes_of(site), self._on[site.cluster.id]
        need = shape.per_node
        for node in map(nodes.__getitem__, names):
            left = left_of(node.total, node.foreign, [held.shape for held in on[node.name]])
            if shape.exclusive and left != node.total:
                return False
            if left.gpus < need.gpus or left.cpus < need.cpus or left.memory_mib < need.memory_mib:
                return False
        return True

    def _without_leavers(self, site: Site) -> Mapping[str, NodeShape]:
        """Nodes of the site that somebody leaves, or that are promised, and what is free then."""
        key = (site.cluster.name, site.flavor.name)
        changed = self._changed.get(key)
        if changed is None:
            nodes, cluster = self._nodes_of(site), site.cluster.id
            names = (self._left_by[cluster] | self._promised[cluster].keys()) & nodes.keys()
            changed = self._changed[key] = {
                name: self._left(site, nodes[name], self._draft.victims) for name in names
            }
        return changed

    def _left(self, site: Site, node: NodeRoom, gone: Iterable[UUID]) -> NodeShape:
        held_there = self._on[site.cluster.id].get(node.name, ())
        stay = [held.shape for held in held_there if held.attempt not in gone]
        promised = self._promised[site.cluster.id].get(node.name, ())
        return left_of(node.total, node.foreign, (*stay, *promised))

    def _nodes_of(self, site: Site) -> Mapping[str, NodeRoom]:
        key = (site.cluster.name, site.flavor.name)
        nodes = self._nodes.get(key)
        if nodes is None:
            nodes = self._nodes[key] = {node.name: node for node in site.flavor.nodes}
        return nodes

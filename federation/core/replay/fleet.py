"""The nodes of a replayed federation, and what gangs on them leave free."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from clusters.core.resources import GangShape, left_of
from clusters.core.topology import NodeRoom
from federation.core.snapshot import ClusterView, FlavorView, Holding


class Fleet:
    """Clusters whose views are built anew only where something changed."""

    def __init__(self, clusters: Iterable[ClusterView]) -> None:
        self._views = {cluster.id: cluster for cluster in clusters}
        self._rooms: dict[tuple[UUID, str], NodeRoom] = {
            (cluster.id, node.name): node
            for cluster in self._views.values()
            for flavor in cluster.flavors
            for node in flavor.nodes
        }
        self._members: dict[tuple[UUID, str], list[GangShape]] = defaultdict(list)
        self._changed: set[tuple[UUID, str]] = set()

    def views(self) -> tuple[ClusterView, ...]:
        """The clusters with what is free now."""
        for key in self._changed:
            room = self._rooms[key]
            free = left_of(room.total, room.foreign, self._members[key])
            self._rooms[key] = replace(room, free=free)
        for cluster in {cluster for cluster, _ in self._changed}:
            view = self._views[cluster]
            flavors = tuple(self._renewed(cluster, flavor) for flavor in view.flavors)
            self._views[cluster] = replace(view, flavors=flavors)
        self._changed.clear()
        return tuple(self._views.values())

    def _renewed(self, cluster: UUID, flavor: FlavorView) -> FlavorView:
        return replace(flavor, nodes=tuple(self._rooms[cluster, n.name] for n in flavor.nodes))

    def put(self, held: Holding) -> None:
        """A gang takes its nodes."""
        for name in held.nodes:
            self._members[held.cluster, name].append(held.shape)
            self._changed.add((held.cluster, name))

    def take_off(self, held: Holding) -> None:
        """A gang leaves its nodes."""
        for name in held.nodes:
            self._members[held.cluster, name].remove(held.shape)
            self._changed.add((held.cluster, name))

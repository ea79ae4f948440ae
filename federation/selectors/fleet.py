"""Builds the core's view of the clusters: what is free now, or what there is at all."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Sum, TextField
from django.db.models.functions import Cast

from clusters.core.capabilities import FORMS, lacks
from clusters.core.observation import NodeState
from clusters.core.queueing import tells_classes_apart
from clusters.core.resources import NOTHING_TAKEN, GangShape, NodeShape, left_of
from clusters.core.topology import NodeRoom, Room
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Node, Observation
from federation.core.plan import FleetView
from federation.core.snapshot import (
    ClusterState,
    ClusterView,
    FlavorView,
    Holding,
    ReservedNodes,
)
from federation.models import Attempt
from kit.reads import Fixed
from quotas.core.cohort import GUARANTEED, SPOT

Path = tuple[tuple[str, str], ...]
_NODE = ("cluster_id", "name", "state", "device", "queues", "gpus", "cpus", "memory_mib")
_FOREIGN = ("foreign_gpus", "foreign_cpus", "foreign_memory_mib")
_FLAVOR = ("cluster_id", "flavor_id", "device", "queue")
_NODES = (
    Node.objects.annotate(steps=Cast("path", TextField()))
    .order_by()
    .values_list(*_NODE, *_FOREIGN, "steps")
)
_ALL_NODES = Fixed(_NODES)
_FLAVORS = Fixed(ClusterFlavor.objects.order_by("flavor_id").values_list(*_FLAVOR))
_BUILT: dict[UUID, tuple[tuple[Any, ...], dict[tuple[str, str], Room]]] = {}


@dataclass(slots=True)
class _Seen:
    """One cluster's nodes as (device, queues, room)."""

    nodes: list[tuple[str, Sequence[str], NodeRoom]] = field(default_factory=list)

    def of(self, device: str, queue: str) -> tuple[NodeRoom, ...]:
        """The nodes with that device that the member queue reaches ("" = the default, all)."""
        return tuple(
            node
            for kind, queues, node in self.nodes
            if kind == device and (not queue or queue in queues)
        )


def cluster_views(now: datetime, users: Any, held: Iterable[Holding]) -> tuple[ClusterView, ...]:
    """Every cluster with its free room. `users` (ids or a query of ids): whose accounts matter.

    5 queries: clusters, flavors, accounts, nodes, observations.
    """
    flavors = _flavors()
    people = _people(users)
    seen = _nodes(_promised(held))
    readings = {
        row[0]: row[1:]
        for row in Observation.objects.values_list("cluster_id", "queues", "reservations")
    }
    silent_since = now - timedelta(milliseconds=settings.ENVIRONMENT.silent_after_ms)
    views = []
    for cluster in Cluster.objects.order_by("name").defer("secret", "probe"):
        queues, reservations = readings.get(cluster.id, ((), ()))
        views.append(
            ClusterView(
                id=cluster.id,
                name=cluster.name,
                revision=cluster.revision,
                state=_state(cluster, silent_since),
                flavors=tuple(_flavor_views(flavors[cluster.id], seen[cluster.id], queues)),
                reserved=tuple(_reserved(reservations, cluster.clock_skew_ms)),
                stores=frozenset(cluster.stores),
                people=frozenset(people[cluster.id]),
                lacks=lacks(cluster.capabilities, cluster.options),
                seen=cluster.last_seen_at is not None,
                class_is_fixed=_class_is_fixed(cluster.options),
                form=FORMS[cluster.backend],
            )
        )
    return tuple(views)


def _class_is_fixed(options: Mapping[str, Any]) -> bool:
    """Whether the classes are different QOS or queues there: a running gang keeps the one it has."""
    guaranteed, spot = (options.get(f"qos.{name}", "") for name in (GUARANTEED, SPOT))
    return bool(guaranteed != spot) or tells_classes_apart(options)


def take_fleet(users: Iterable[UUID]) -> tuple[FleetView, ...]:
    """Every cluster with all nodes up and nothing used, for `explain.never_reasons`.

    Building the rooms is the costly part, so this process keeps them until a cluster's revision,
    flavors or number of nodes change. 4 queries, and one more for each cluster that changed.
    """
    flavors = _flavors()
    people = _people(list(users))
    counts = {
        row[0]: row[1:]
        for row in Node.objects.values_list("cluster_id").annotate(Count("id"), Sum("gpus"))
    }
    views = []
    for cluster in Cluster.objects.order_by("name").defer("secret", "probe"):
        named = flavors[cluster.id]
        key = (cluster.revision, counts.get(cluster.id), *named)
        built = _BUILT.get(cluster.id)
        if built is None or built[0] != key:
            seen = _nodes({}, cluster.id)[cluster.id]
            rooms = {(device, queue): Room(seen.of(device, queue)) for _, device, queue in named}
            _BUILT[cluster.id] = built = (key, rooms)
        view = ClusterView(
            id=cluster.id,
            name=cluster.name,
            revision=cluster.revision,
            state=ClusterState.OPEN,
            flavors=tuple(FlavorView(name, device, (), queue) for name, device, queue in named),
            stores=frozenset(cluster.stores),
            people=frozenset(people[cluster.id]),
            lacks=lacks(cluster.capabilities, cluster.options),
            seen=cluster.last_seen_at is not None,
            form=FORMS[cluster.backend],
        )
        at_rest = {name: built[1][device, queue].at_rest for name, device, queue in named}
        views.append(FleetView(view, at_rest))
    return tuple(views)


OPEN_ATTEMPTS = Attempt.objects.exclude(state=Attempt.State.ENDED)


def _state(cluster: Cluster, silent_since: datetime) -> ClusterState:
    if cluster.is_silent(silent_since):
        return ClusterState.UNREACHABLE
    return _STATES[Cluster.State(cluster.state)]


_STATES = {
    Cluster.State.ACTIVE: ClusterState.OPEN,
    Cluster.State.DRAINING: ClusterState.DRAINING,
    Cluster.State.CUT_OFF: ClusterState.CUT_OFF,
}


def _flavors() -> Mapping[UUID, list[tuple[str, str, str]]]:
    """Of each cluster, the (flavor, device, member queue) it has."""
    flavors: dict[UUID, list[tuple[str, str, str]]] = defaultdict(list)
    for cluster, flavor, device, queue in _FLAVORS.rows():
        flavors[cluster].append((flavor, device, queue))
    return flavors


def _people(users: Any) -> Mapping[UUID, set[UUID]]:
    people: dict[UUID, set[UUID]] = defaultdict(set)
    for cluster, user in ClusterAccount.objects.filter(user__in=users).values_list(
        "cluster_id", "user_id"
    ):
        people[cluster].add(user)
    return people


def _promised(held: Iterable[Holding]) -> dict[tuple[UUID, str], list[GangShape]]:
    promised: dict[tuple[UUID, str], list[GangShape]] = defaultdict(list)
    for holding in held:
        for node in holding.nodes:
            promised[holding.cluster, node].append(holding.shape)
    return promised


def _nodes(
    promised: Mapping[tuple[UUID, str], list[GangShape]], only: UUID | None = None
) -> Mapping[UUID, _Seen]:
    rows = _ALL_NODES.rows() if only is None else _NODES.filter(cluster=only)
    paths: dict[str, Path] = {}
    shapes: dict[tuple[int, int, int], NodeShape] = {}
    seen: dict[UUID, _Seen] = defaultdict(_Seen)
    for (
        cluster,
        name,
        state,
        device,
        queues,
        gpus,
        cpus,
        memory_mib,
        *foreign,
        steps,
    ) in rows:
        path = paths.get(steps)
        if path is None:
            path = paths[steps] = tuple((tier, domain) for tier, domain in json.loads(steps))
        size = (gpus, cpus, memory_mib)
        total = shapes.get(size) or shapes.setdefault(size, NodeShape(*size))
        members = promised.get((cluster, name), ())
        others = NodeShape(*foreign) if any(foreign) else NOTHING_TAKEN
        is_empty = not members and others is NOTHING_TAKEN
        free = total if is_empty else left_of(total, others, members)
        node = NodeRoom(name, path, total, free, state == NodeState.UP, others)
        seen[cluster].nodes.append((device, queues, node))
    return seen


def _flavor_views(
    flavors: Sequence[tuple[str, str, str]], seen: _Seen, queues: Sequence[Sequence[Any]]
) -> Iterator[FlavorView]:
    known = {name: (is_open, longest_s) for name, is_open, _, longest_s in queues}
    for name, device, queue in flavors:
        is_open, longest_s = known.get(queue, (True, None))
        yield FlavorView(
            name=name,
            device=device,
            nodes=seen.of(device, queue),
            queue=queue,
            queue_is_open=is_open,
            longest_ms=None if longest_s is None else longest_s * 1000,
        )


def _reserved(rows: Sequence[Sequence[Any]], skew_ms: int) -> Iterator[ReservedNodes]:
    """Stored reservations, their times moved from the cluster's clock to ours."""
    for name, nodes, start_ms, end_ms, _ in rows:
        yield ReservedNodes(name, frozenset(nodes), start_ms - skew_ms, end_ms - skew_ms)

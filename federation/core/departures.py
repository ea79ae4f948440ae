"""What comes free when gangs leave, those that go anyway and victims: room on nodes, and quota."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from uuid import UUID

from clusters.core.resources import GangShape, NodeShape, left_of
from clusters.core.topology import NodeRoom, Room
from federation.core.draft import Draft, idle_gpus, use_of
from federation.core.plan import Binding
from federation.core.snapshot import ClusterState, Holding, Reservation, Site, Snapshot
from quotas.core.cohort import SPOT, Headroom, Use


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

    def promise(self, binding: Binding) -> None:
        """Take what the binding will hold, as `begin` would find it in the draft."""
        for name in binding.nodes:
            self._promised[binding.cluster][name].append(binding.shape)

    def hold(self, site: Site, names: Iterable[str], shape: GangShape) -> bool:
        """Whether each of the nodes has room for a member when those who leave are gone."""
        nodes = self._nodes_of(site)
        need = shape.per_node
        for node in map(nodes.__getitem__, names):
            left = self._left(site, node, self._draft.victims)
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


class QuotaToCome:
    """Quota as it is when all that was promised runs, and those who leave are gone.

    Spot is bounded by what owners keep of the GPUs that will be idle then, so these are counted for
    it; guaranteed is not.
    """

    def __init__(self, snapshot: Snapshot, draft: Draft, service_class: str) -> None:
        self._cohort = draft.quota_to_come()
        self._class = service_class
        self._sizes: dict[tuple[UUID, str], int] = {}
        if service_class == SPOT:
            self._cohort.know_idle(self._idle(snapshot, draft))

    def take(self, binding: Binding) -> None:
        """Count what was promised since."""
        freed = self._gpus_on(binding.cluster, binding.nodes, binding.shape)
        self._cohort.take(use_of(binding), idle=freed)

    def give_back(self, held: Holding) -> None:
        """Count a gang no longer that was told to go since."""
        freed = self._gpus_on(held.cluster, held.nodes, held.shape)
        self._cohort.take(_negative(held.use), idle=-freed)

    def headroom(
        self, tenant: UUID, flavor: str, cluster: UUID, gone: Iterable[Holding] = ()
    ) -> Headroom:
        """How much more the tenant may take there in the class when these are gone, too."""
        freed = self._freed(gone)
        for use, gpus in freed:
            self._cohort.take(_negative(use), idle=-gpus)
        headroom = self._cohort.headroom(tenant, flavor, cluster, self._class)
        for use, gpus in freed:
            self._cohort.take(use, idle=gpus)
        return headroom

    def _freed(self, gone: Iterable[Holding]) -> list[tuple[Use, int]]:
        """What the gangs of the class count, in few rows, and the GPUs that come free."""
        used: Counter[tuple[UUID, str, UUID]] = Counter()
        idle: Counter[tuple[UUID, str, UUID]] = Counter()
        for held in gone:
            if held.service_class == self._class:
                place = (held.tenant, held.flavor, held.cluster)
                used[place] += held.gpus
                idle[place] += self._gpus_on(held.cluster, held.nodes, held.shape)
        return [(Use(*place, self._class, gpus), idle[place]) for place, gpus in used.items()]

    def _idle(self, snapshot: Snapshot, draft: Draft) -> Mapping[tuple[str, UUID], int]:
        """Free GPUs to come by flavor and cluster, where something new may start."""
        self._sizes = {
            (cluster.id, node.name): node.total.gpus - node.foreign.gpus
            for cluster in snapshot.clusters
            if cluster.state is ClusterState.OPEN
            for flavor in cluster.flavors
            if flavor.queue_is_open
            for node in flavor.nodes
            if node.usable
        }
        idle = Counter(idle_gpus(snapshot.clusters))
        for held in snapshot.holdings:
            if draft.is_gone(held):
                freed = self._gpus_on(held.cluster, held.nodes, held.shape)
                idle[held.flavor, held.cluster] += freed
        for binding in draft.promised:
            taken = self._gpus_on(binding.cluster, binding.nodes, binding.shape)
            idle[binding.flavor, binding.cluster] -= taken
        return idle

    def _gpus_on(self, cluster: UUID, nodes: Iterable[str], shape: GangShape) -> int:
        """The gang's GPUs on nodes where something new may start; none for guaranteed."""
        sizes = [self._sizes[cluster, name] for name in nodes if (cluster, name) in self._sizes]
        return sum(sizes) if shape.exclusive else len(sizes) * shape.per_node.gpus


def _negative(use: Use) -> Use:
    return Use(use.tenant, use.flavor, use.cluster, use.service_class, -use.gpus)


def may_stay(draft: Draft) -> bool:
    """Whether somebody who was told to go may stay after all, as this plan ends what it goes for.

    A job whose nodes are kept no longer, or that is bound while others still leave for it, needs
    nobody to go any more. Who stays then, and who goes for another job, is known when the plan has
    come true.
    """
    bound = draft.bindings
    return bool(draft.released) or any(held.goes_for in bound for held in draft.snapshot.holdings)


def heir(cluster: UUID, nodes: Iterable[str], kept: Iterable[Reservation]) -> int | None:
    """The job for which one of the nodes is kept, None = there is none.

    A gang that was told to go for another job goes for that one: `kept` come in their order.
    """
    names = set(nodes)
    return next(
        (one.job for one in kept if one.cluster == cluster and not names.isdisjoint(one.nodes)),
        None,
    )

"""Reads of the fleet as people see it: what there is, what is used, what is free.

GPUs of "ours" are those of the gangs that were last seen on nodes; foreign load is what jobs that
are not ours hold. A node that takes no new work has none free.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

from django.db.models import Prefetch

from clusters.core.domains import TIERS, natural
from clusters.core.observation import GangState, NodeState
from clusters.core.resources import NodeShape
from clusters.core.topology import NodeRoom, Room
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Flavor, Node, Observation
from kit.errors import NotFoundError
from tenancy.models import User


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A node and the GPUs on it that our gangs hold."""

    node: Node
    ours: int

    @property
    def is_up(self) -> bool:
        """Whether it takes new work."""
        return self.node.state == NodeState.UP

    @property
    def idle(self) -> int:
        """GPUs that nobody holds."""
        return max(0, self.node.gpus - self.ours - self.node.foreign_gpus)

    @property
    def free(self) -> int:
        """GPUs that new work could get."""
        return self.idle if self.is_up else 0

    @property
    def room(self) -> NodeRoom:
        """The node as the topology counts it (by GPUs alone)."""
        path = tuple((tier, domain) for tier, domain in self.node.path)
        whole, free = NodeShape(self.node.gpus, 0, 0), NodeShape(self.idle, 0, 0)
        return NodeRoom(self.node.name, path, whole, free, self.is_up)


@dataclass(frozen=True)
class FlavorUse:
    """One GPU model on one cluster: its nodes and what becomes of their GPUs."""

    flavor: ClusterFlavor
    nodes: Sequence[NodeUse]

    @cached_property
    def room(self) -> Room:
        """The nodes as a room, for free blocks and fragmentation."""
        return Room([use.room for use in self.nodes])

    @property
    def gpus(self) -> int:
        """All of them."""
        return sum(use.node.gpus for use in self.nodes)

    @property
    def ours(self) -> int:
        """Held by our gangs."""
        return sum(use.ours for use in self.nodes)

    @property
    def foreign(self) -> int:
        """Held by others."""
        return sum(use.node.foreign_gpus for use in self.nodes)

    @property
    def free(self) -> int:
        """For new work."""
        return sum(use.free for use in self.nodes)

    @property
    def drained(self) -> int:
        """Idle, but on nodes that take no new work."""
        return sum(use.idle for use in self.nodes if not use.is_up)


@dataclass(frozen=True)
class ClusterUse:
    """A cluster, its flavors, its last reading, and the account of the one who asks."""

    cluster: Cluster
    flavors: Sequence[FlavorUse]
    observation: Observation | None
    account: str | None


def cluster_named(name: str) -> Cluster:
    """One cluster by name.

    Raises:
        NotFoundError: there is none.
    """
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        raise NotFoundError("There is no such cluster.")
    return cluster


def locked_member(cluster: Cluster) -> Cluster:
    """The row of a member, locked until the transaction ends. Orders may refer to it meanwhile.

    Raises:
        NotFoundError: it left since the caller looked.
    """
    held = Cluster.objects.select_for_update(no_key=True).filter(pk=cluster.pk).first()
    if held is None:
        raise NotFoundError(f"The cluster {cluster.name} has left.")
    return held


def cluster_page(user: User, *, after: str | None, limit: int) -> list[ClusterUse]:
    """At most `limit` + 1 clusters in order of their names. 5 queries."""
    rows = Cluster.objects.order_by("name").defer("secret")
    if after is not None:
        rows = rows.filter(name__gt=after)
    return _uses(list(rows[: limit + 1]), user)


def cluster_use(user: User, name: str) -> ClusterUse:
    """One cluster by name.

    Raises:
        NotFoundError: there is none.
    """
    return _uses([cluster_named(name)], user)[0]


def _uses(clusters: Sequence[Cluster], user: User) -> list[ClusterUse]:
    ids = [cluster.id for cluster in clusters]
    readings = {row.cluster_id: row for row in Observation.objects.filter(cluster__in=ids)}
    accounts = dict(
        ClusterAccount.objects.filter(cluster__in=ids, user=user).values_list(
            "cluster_id", "account"
        )
    )
    by_device: dict[tuple[UUID, str], list[NodeUse]] = defaultdict(list)
    held = {key: held_gpus(reading) for key, reading in readings.items()}
    for node in Node.objects.filter(cluster__in=ids).order_by():
        ours = held.get(node.cluster_id, {}).get(node.name, 0)
        by_device[node.cluster_id, node.device].append(NodeUse(node, ours))
    flavors: dict[UUID, list[FlavorUse]] = defaultdict(list)
    for named in ClusterFlavor.objects.filter(cluster__in=ids).order_by("flavor_id"):
        nodes = by_device.get((named.cluster_id, named.device), [])
        flavors[named.cluster_id].append(FlavorUse(named, nodes))
    return [
        ClusterUse(cluster, flavors[cluster.id], readings.get(cluster.id), accounts.get(cluster.id))
        for cluster in clusters
    ]


def held_gpus(observation: Observation | None) -> Mapping[str, int]:
    """GPUs by node that our gangs held in the last reading."""
    held: Counter[str] = Counter()
    for gang in observation.gangs if observation else ():
        if GangState(gang["state"]).holds_nodes and gang["nodes"]:
            for node in gang["nodes"]:
                held[node] += gang["gpus"] // len(gang["nodes"])
    return held


def node_page(cluster: Cluster, *, after: str | None, limit: int) -> list[NodeUse]:
    """At most `limit` + 1 nodes of a cluster in order of their names."""
    rows = Node.objects.filter(cluster=cluster).order_by("name")
    if after is not None:
        rows = rows.filter(name__gt=after)
    held = held_gpus(Observation.objects.filter(cluster=cluster).first())
    return [NodeUse(node, held.get(node.name, 0)) for node in rows[: limit + 1]]


@dataclass
class DomainUse:
    """A block of nodes: its tier, the blocks inside it, and the nodes that are in none of those."""

    tier: str
    name: str
    domains: dict[str, "DomainUse"] = field(default_factory=dict)
    nodes: list[NodeUse] = field(default_factory=list)

    def inner(self) -> list["DomainUse"]:
        """The blocks inside, in natural order of their names."""
        return sorted(self.domains.values(), key=lambda domain: natural(domain.name))

    def everything(self) -> Iterable[NodeUse]:
        """Every node inside, at any depth."""
        yield from self.nodes
        for domain in self.domains.values():
            yield from domain.everything()


def topology_of(cluster: Cluster) -> DomainUse:
    """The tree of a cluster's nodes, widest tier first."""
    held = held_gpus(Observation.objects.filter(cluster=cluster).first())
    root = DomainUse(TIERS[-1], cluster.name)
    nodes = Node.objects.filter(cluster=cluster).order_by()
    for node in sorted(nodes, key=lambda node: natural(node.name)):
        block = root
        for tier, name in node.path:
            block = block.domains.setdefault(name, DomainUse(tier, name))
        block.nodes.append(NodeUse(node, held.get(node.name, 0)))
    return root


def flavor_page(*, after: str | None, limit: int) -> list[Flavor]:
    """At most `limit` + 1 flavors of the catalogue in order of their names, clusters at hand."""
    members = ClusterFlavor.objects.filter(cluster__in=Cluster.objects.all())
    named = Prefetch("clusters", members.select_related("cluster"))
    rows = Flavor.objects.prefetch_related(named).order_by("name")
    if after is not None:
        rows = rows.filter(name__gt=after)
    return list(rows[: limit + 1])


def flavor_named(name: str) -> Flavor:
    """A GPU model of the catalogue.

    Raises:
        NotFoundError: there is none of that name.
    """
    flavor = Flavor.objects.filter(name=name).first()
    if flavor is None:
        raise NotFoundError("There is no such GPU model in the catalogue.")
    return flavor


def named_flavor(cluster: Cluster, flavor: str) -> ClusterFlavor:
    """What a GPU model is called on a cluster.

    Raises:
        NotFoundError: the cluster does not have it.
    """
    held = ClusterFlavor.objects.filter(cluster=cluster, flavor_id=flavor).first()
    if held is None:
        raise NotFoundError("The cluster does not have this GPU model.")
    return held


def user_named(username: str) -> User:
    """A person.

    Raises:
        NotFoundError: there is nobody of that name.
    """
    user = User.objects.filter(username=username).first() if "\0" not in username else None
    if user is None:
        raise NotFoundError("There is no such person.")
    return user


def account_page(cluster: Cluster, *, after: str | None, limit: int) -> list[ClusterAccount]:
    """At most `limit` + 1 accounts of a cluster in order of the people's usernames."""
    rows = ClusterAccount.objects.filter(cluster=cluster).select_related("user")
    if after is not None:
        rows = rows.filter(user__username__gt=after)
    return list(rows.order_by("user__username")[: limit + 1])


def account_of(cluster: Cluster, username: str) -> ClusterAccount:
    """A person's account on a cluster.

    Raises:
        NotFoundError: there is none.
    """
    rows = ClusterAccount.objects.filter(cluster=cluster).select_related("user", "cluster")
    held = rows.filter(user__username=username).first() if "\0" not in username else None
    if held is None:
        raise NotFoundError("The person has no account there.")
    return held

"""REST: clusters and what is below them, flavors."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from clusters.core.domains import TIERS
from clusters.models import Cluster, Flavor
from clusters.selectors.connection import configuration_etag
from clusters.selectors.fleet import (
    ClusterUse,
    DomainUse,
    FlavorUse,
    NodeUse,
    cluster_named,
    cluster_page,
    cluster_use,
    flavor_page,
    node_page,
    topology_of,
)
from clusters.services.fleet import set_state
from clusters.services.probe import probe_cluster
from kit.errors import InvalidContentError
from kit.intervals import iso
from tenancy.api.endpoint import (
    MOMENT,
    NUMBER,
    PAGING,
    TEXT,
    TRUTH,
    Endpoint,
    clock,
    component,
    document,
    etag,
    fields_of,
    list_of,
    operation,
    or_null,
    page_after,
    page_of,
    page_response,
    user_of,
)
from tenancy.permissions import CanRead, IsAdmin, principal_of

ANY: dict[str, Any] = {"type": "object", "additionalProperties": True}
BLOCKS: dict[str, Any] = {"type": "object", "additionalProperties": NUMBER}
FLAVOR_USE = document(
    flavor=TEXT,
    device=TEXT,
    queue=TEXT,
    nodes=NUMBER,
    gpus=NUMBER,
    used=NUMBER,
    foreign=NUMBER,
    free=NUMBER,
    drained=NUMBER,
    largest_free_block=BLOCKS,
)
CLUSTER = component(
    "Cluster",
    document(
        name=TEXT,
        title=TEXT,
        backend=TEXT,
        state=TEXT,
        is_reachable=TRUTH,
        last_seen_at=or_null(MOMENT),
        failing_since=or_null(MOMENT),
        failure=TEXT,
        clock_skew_ms=NUMBER,
        capabilities=ANY,
        stores=list_of(TEXT),
        account=or_null(TEXT),
        flavors=list_of(FLAVOR_USE),
        foreign=document(running=NUMBER, pending=NUMBER, pending_gpus=NUMBER),
    ),
)
NODE = component(
    "Node",
    document(
        name=TEXT,
        state=TEXT,
        reason=TEXT,
        device=TEXT,
        gpus=NUMBER,
        used=NUMBER,
        foreign=NUMBER,
        free=NUMBER,
        cpus=NUMBER,
        memory_mib=NUMBER,
        path=list_of(document(tier=TEXT, domain=TEXT)),
        queues=list_of(TEXT),
    ),
)
DOMAIN = component(
    "Domain",
    document(
        tier=TEXT,
        name=TEXT,
        gpus=NUMBER,
        free=NUMBER,
        domains=list_of({"$ref": "#/components/schemas/Domain"}),
        nodes=list_of(document(name=TEXT, state=TEXT, gpus=NUMBER, free=NUMBER)),
    ),
)
MEMBER_QUEUE = component(
    "MemberQueue",
    document(name=TEXT, is_open=TRUTH, nodes=NUMBER, max_time_s=or_null(NUMBER)),
)
FRAGMENTATION = component(
    "Fragmentation",
    document(
        flavor=TEXT,
        free=NUMBER,
        tiers=list_of(document(tier=TEXT, largest_free_block=NUMBER, fragmentation=TEXT)),
    ),
)
FLAVOR = component(
    "Flavor",
    document(name=TEXT, vendor=TEXT, memory_gb=NUMBER, bf16_tflops=NUMBER, clusters=list_of(TEXT)),
)


class Clusters(Endpoint):
    """The fleet."""

    @operation(CanRead, "The clusters", gives=page_of(CLUSTER), query=PAGING, name="list_clusters")
    def get(self, request: Request) -> Response:
        """In order of their names, with used, free, foreign and drained GPUs by flavor."""
        page = page_after(request, str)
        after = page.after if isinstance(page.after, str) else None
        rows = cluster_page(user_of(request), after=after, limit=page.limit)
        return page_response(
            request, page, rows, cluster_document, lambda use: str(use.cluster.name)
        )


class OneCluster(Endpoint):
    """One cluster."""

    @operation(CanRead, "One cluster", gives=CLUSTER, name="get_cluster")
    def get(self, request: Request, name: str) -> Response:
        """Admins also see its endpoint, settings and what the last probe found."""
        use = cluster_use(user_of(request), name)
        shown = cluster_document(use)
        if principal_of(request).is_admin:
            shown |= {
                "endpoint": use.cluster.endpoint,
                "options": use.cluster.options,
                "probe": use.cluster.probe,
            }
        return Response(shown, headers={"ETag": etag(configuration_etag(use.cluster))})


class Nodes(Endpoint):
    """The nodes of a cluster."""

    @operation(CanRead, "Its nodes", gives=page_of(NODE), query=PAGING, name="list_nodes")
    def get(self, request: Request, name: str) -> Response:
        """As last seen, in order of their names."""
        page = page_after(request, str)
        after = page.after if isinstance(page.after, str) else None
        rows = node_page(cluster_named(name), after=after, limit=page.limit)
        return page_response(request, page, rows, node_document, lambda use: str(use.node.name))


class Topology(Endpoint):
    """The tree of a cluster's domains."""

    @operation(CanRead, "Its topology", gives=DOMAIN, name="get_topology")
    def get(self, request: Request, name: str) -> Response:
        """Widest tier first, with the federation's names of tiers."""
        return Response(domain_document(topology_of(cluster_named(name))))


class Queues(Endpoint):
    """The member queues of a cluster."""

    @operation(
        CanRead, "Its queues or partitions", gives=page_of(MEMBER_QUEUE), name="list_member_queues"
    )
    def get(self, request: Request, name: str) -> Response:
        """As last seen; all of them on one page."""
        reading = cluster_use(user_of(request), name).observation
        rows = [
            {"name": queue, "is_open": is_open, "nodes": nodes, "max_time_s": longest_s}
            for queue, is_open, nodes, longest_s in (reading.queues if reading else ())
        ]
        return Response({"items": rows, "next": None})


class FragmentationOf(Endpoint):
    """How broken up the free GPUs of a cluster are."""

    @operation(CanRead, "Its fragmentation", gives=page_of(FRAGMENTATION), name="get_fragmentation")
    def get(self, request: Request, name: str) -> Response:
        """By flavor and tier: 0 = as whole as can be, towards 1 = in small pieces."""
        flavors = cluster_use(user_of(request), name).flavors
        return Response({"items": [fragmentation_document(use) for use in flavors], "next": None})


class Probe(Endpoint):
    """A look at a cluster."""

    @operation(IsAdmin, "Probe it", gives=ANY, name="probe_cluster")
    def post(self, request: Request, name: str) -> Response:
        """Versions, rights, plugins, clock; what is found decides what may be placed there."""
        fields_of(request, ())
        cluster = cluster_named(name)
        return Response(probe_cluster(actor=user_of(request), cluster=cluster, now=clock()))


class _SetState(Endpoint):
    """Shared by drain and undrain."""

    def _set(self, request: Request, name: str, state: Cluster.State) -> Response:
        why = fields_of(request, ("why",)).get("why", "")
        if not isinstance(why, str) or len(why) > 1000 or "\0" in why:
            raise InvalidContentError("why is a text of at most 1000 letters.", pointer="/why")
        user = user_of(request)
        set_state(actor=user, cluster=cluster_named(name), state=state, why=why, now=clock())
        return Response(cluster_document(cluster_use(user, name)))


WHY = {"type": "object", "properties": {"why": TEXT}, "additionalProperties": False}


class Drain(_SetState):
    """No new work."""

    @operation(IsAdmin, "Drain it", takes=WHY, gives=CLUSTER, name="drain_cluster")
    def post(self, request: Request, name: str) -> Response:
        """What runs there finishes; nothing new is bound to it."""
        return self._set(request, name, Cluster.State.DRAINING)


class Undrain(_SetState):
    """New work again."""

    @operation(IsAdmin, "Open it again", takes=WHY, gives=CLUSTER, name="undrain_cluster")
    def post(self, request: Request, name: str) -> Response:
        """Work may be bound to it again."""
        return self._set(request, name, Cluster.State.ACTIVE)


class Flavors(Endpoint):
    """The catalogue of GPU models."""

    @operation(CanRead, "The GPU models", gives=page_of(FLAVOR), query=PAGING, name="list_flavors")
    def get(self, request: Request) -> Response:
        """With the clusters that have them."""
        page = page_after(request, str)
        after = page.after if isinstance(page.after, str) else None
        rows = flavor_page(after=after, limit=page.limit)
        return page_response(request, page, rows, flavor_document, lambda row: str(row.name))


def cluster_document(use: ClusterUse) -> dict[str, Any]:
    """A cluster as everybody sees it."""
    cluster, seen = use.cluster, use.observation
    return {
        "name": cluster.name,
        "title": cluster.title,
        "backend": cluster.backend,
        "state": cluster.state,
        "is_reachable": cluster.last_seen_at is not None and cluster.failing_since is None,
        "last_seen_at": iso(cluster.last_seen_at),
        "failing_since": iso(cluster.failing_since),
        "failure": cluster.failure,
        "clock_skew_ms": cluster.clock_skew_ms,
        "capabilities": cluster.capabilities,
        "stores": cluster.stores,
        "account": use.account,
        "flavors": [_flavor_use(flavor) for flavor in use.flavors],
        "foreign": {
            "running": seen.foreign_running if seen else 0,
            "pending": seen.foreign_pending if seen else 0,
            "pending_gpus": seen.foreign_pending_gpus if seen else 0,
        },
    }


def _flavor_use(use: FlavorUse) -> dict[str, Any]:
    return {
        "flavor": use.flavor.flavor_id,
        "device": use.flavor.device,
        "queue": use.flavor.queue,
        "nodes": len(use.nodes),
        "gpus": use.gpus,
        "used": use.ours,
        "foreign": use.foreign,
        "free": use.free,
        "drained": use.drained,
        "largest_free_block": dict(use.room.free_blocks()),
    }


def node_document(use: NodeUse) -> dict[str, Any]:
    """A node."""
    node = use.node
    return {
        "name": node.name,
        "state": node.state,
        "reason": node.reason,
        "device": node.device,
        "gpus": node.gpus,
        "used": use.ours,
        "foreign": node.foreign_gpus,
        "free": use.free,
        "cpus": node.cpus,
        "memory_mib": node.memory_mib,
        "path": [{"tier": tier, "domain": domain} for tier, domain in node.path],
        "queues": node.queues,
    }


def domain_document(domain: DomainUse) -> dict[str, Any]:
    """A domain with all that is inside it."""
    inside = list(domain.everything())
    return {
        "tier": domain.tier,
        "name": domain.name,
        "gpus": sum(use.node.gpus for use in inside),
        "free": sum(use.free for use in inside),
        "domains": [domain_document(inner) for inner in domain.inner()],
        "nodes": [
            {
                "name": use.node.name,
                "state": use.node.state,
                "gpus": use.node.gpus,
                "free": use.free,
            }
            for use in domain.nodes
        ],
    }


def fragmentation_document(use: FlavorUse) -> dict[str, Any]:
    """The fragmentation of one flavor, tier by tier; shares are decimal strings."""
    blocks = use.room.free_blocks()
    return {
        "flavor": use.flavor.flavor_id,
        "free": use.free,
        "tiers": [
            {
                "tier": tier,
                "largest_free_block": blocks[tier],
                "fragmentation": f"{use.room.fragmentation(tier):.4f}",
            }
            for tier in TIERS
            if tier in blocks
        ],
    }


def flavor_document(flavor: Flavor) -> dict[str, Any]:
    """A GPU model."""
    return {
        "name": flavor.name,
        "vendor": flavor.vendor,
        "memory_gb": flavor.memory_gb,
        "bf16_tflops": flavor.bf16_tflops,
        "clusters": sorted(named.cluster.name for named in flavor.clusters.all()),
    }

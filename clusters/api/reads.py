"""REST: what is below a cluster, to look at."""

from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.documents import (
    DOMAIN,
    FRAGMENTATION,
    MEMBER_QUEUE,
    NODE,
    domain_document,
    fragmentation_document,
    node_document,
)
from clusters.selectors.fleet import cluster_named, cluster_use, node_page, topology_of
from tenancy.api.endpoint import (
    PAGING,
    Endpoint,
    operation,
    page_after,
    page_of,
    page_response,
    user_of,
)
from tenancy.permissions import CanRead


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

"""What the REST interface shows of the fleet: schemas and documents."""

from typing import Any

from clusters.backends import BACKENDS
from clusters.core.domains import TIERS
from clusters.models import ClusterAccount, ClusterFlavor, Flavor
from clusters.selectors.fleet import ClusterUse, DomainUse, FlavorUse, NodeUse
from kit.intervals import iso
from tenancy.api.endpoint import (
    MOMENT,
    NUMBER,
    TEXT,
    TRUTH,
    component,
    document,
    list_of,
    or_null,
)

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
        rebuilt_at=or_null(MOMENT),
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
NAMED_FLAVOR = document(flavor=TEXT, device=TEXT, queue=TEXT)
ACCOUNT = component("ClusterAccount", document(user=TEXT, account=TEXT, home=TEXT))
PROBE = component(
    "ProbeReport",
    {
        "type": "object",
        "properties": {
            "at": MOMENT,
            "version": TEXT,
            "api": TEXT,
            "clock_skew_ms": NUMBER,
            "findings": list_of(document(capability=TEXT, is_on=TRUTH, detail=TEXT, fix=TEXT)),
            "is_ready": TRUTH,
            "wrong": list_of(document(pointer=TEXT, code=TEXT, detail=TEXT)),
        },
    },
)
JOINING = component(
    "ClusterJoining",
    {
        "type": "object",
        "properties": {
            "name": TEXT,
            "title": TEXT,
            "backend": {"type": "string", "enum": list(BACKENDS)},
            "endpoint": TEXT,
            "secret": {"type": "string", "description": "base64", "writeOnly": True},
            "account": TEXT,
            "options": {"type": "object", "additionalProperties": TEXT},
            "stores": list_of(TEXT),
            "calls_at_once": or_null(NUMBER),
            "calls_per_s": or_null(NUMBER),
            "flavors": list_of(
                {
                    "type": "object",
                    "properties": {"flavor": TEXT, "device": TEXT, "queue": TEXT},
                    "required": ["flavor", "device"],
                }
            ),
            "accounts": list_of(
                {
                    "type": "object",
                    "properties": {"user": TEXT, "account": TEXT, "home": TEXT, "run_as": TEXT},
                    "required": ["user", "account"],
                }
            ),
            "force": TRUTH,
        },
        "required": ["name", "backend", "endpoint", "secret"],
        "additionalProperties": False,
    },
)
FLAVOR = component(
    "Flavor",
    document(name=TEXT, vendor=TEXT, memory_gb=NUMBER, bf16_tflops=NUMBER, clusters=list_of(TEXT)),
)


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
        "rebuilt_at": iso(cluster.rebuilt_at),
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


def admin_document(use: ClusterUse) -> dict[str, Any]:
    """A cluster as admins see it: where it is, its settings, what the last probe found."""
    cluster = use.cluster
    return cluster_document(use) | {
        "endpoint": cluster.endpoint,
        "service_account": cluster.account,
        "options": cluster.options,
        "calls_at_once": cluster.calls_at_once,
        "calls_per_s": cluster.calls_per_s,
        "probe": cluster.probe,
        "leaving": {"plan": cluster.leave_plan, "why": cluster.leave_why}
        if cluster.leave_plan
        else None,
    }


def named_document(named: ClusterFlavor) -> dict[str, Any]:
    """What a GPU model is called on a cluster."""
    return {"flavor": named.flavor_id, "device": named.device, "queue": named.queue}


def account_document(held: ClusterAccount) -> dict[str, Any]:
    """A person's account on a cluster."""
    return {
        "user": held.user.username,
        "account": held.account,
        "home": held.home,
        "run_as": held.run_as,
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

"""What can never run is told at submit; every reason that has a fix names it."""

from dataclasses import replace

import pytest

from clusters.core.topology import Room
from federation.core.explain import never_reasons
from federation.core.fixes import fix_for
from federation.core.plan import FleetView
from federation.core.snapshot import ClusterState, ClusterView, WaitingJob
from tests.federation.core.build import cluster, job, node, nodes, uid


def fleet(*clusters: ClusterView) -> tuple[FleetView, ...]:
    return tuple(FleetView(c, {f.name: Room(f.nodes).at_rest for f in c.flavors}) for c in clusters)


BUSY = cluster("c1", {"h100": [node("n1", free=0), node("n2", up=False), node("n3", "l2")]})
STORED = cluster("c2", {"a100": nodes(1)}, stores=frozenset({"webtext"}))


@pytest.mark.parametrize(
    ("asked", "clusters", "codes"),
    [
        (job(1, "3x8"), (BUSY,), []),  # what is down or used now does not count
        (job(1, "2x8", required_tier="leaf"), (BUSY,), []),
        (job(1), (replace(BUSY, state=ClusterState.UNREACHABLE),), []),
        (job(1, "4x8"), (BUSY,), ["gang_too_large"]),
        (job(1, "1x9"), (BUSY,), ["gang_too_large"]),
        (job(1, "3x8", required_tier="leaf"), (BUSY,), ["gang_too_large"]),
        (job(1, "2x8", required_tier="host"), (BUSY,), ["gang_too_large"]),
        (job(1, flavors="b200"), (BUSY,), ["flavor_not_accepted"]),
        (job(1, only_clusters=("c2",)), (BUSY, STORED), ["flavor_not_accepted"]),
        (job(1, stores=("webtext",)), (BUSY,), ["store_unavailable"]),
        (job(1, flavors="h100 a100", stores=("webtext",)), (BUSY, STORED), []),
        (job(1, user=uid("bob")), (BUSY,), ["backend_cannot_run"]),
        (job(1, "9x8", flavors="h100 a100"), (BUSY, STORED), ["gang_too_large"] * 2),
        (job(1, "9x8"), (BUSY, replace(cluster("new", {"h100": ()}), seen=False)), []),
        (job(1), (), ["flavor_not_accepted"]),
    ],
)
def test_what_can_never_run(
    asked: WaitingJob, clusters: tuple[ClusterView, ...], codes: list[str]
) -> None:
    assert [reason.code for reason in never_reasons(asked, fleet(*clusters))] == codes


def test_a_fix_says_what_to_change() -> None:
    told = never_reasons(job(1, "4x8"), fleet(BUSY))[0].to_json()
    assert fix_for(told) == {
        "description": "Ask for at most 3 nodes.",
        "change": {"gang": {"nodes": 3}},
        "effect": "It could run there.",
    }
    assert fix_for({"code": "no_capacity", "available": 0}) is None
    assert fix_for({"code": "cluster_unreachable"}) is None
    limit = fix_for({"code": "limit_reached", "available": 60})
    assert limit is not None
    assert limit["change"] == {"time_limit": 60}

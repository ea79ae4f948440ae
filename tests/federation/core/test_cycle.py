"""What a cycle decides: tables that name tenants, gangs and nodes and the node of each gang."""

import gc
from dataclasses import replace
from weakref import ref

import pytest

from federation.core.cycle import decide
from federation.core.snapshot import ClusterState, ReservedNodes, Snapshot
from tests.federation.core.build import (
    HOUR_MS,
    NOW_MS,
    cluster,
    job,
    node,
    nodes,
    placed,
    prices,
    quota,
    snapshot,
    tenants,
    told,
    uid,
    use,
)

TWO = cluster("c1", {"h100": nodes(2)})
FOUR = cluster("c1", {"h100": nodes(4)})
OTHER = cluster("c2", {"h100": nodes(4, leaf_size=4), "a100": nodes(2)})

TABLE: dict[str, tuple[Snapshot, dict[int, str]]] = {
    "a gang goes whole": (snapshot([job(1, "2x8")], [TWO]), {1: "c1/h100/guaranteed/leaf: n1 n2"}),
    "two that exceed the cluster: one runs, the other holds nothing": (
        snapshot([job(1, "2x8", age=9), job(2, "1x8"), job(3, "2x8")], [TWO]),
        {1: "c1/h100/guaranteed/leaf: n1 n2"},
    ),
    "what cannot start does not block what can": (
        snapshot([job(1, "3x8", age=9), job(2, "1x8")], [TWO]),
        {2: "c1/h100/guaranteed/host: n1"},
    ),
    "priority before age": (
        snapshot([job(1, "2x8", age=9), job(2, "2x8", priority=900)], [TWO]),
        {2: "c1/h100/guaranteed/leaf: n1 n2"},
    ),
    "age within a priority": (
        snapshot([job(1, "2x8"), job(2, "2x8", age=1)], [TWO]),
        {2: "c1/h100/guaranteed/leaf: n1 n2"},
    ),
    "tenants in turn, by GPUs": (
        snapshot(
            [job(n, age=90 - n) for n in (1, 2, 3)] + [job(4, tenant="beta")],
            [TWO],
        ),
        {1: "c1/h100/guaranteed/host: n1", 4: "c1/h100/guaranteed/host: n2"},
    ),
    "who holds less goes first, also across cycles": (
        snapshot(
            [job(1, age=9), job(2, tenant="beta")],
            [cluster("c1", {"h100": nodes(1)})],
            uses=(use("acme", 8, "guaranteed"),),
        ),
        {2: "c1/h100/guaranteed/host: n1"},
    ),
    "the cluster with the lowest tier": (
        snapshot([job(1, "4x8")], [FOUR, OTHER]),
        {1: "c2/h100/guaranteed/leaf: n1 n2 n3 n4"},
    ),
    "then the tightest block, then the name": (
        snapshot([job(1, "2x8", age=1), job(2, "4x8")], [OTHER, FOUR]),
        {
            1: "c1/h100/guaranteed/leaf: n1 n2",
            2: "c2/h100/guaranteed/leaf: n1 n2 n3 n4",
        },
    ),
    "the required tier holds": (
        snapshot([job(1, "4x8", required_tier="leaf")], [FOUR]),
        {},
    ),
    "preferred gives the lowest that fits": (
        snapshot([job(1, "3x8", preferred_tier="leaf")], [FOUR]),
        {1: "c1/h100/guaranteed/cluster: n1 n2 n3"},
    ),
    "flavors in the job's order": (
        snapshot([job(1, flavors="h100 a100")], [OTHER]),
        {1: "c2/h100/guaranteed/host: n1"},
    ),
    "cheapest first when it says so": (
        snapshot([job(1, flavors="h100 a100", prefer="price")], [OTHER]),
        {1: "c2/a100/guaranteed/host: n1"},
    ),
    "the next flavor when the first is full": (
        snapshot(
            [job(1, "3x8", flavors="a100 h100")], [OTHER]
        ),
        {1: "c2/h100/guaranteed/leaf: n1 n2 n3"},
    ),
    "only where it may go": (
        snapshot([job(1, only_clusters=("c2",)), job(2, avoid_clusters=("c1", "c2"))], [TWO, OTHER]),
        {1: "c2/h100/guaranteed/host: n1"},
    ),
    "nodes it avoids": (
        snapshot([job(1, avoid_nodes=("c1/n1", "c2/n2"))], [TWO]),
        {1: "c1/h100/guaranteed/host: n2"},
    ),
    "foreign load and nodes that are down count as used": (
        snapshot(
            [job(1, "2x8"), job(2, "1x3")],
            [cluster("c1", {"h100": [node("n1", free=3), node("n2", up=False), node("n3")]})],
        ),
        {2: "c1/h100/guaranteed/host: n1"},
    ),
    "auto is spot beyond the guarantee": (
        snapshot([job(1, age=1), job(2)], [TWO], quotas=(quota("acme", 8),)),
        {1: "c1/h100/guaranteed/host: n1", 2: "c1/h100/spot/host: n2"},
    ),
    "the incoming job counts before the limit is looked at": (
        snapshot([job(1, "2x8", wanted="guaranteed")], [TWO], quotas=(quota("acme", 15),)),
        {},
    ),
    "an ancestor's guarantee holds too": (
        snapshot(
            [job(1, tenant="acme/a", wanted="guaranteed")],
            [TWO],
            tenants=tenants("acme/a", "acme/b"),
            quotas=(quota("acme", 8), quota("acme/a", 8)),
            uses=(use("acme/b", 1, "guaranteed"),),
        ),
        {},
    ),
    "a team without a row shares what its parent keeps": (
        snapshot(
            [job(1, tenant="acme/a", wanted="guaranteed")],
            [TWO],
            tenants=tenants("acme/a"),
            quotas=(quota("acme", 8),),
        ),
        {1: "c1/h100/guaranteed/host: n1"},
    ),
    "no row, no quota": (snapshot([job(1)], [TWO], quotas=()), {}),
    "a quota of one cluster holds there only": (
        snapshot(
            [job(1, wanted="guaranteed")], [TWO, OTHER], quotas=(quota("acme", 8, on="c2"),)
        ),
        {1: "c2/h100/guaranteed/host: n1"},
    ),
    "the borrowing limit holds": (
        snapshot(
            [job(1, wanted="spot", age=1), job(2, wanted="spot")], [TWO], quotas=(quota("acme", 99, 8),)
        ),
        {1: "c1/h100/spot/host: n1"},
    ),
    "guaranteed before spot": (
        snapshot(
            [job(1, "2x8", wanted="spot", age=9, priority=999), job(2, tenant="beta")],
            [TWO],
        ),
        {2: "c1/h100/guaranteed/host: n1"},
    ),
    "no price, no start": (
        snapshot([job(1, flavors="h100 a100")], [OTHER], prices=prices(a100=1)),
        {1: "c2/a100/guaranteed/host: n1"},
    ),
    "not before its time": (
        snapshot([job(1, not_before_ms=NOW_MS + 1), job(2, not_before_ms=NOW_MS)], [TWO]),
        {2: "c1/h100/guaranteed/host: n1"},
    ),
    "not on nodes that are reserved before it ends": (
        snapshot(
            [job(1)],
            [replace(TWO, reserved=(
                ReservedNodes("r", frozenset({"n1"}), NOW_MS + HOUR_MS - 1, NOW_MS + 2 * HOUR_MS),
                ReservedNodes("s", frozenset({"n2"}), NOW_MS + HOUR_MS, NOW_MS + 2 * HOUR_MS),
            ))],
        ),
        {1: "c1/h100/guaranteed/host: n2"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_each_gang_goes_where_the_table_says(case: str) -> None:
    facts, expected = TABLE[case]
    assert placed(decide(facts)) == expected
    backwards = replace(
        facts,
        jobs=facts.jobs[::-1],
        clusters=facts.clusters[::-1],
        quotas=facts.quotas[::-1],
        tenants=facts.tenants[::-1],
    )
    assert decide(backwards).bindings == decide(facts).bindings


CLOSED = tuple(replace(t, is_open=t.path != "acme") for t in tenants("acme/a", "beta"))
REASONS = {
    "no room": (snapshot([job(1, "2x8")], [cluster("c1", {"h100": [node("n1", free=7), node("n2")]})]),
                [("c1", "no_capacity", 2, 1)]),
    "room, but not together": (
        snapshot([job(1, "2x8", required_tier="leaf")],
                 [cluster("c1", {"h100": [node("a", free=0), node("b"), node("c", "l2"), node("d", "l2", 3)]})]),
        [("c1", "topology_unavailable", 2, 1)]),
    "never": (snapshot([job(1, "3x8")], [TWO]), [("c1", "gang_too_large", 3, 2)]),
    "never in one leaf": (
        snapshot([job(1, "3x8", required_tier="leaf")], [FOUR]), [("c1", "gang_too_large", 3, 2)]),
    "every site has its own": (
        snapshot([job(1, "3x8", flavors="a100 h100")], [TWO, replace(OTHER, state=ClusterState.DRAINING)]),
        [("c2", "cluster_draining", None, None), ("c1", "gang_too_large", 3, 2), ("c2", "cluster_draining", None, None)]),
    "silent": (snapshot([job(1)], [replace(TWO, state=ClusterState.UNREACHABLE)]), [("c1", "cluster_unreachable", None, None)]),
    "no account": (snapshot([job(1, user=uid("bob"))], [TWO]), [("c1", "backend_cannot_run", None, None)]),
    "no data": (snapshot([job(1, stores=("webtext",))], [TWO]), [("c1", "store_unavailable", None, None)]),
    "no such flavor": (snapshot([job(1, flavors="b200")], [TWO]), [(None, "flavor_not_accepted", None, None)]),
    "no price": (snapshot([job(1)], [TWO], prices=prices()), [("c1", "price_missing", None, None)]),
    "guarantee": (snapshot([job(1, wanted="guaranteed")], [TWO], quotas=(quota("acme", 7),)), [("c1", "quota_exhausted", 8, 7)]),
    "auto": (snapshot([job(1)], [TWO], quotas=(quota("acme", 1, 3),)), [("c1", "quota_exhausted", 8, 3)]),
    "spot": (snapshot([job(1, wanted="spot")], [TWO], quotas=(quota("acme", 9, 3),)), [("c1", "borrowing_limit", 8, 3)]),
    "over its quota already": (
        snapshot([job(1, wanted="guaranteed")], [TWO], quotas=(quota("acme", 7),), uses=(use("acme", 9, "guaranteed"),)),
        [("c1", "quota_exhausted", 8, 0)]),
    "closed above": (snapshot([job(1, tenant="acme/a")], [TWO], tenants=CLOSED), [(None, "tenant_closed", None, None)]),
    "early": (snapshot([job(1, not_before_ms=NOW_MS + 5)], [TWO]), [(None, "not_before", None, None)]),
    "reserved": (
        snapshot([job(1)], [cluster("c1", {"h100": nodes(1)},
                 reserved=(ReservedNodes("r", frozenset({"n1"}), NOW_MS, NOW_MS + 5),))]),
        [("c1", "maintenance", None, None)]),
    "queue closed": (
        snapshot([job(1)], [replace(TWO, flavors=tuple(replace(f, queue_is_open=False) for f in TWO.flavors))]),
        [("c1", "queue_closed", None, None)]),
    "queue too short": (
        snapshot([job(1)], [replace(TWO, flavors=tuple(replace(f, longest_ms=60_000) for f in TWO.flavors))]),
        [("c1", "limit_reached", 3600, 60)]),
}  # fmt: skip


@pytest.mark.parametrize("case", REASONS)
def test_a_waiting_job_is_told_why(case: str) -> None:
    facts, expected = REASONS[case]
    plan = decide(facts)
    assert plan.bindings == ()
    assert told(plan) == {1: expected}
    assert all(reason.message.endswith(".") for reason in plan.reasons[1])


def test_the_queue_interleaves_tenants_and_leaves_out_what_may_not_start_yet() -> None:
    waiting = [job(n, "4x8", age=100 - n) for n in (1, 2)] + [job(3, "4x8", tenant="beta")]
    early = job(4, not_before_ms=NOW_MS + 1)
    assert decide(snapshot([early, *waiting], [TWO])).queue == (1, 3, 2)


def test_a_plan_goes_with_the_last_that_holds_it() -> None:
    """Nobody has to look for it: a cycle over thousands of jobs leaves nothing to collect."""
    gc.collect()
    gc.disable()
    try:
        plan = decide(snapshot([job(1, "2x8"), job(2, "3x8"), job(3, "9x8")], [TWO]))
        assert len(plan.queue) == len([plan.reasons[key] for key in plan.reasons]) == 2
        basis = ref(plan.basis)
        del plan
        assert basis() is None
    finally:
        gc.enable()

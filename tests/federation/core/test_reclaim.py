"""Who is evicted for whom: small fleets by name, and what is kept until its job starts."""

import itertools
from dataclasses import replace

import pytest

from clusters.core.topology import NodeRoom
from federation.core.cycle import decide
from federation.core.departures import heir
from federation.core.snapshot import (
    ClusterState,
    ClusterView,
    Holding,
    ReservedNodes,
    Snapshot,
    WaitingJob,
)
from quotas.core.policy import Policy
from tests.federation.core.build import (
    NOW_MS,
    claimed,
    cluster,
    emptied,
    held,
    holding,
    job,
    need,
    nodes,
    placed,
    prices,
    quota,
    reservation,
    snapshot,
    tenants,
    then,
    told,
    uid,
)

ONE = cluster("c1", {"h100": nodes(1)})
TWO = cluster("c1", {"h100": nodes(2)})
FOUR = cluster("c1", {"h100": nodes(4)})
ELSEWHERE = cluster("c2", {"h100": nodes(2)})
OWNER = (quota("acme", 32), quota("beta", 0), quota("gamma", 0))


def facts(
    jobs: list[WaitingJob], holdings: list[Holding], *clusters: ClusterView, **changes: object
) -> Snapshot:
    """acme owns 32 GPUs; beta and gamma own none."""
    changes = {"quotas": OWNER, "tenants": tenants("acme", "beta", "gamma"), **changes}
    return held(snapshot(jobs, clusters or (TWO,)), holdings, **changes)


def mine(number: int, nodes: str, gpus: int = 8, **more: object) -> Holding:
    """A guaranteed gang of acme."""
    more = {"tenant": "acme", "service_class": "guaranteed", **more}
    return holding(number, nodes, gpus, **more)  # type: ignore[arg-type]


def own_spot(number: int, nodes: str, **more: object) -> Holding:
    """A spot gang of beta, which owns nothing."""
    return holding(number, nodes, tenant="beta", **more)  # type: ignore[arg-type]


def borrower(number: int, gang: str = "1x8", **more: object) -> WaitingJob:
    """A job of beta that wants to run as spot."""
    return job(number, gang, **{"tenant": "beta", "wanted": "spot", **more})  # type: ignore[arg-type]


def foreign(node: NodeRoom, gpus: int) -> NodeRoom:
    return replace(node, foreign=need(gpus))


FULL = (quota("acme", 16), quota("beta", 0), quota("gamma", 0))

TABLE: dict[str, tuple[Snapshot, dict[int, str]]] = {
    "an owner takes back from two other tenants": (
        facts([job(1, "2x8")], [holding(7, "n1"), holding(8, "n2", tenant="gamma")]),
        {1: "c1: n1 n2 < 7 8"},
    ),
    "what is free is taken and nobody evicted": (facts([job(1)], [holding(7, "n1")]), {}),
    "the least lost work": (
        facts([job(1)], [holding(7, "n1", ran=7200), holding(8, "n2", ran=3600)]),
        {1: "c1: n2 < 8"},
    ),
    "work that was saved is not lost": (
        facts([job(1)], [holding(7, "n1", ran=7200, saved=60), holding(8, "n2", ran=3600)]),
        {1: "c1: n1 < 7"},
    ),
    "what has not started loses nothing": (
        facts([job(1)], [holding(7, "n1", ran=None), holding(8, "n2", saved=1)]),
        {1: "c1: n1 < 7"},
    ),
    "as much lost: what matters less": (
        facts([job(1)], [holding(7, "n1"), holding(8, "n2", priority=400)]),
        {1: "c1: n2 < 8"},
    ),
    "GPUs times time, so a small gang that ran long may go first": (
        facts([job(1, "1x4")], [holding(7, "n1", 2, ran=7200), holding(8, "n1", 6, ran=3600)], ONE),
        {1: "c1: n1 < 8"},  # 2 x 2 h are less than 6 x 1 h, but its 2 GPUs do not suffice
    ),
    "small ones on other leaves are left alone": (
        facts(
            [job(1, "2x8")],
            [
                *(holding(7 + n, f"n{n + 1}", 1, ran=700 + n) for n in range(3)),
                holding(10, "n4", 8, ran=9000),
            ],
            FOUR,
        ),
        {1: "c1: n1 n2 < 7 8"},
    ),
    "a gang goes whole": (
        facts([job(1)], [holding(7, "n1 n2 n3 n4")], FOUR),
        {1: "c1: n1 < 7"},
    ),
    "one leaf comes free, though less is lost across two": (
        facts(
            [job(1, "2x8", required_tier="leaf")],
            [holding(7 + n, f"n{n + 1}", ran=s) for n, s in enumerate((700, 9000, 800, 5000))],
            FOUR,
        ),
        {1: "c1: n3 n4 < 9 10"},
    ),
    "never a guaranteed gang of another tenant": (
        facts(
            [job(1)],
            [
                holding(7, "n1", service_class="guaranteed", priority=1),
                holding(8, "n2", tenant="gamma"),
            ],
        ),
        {1: "c1: n2 < 8"},
    ),
    "a wide one first, though narrow ones behind it would fit what is free": (
        facts(
            [job(1, age=2), job(2, "1x4", age=1)],
            [holding(7, "n1", 4)],
            ONE,
            quotas=(quota("acme", 8), quota("beta", 0)),
        ),
        {1: "c1: n1 < 7"},
    ),
    "also one that has to evict its own": (
        facts(
            [job(1, priority=501), job(2, "1x4")],
            [mine(7, "n1", 4), mine(8, "n2", 4), holding(9, "n1", 4, tenant="gamma")],
            quotas=(quota("acme", 12), quota("beta", 0)),
        ),
        {1: "c1: n2 < 8"},
    ),
    "nobody when it would not fit even then": (
        facts([job(1, "2x8")], [holding(7, "n1"), holding(8, "n2", service_class="guaranteed")]),
        {},
    ),
    "nobody for what is not owed": (
        facts([job(1)], [holding(7, "n1 n2")], quotas=(quota("acme", 7), quota("beta", 0))),
        {},
    ),
    "nobody else's for spot": (facts([job(1, wanted="spot", priority=900)], [holding(7, "n1 n2")]), {}),
    "as spot a higher priority evicts a lower one of its tenant": (
        facts([borrower(1, priority=501)], [own_spot(7, "n1"), own_spot(8, "n2", ran=700)]),
        {1: "c1: n2 < 8"},
    ),
    "as spot never an equal one, nor another team's, nor a guaranteed one": (
        facts(
            [borrower(1)],
            [own_spot(7, "n1"), holding(8, "n2", tenant="beta/b", priority=1),
             holding(9, "n3", tenant="beta", service_class="guaranteed", priority=1)],
            cluster("c1", {"h100": nodes(3)}),
            tenants=tenants("acme", "beta/b", "gamma"),
        ),
        {},
    ),
    "as spot nobody when it would not fit even then": (
        facts([borrower(1, "2x8", priority=501)], [own_spot(7, "n1"), holding(8, "n2", tenant="gamma")]),
        {},
    ),
    "as spot nobody for what leaves anyway": (
        facts([borrower(1, priority=501)], [own_spot(7, "n1"), own_spot(8, "n2", leaves=True)]), {},
    ),
    "as spot nobody elsewhere for what leaves anyway": (
        facts(
            [borrower(1, priority=501)],
            [own_spot(7, "n1"), own_spot(8, "n2"), own_spot(9, "n1", on="c2", leaves=True),
             holding(6, "n2", on="c2", tenant="gamma")],
            TWO,
            ELSEWHERE,
        ),
        {},
    ),
    "as spot when only its borrowing limit is used up": (
        facts(
            [borrower(1, priority=501)], [own_spot(7, "n1"), own_spot(8, "n2")], FOUR,
            quotas=(quota("acme", 32), quota("beta", 0, 16), quota("gamma", 0)),
        ),
        {1: "c1: n1 < 7"},
    ),
    "as spot not what owners keep": (  # 8 GPUs over already: that only shrinks
        facts(
            [borrower(1, priority=501)], [own_spot(7, "n1"), own_spot(8, "n2")],
            quotas=(replace(quota("acme", 32), lending_limit=0), quota("beta", 0), quota("gamma", 0)),
        ),
        {},
    ),
    "as spot it spares who has just begun, was just evicted, or often": (
        facts(
            [borrower(1, priority=501)],
            [own_spot(7, "n1", ran=599), own_spot(8, "n2", evictions=4),
             own_spot(9, "n3", evictions=1, evicted_ms=NOW_MS - 1), own_spot(6, "n4", ran=90_000)],
            FOUR,
        ),
        {1: "c1: n4 < 6"},
    ),
    "who only asks for spot evicts none that may come inside the guarantee": (
        facts(
            [borrower(1, priority=501)],
            [own_spot(7, "n1", ran=700, wanted="auto"), own_spot(8, "n2", ran=90_000)],
        ),
        {1: "c1: n2 < 8"},
    ),
    "who may come inside the guarantee itself does": (
        facts([borrower(1, priority=501, wanted="auto")], [own_spot(7, "n1 n2", wanted="auto")]),
        {1: "c1: n1 < 7"},
    ),
    "nobody as spot who keeps nodes from one that is owed them": (
        facts(  # 2 would take the nodes of 7 as its own, and must not: it is outranked
            [borrower(1, "2x8", priority=600, wanted="auto"), borrower(2, priority=400, wanted="auto")],
            [own_spot(7, "n1 n2", wanted="auto")],
            quotas=(quota("acme", 32), quota("beta", 8), quota("gamma", 0)),
        ),
        {},
    ),
    "owners first, and then as spot what they leave": (
        facts(
            [job(1), borrower(2, priority=501), borrower(3, priority=502)],
            [own_spot(7, "n1"), own_spot(8, "n2", ran=90_000)],
        ),
        {1: "c1: n1 < 7", 3: "c1: n2 < 8"},
    ),
    "nobody without a price": (
        facts([job(1)], [holding(7, "n1 n2")], prices=prices(a100=3)), {},
    ),
    "nobody where nothing new may go": (
        facts([job(1)], [holding(7, "n1 n2")], replace(TWO, state=ClusterState.DRAINING)),
        {},
    ),
    "foreign load stays": (
        facts(
            [job(1)],
            [holding(7, "n1", 4, ran=700), holding(8, "n2", 8)],
            cluster("c1", {"h100": [foreign(nodes(2)[0], 4), nodes(2)[1]]}),
        ),
        {1: "c1: n2 < 8"},
    ),
    "a lost gang stays": (
        facts([job(1)], [holding(7, "n1", ran=None, is_lost=True), holding(8, "n2")]),
        {1: "c1: n2 < 8"},
    ),
    "a lost gang that is to go does not come free": (
        facts([job(1)], [holding(7, "n1", is_lost=True, leaves=True), holding(8, "n2")]),
        {1: "c1: n2 < 8"},
    ),
    "whole nodes: all that is on them": (
        facts(
            [job(1, "1x1", exclusive=True)],
            [holding(7, "n1", 1), holding(8, "n1", 1, ran=700), mine(9, "n2", 1)],
        ),
        {1: "c1: n1 < 8 7"},
    ),
    "exclusive victims leave whole nodes": (
        facts([job(1, "1x8")], [holding(7, "n1", 1, exclusive=True)], ONE),
        {1: "c1: n1 < 7"},
    ),
    "what leaves anyway is waited for": (
        facts([job(1)], [holding(7, "n1", ran=None), holding(8, "n2", leaves=True)]),
        {1: "c1: n2 < "},
    ),
    "as much lost on two clusters: where nobody is evicted": (
        facts(
            [job(1)],
            [
                holding(7, "n1 n2", ran=None),
                holding(8, "n1", on="c2", leaves=True),
                holding(9, "n2", on="c2"),
            ],
            TWO,
            ELSEWHERE,
        ),
        {1: "c2: n1 < "},
    ),
    "the cluster where least is lost": (
        facts(
            [job(1, "2x8")],
            [holding(7, "n1 n2"), holding(8, "n1 n2", on="c2", saved=60)],
            TWO,
            ELSEWHERE,
        ),
        {1: "c2: n1 n2 < 8"},
    ),
    "the cheapest flavor when it says so": (
        facts(
            [job(1, flavors="h100 a100", prefer="price")],
            [holding(7, "n1"), holding(8, "n1", on="c2", flavor="a100")],
            ONE,
            cluster("c2", {"a100": nodes(1)}),
            quotas=(*OWNER, quota("acme", 8, flavor="a100")),
        ),
        {1: "c2: n1 < 8"},
    ),
    "not the cluster that refused it, while there is another": (
        facts(
            [job(1, avoid_nodes=("c1/*",))],
            [holding(7, "n1", ran=None), holding(8, "n1 n2", on="c2")],
            ONE,
            ELSEWHERE,
        ),
        {1: "c2: n1 < 8"},
    ),
    "not the nodes that the member reserved": (
        facts(
            [job(1)],
            [holding(7, "n1", ran=None), holding(8, "n2")],
            replace(TWO, reserved=(ReservedNodes("fix", frozenset({"n1"}), NOW_MS, NOW_MS + 9),)),
        ),
        {1: "c1: n2 < 8"},
    ),
    "owners in turn, each his own nodes and victims": (
        facts(
            [job(1, age=2), job(2, age=3, tenant="beta")],
            [holding(7, "n1", tenant="gamma"), holding(8, "n2", tenant="gamma", ran=9000)],
            quotas=(quota("acme", 8), quota("beta", 8), quota("gamma", 0)),
        ),
        {2: "c1: n1 < 7", 1: "c1: n2 < 8"},
    ),
    "what one victim leaves over is enough for the next": (
        facts([job(1, age=2), job(2, age=1)], [holding(7, "n1 n2"), mine(9, "n3 n4")], FOUR),
        {1: "c1: n1 < 7", 2: "c1: n2 < "},
    ),
    "what was claimed late is enough for one before": (
        facts(  # 2 could evict nobody; what 1 frees holds both
            [job(1, "1x8", priority=600), job(2, "1x8", age=90_000)],
            [mine(9, "n1 n2", priority=500)],
            quotas=FULL,
        ),
        {1: "c1: n1 < 9", 2: "c1: n2 < "},
    ),
    "a higher priority evicts a lower one of its tenant": (
        facts([job(1, priority=501)], [mine(7, "n1"), mine(8, "n2", priority=900)]),
        {1: "c1: n1 < 7"},
    ),
    "also when only quota is missing": (
        facts([job(1, priority=501)], [mine(7, "n1"), mine(8, "n2")], FOUR, quotas=FULL),
        {1: "c1: n1 < 7"},
    ),
    "also when the quota is used elsewhere": (
        facts(
            [job(1, priority=501, only_clusters=("c2",))],
            [mine(7, "n1 n2")],
            TWO,
            ELSEWHERE,
            quotas=FULL,
        ),
        {1: "c2: n1 < 7"},
    ),
    "quota and nodes at once: its own first, and spot only as needed": (
        facts(
            [job(1, "1x8", priority=501)],
            [mine(7, "n1", 4), mine(8, "n2", 8), mine(9, "n3", 4), holding(6, "n1", 4, ran=1)],
            cluster("c1", {"h100": nodes(3)}),
            quotas=FULL,
        ),
        {1: "c1: n3 < 7 9"},
    ),
    "never an equal one": (facts([job(1)], [mine(7, "n1 n2")]), {}),
    "never one of another team of its organisation": (
        facts(
            [job(1, tenant="acme/a", priority=900)],
            [mine(7, "n1 n2", tenant="acme/b")],
            tenants=tenants("acme/a", "acme/b", "beta", "gamma"),
        ),
        {},
    ),
    "waiting does not raise what evicts": (facts([job(1, age=9_000_000)], [mine(7, "n1 n2")]), {}),
    "spot first, then its own": (
        facts([job(1, priority=501)], [mine(7, "n1", ran=601), holding(8, "n2", ran=90_000)]),
        {1: "c1: n2 < 8"},
    ),
    "a spot gang of its own tenant, too": (
        facts([job(1)], [holding(7, "n1 n2", tenant="acme")]), {1: "c1: n1 < 7"},
    ),
    "not one that would outrank it inside the guarantee": (
        facts([job(1)], [holding(7, "n1 n2", tenant="acme", wanted="auto", priority=501)]), {},
    ),
    "who has just begun is spared by its own": (
        facts([job(1, priority=501)], [mine(7, "n1", ran=599), mine(8, "n2", ran=9000)]),
        {1: "c1: n2 < 8"},
    ),
    "who was just evicted, too": (
        facts(
            [job(1, priority=501)],
            [mine(7, "n1", evictions=1, evicted_ms=NOW_MS - 3_599_999), mine(8, "n2", ran=9000)],
        ),
        {1: "c1: n2 < 8"},
    ),
    "and who was often evicted": (
        facts([job(1, priority=501)], [mine(7, "n1", evictions=4), mine(8, "n2", ran=9000)]),
        {1: "c1: n2 < 8"},
    ),
    "all spared: nobody": (facts([job(1, priority=501)], [mine(7, "n1 n2", evictions=4)]), {}),
    "an owner only takes the spared last": (
        facts([job(1)], [holding(7, "n1", ran=5), holding(8, "n2", ran=9000)]),
        {1: "c1: n2 < 8"},
    ),
    "but takes them": (facts([job(1, "2x8")], [holding(7, "n1 n2", ran=5)]), {1: "c1: n1 n2 < 7"}),
    "quota that is given back anyway counts": (
        facts(
            [job(1, priority=501)], [mine(7, "n1"), mine(8, "n2", leaves=True)], FOUR, quotas=FULL
        ),
        {1: "c1: n2 < "},
    ),
    "kept nodes are nobody else's": (
        facts(
            [job(1, age=9), job(2, age=1), job(3, age=99, tenant="beta")],
            [holding(7, "n1", leaves=True), holding(8, "n2", tenant="gamma")],
            quotas=(quota("acme", 16), quota("beta", 8), quota("gamma", 0)),
            reservations=(reservation(2, "n1"),),
        ),
        {3: "c1: n2 < 8"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_who_is_evicted_for_whom(case: str) -> None:
    before, expected = TABLE[case]
    plan = decide(before)
    assert claimed(plan) == expected
    after = then(before, plan)
    again = decide(after)
    assert (again.claims, again.released, again.bindings) == ((), (), ())
    if plan.claims:  # they start when their nodes are free, exactly there
        started = placed(decide(emptied(after)))
        for claim in plan.claims:
            assert started[claim.binding.job].endswith(": " + " ".join(claim.binding.nodes))
            assert f"/{claim.binding.service_class}/" in started[claim.binding.job]


def test_the_deadline_is_after_the_longest_grace() -> None:
    victims = [holding(7, "n1", grace_ms=90_000), holding(8, "n2", ran=None, grace_ms=300_000)]
    (claim,) = decide(facts([job(1, "2x8")], victims)).claims
    # What has not begun has nothing to save.
    assert claim.deadline_ms == NOW_MS + 90_000 + Policy().claim_ms


KEPT = facts(
    [job(1, "2x8"), job(2, "1x8", age=9, wanted="spot", tenant="beta")],
    [holding(7, "n1", leaves=True)],
    reservations=(reservation(1, "n1 n2"),),
)


def test_while_it_waits_it_says_for_what() -> None:
    plan = decide(KEPT)
    assert placed(plan) == {}
    assert plan.released == ()
    assert told(plan)[1] == [("c1", "waiting_for_reclaim", 16, 8)]
    (reason,) = plan.reasons[1]
    assert reason.until_ms == NOW_MS + 60_000
    assert told(plan)[2] == [("c1", "no_capacity", 1, 0)]  # n2 is free, and kept
    assert plan.queue[0] == 1


def test_a_new_claim_says_so_at_once() -> None:
    plan = decide(facts([job(1, "2x8")], [holding(7, "n1")]))
    assert told(plan)[1] == [("c1", "waiting_for_reclaim", 16, 8)]
    assert plan.reasons[1][0].until_ms == plan.claims[0].deadline_ms


def test_whole_nodes_count_as_what_it_asks_of_them() -> None:
    plan = decide(facts([job(1, "2x2", exclusive=True)], [holding(7, "n1", 1)]))
    assert told(plan)[1] == [("c1", "waiting_for_reclaim", 4, 2)]


def test_when_its_nodes_are_free_it_starts_there_and_nowhere_else() -> None:
    free = held(replace(KEPT, clusters=(FOUR,)), [], reservations=(reservation(1, "n2 n3"),))
    plan = decide(free)
    assert placed(plan)[1] == "c1/h100/guaranteed/cluster: n2 n3"
    assert plan.released == ()


def test_it_does_not_start_while_those_who_leave_hold_its_quota() -> None:
    waits = facts(
        [job(1)],
        [mine(7, "n1 n2", leaves=True)],
        FOUR,
        quotas=FULL,
        reservations=(reservation(1, "n3"),),
    )
    plan = decide(waits)
    assert (placed(plan), plan.released) == ({}, ())
    assert placed(decide(emptied(waits))) == {1: "c1/h100/guaranteed/host: n3"}


GONE: dict[str, Snapshot] = {
    "its deadline is over": replace(KEPT, reservations=(reservation(1, "n1 n2", left=0),)),
    "its job is gone": replace(KEPT, jobs=KEPT.jobs[1:]),
    "its job may not start yet": replace(
        KEPT, jobs=(KEPT.jobs[0]._replace(not_before_ms=NOW_MS + 1), KEPT.jobs[1])
    ),
    "its job asks for something else": replace(KEPT, jobs=(job(1, "2x7"), KEPT.jobs[1])),
    "a node is down": held(
        replace(
            KEPT, clusters=(cluster("c1", {"h100": [nodes(2)[0], replace(nodes(2)[1], usable=False)]}),)
        ),
        KEPT.holdings,
    ),
    "a node is no more": held(replace(KEPT, clusters=(ONE,)), KEPT.holdings),
    "quota shrank": replace(KEPT, quotas=(quota("acme", 15), quota("beta", 0))),
    "there is no price": replace(KEPT, prices=prices(a100=3)),
    "the cluster drains": replace(KEPT, clusters=(replace(KEPT.clusters[0], state=ClusterState.DRAINING),)),
    "the member reserved a node": replace(
        KEPT,
        clusters=(
            replace(
                KEPT.clusters[0],
                reserved=(ReservedNodes("fix", frozenset({"n2"}), NOW_MS + 9, NOW_MS + 99),),
            ),
        ),
    ),
    "its victim stays after all": held(KEPT, [holding(7, "n1")]),
    "its victim is lost": held(KEPT, [holding(7, "n1", leaves=True, is_lost=True)]),
    "foreign load came": held(
        replace(KEPT, clusters=(cluster("c1", {"h100": [nodes(2)[0], foreign(nodes(2)[1], 1)]}),)),
        KEPT.holdings,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GONE)
def test_nodes_are_kept_no_longer_when(case: str) -> None:
    plan = decide(GONE[case])
    assert plan.released == (1,)
    assert plan.claims == ()  # who was to leave for it is seen as it is in the next cycle
    assert 1 not in placed(plan)


def test_two_may_wait_for_parts_of_one_node() -> None:
    before = facts(
        [job(1, "1x4", age=2), job(2, "1x4", age=1)],
        [holding(7, "n1", 4, ran=700), holding(8, "n1", 4, ran=800)],
        ONE,
    )
    plan = decide(before)
    assert claimed(plan) == {1: "c1: n1 < 7", 2: "c1: n1 < 8"}
    half = held(then(before, plan), [replace(before.holdings[1], leaves=True)])
    assert placed(decide(half)) == {1: "c1/h100/guaranteed/host: n1"}


def test_nodes_kept_for_spot_yield_to_an_owner_and_who_was_told_goes_for_it() -> None:
    spot = reservation(2, "n1 n2", service_class="spot")
    waits = [borrower(2, "2x8", priority=900), job(1)]
    leaves = own_spot(7, "n1", leaves=True)
    before = facts(waits[:1], [leaves], reservations=(spot,))
    plan = decide(before)
    assert (plan.released, plan.bindings) == ((), ())
    assert told(plan)[2] == [("c1", "waiting_for_reclaim", 16, 8)]
    plan = decide(facts(waits, [leaves], reservations=(spot,)))  # n2 is free for the owner
    assert (placed(plan), plan.released) == ({1: "c1/h100/guaranteed/host: n2"}, (2,))
    both = [leaves, own_spot(8, "n2", leaves=True, grace_ms=90_000)]
    plan = decide(facts([waits[0], job(1, "2x8")], both, reservations=(spot,)))
    assert (claimed(plan), plan.released) == ({1: "c1: n1 n2 < "}, (2,))
    (claim,) = plan.claims
    assert claim.deadline_ms == NOW_MS + 90_000 + Policy().claim_ms  # it waits for their graces
    kept = then(plan.basis, plan).reservations
    assert [heir(uid("c1"), names.split(), kept) for names in ("n1", "n9 n2", "n9")] == [1, 1, None]
    assert heir(uid("c2"), ["n1"], kept) is None


def test_one_that_waits_as_spot_starts_as_guaranteed_where_it_can() -> None:
    before = facts(
        [job(1)],
        [holding(7, "n1", leaves=True)],
        reservations=(reservation(1, "n1", service_class="spot"),),
    )
    plan = decide(before)
    assert (placed(plan), plan.released) == ({1: "c1/h100/guaranteed/host: n2"}, (1,))


def test_two_of_a_tenant_never_evict_each_other_in_turn() -> None:
    """Whatever two jobs ask for, and whether the guarantee has room or not."""
    waits_for, no_room = OWNER, (quota("acme", 0), quota("beta", 0), quota("gamma", 0))
    kinds = [(w, p) for w in ("auto", "spot") for p in (400, 500)]
    for first, second in itertools.product(kinds, kinds):
        wins = []
        for (wanted, priority), (other, above) in ((first, second), (second, first)):
            waiting = job(1, wanted=wanted, priority=priority)
            for quotas in (waits_for, no_room):
                gang = holding(7, "n1", tenant="acme", wanted=other, priority=above)
                wins.append(claimed(decide(facts([waiting], [gang], ONE, quotas=quotas))))
        as_owner, as_spot, other_as_owner, other_as_spot = map(bool, wins)
        assert not (as_spot and other_as_spot)
        # Who won as spot runs as spot; nor is it evicted then by one that came inside the guarantee.
        assert not (as_spot and other_as_owner)
        assert not (other_as_spot and as_owner)


def test_what_a_plan_binds_the_next_does_not_undo_even_where_nobody_is_spared() -> None:
    before = facts(
        [borrower(1, "2x8", priority=900), borrower(2, priority=100)],
        [own_spot(7, "n1", ran=90_000)],
        policy=Policy(min_run_ms=0),
    )
    plan = decide(before)
    assert placed(plan) == {2: "c1/h100/spot/host: n2"}
    assert decide(then(before, plan)).claims == ()


def test_what_is_to_be_evicted_is_not_promoted() -> None:
    auto = holding(7, "n1 n2", wanted="auto")
    changes = {"quotas": (quota("acme", 8), quota("beta", 16))}
    assert decide(facts([], [auto], **changes)).promotions
    plan = decide(facts([job(1)], [auto], **changes))
    assert (claimed(plan), plan.promotions) == ({1: "c1: n1 < 7"}, ())


def test_the_order_of_rows_means_nothing() -> None:
    for before, _ in TABLE.values():
        mixed = replace(
            before,
            holdings=before.holdings[::-1],
            jobs=before.jobs[::-1],
            reservations=before.reservations[::-1],
        )
        one, other = decide(before), decide(mixed)
        assert (one.claims, one.bindings) == (other.claims, other.bindings)
        assert one.reasons == other.reasons


@pytest.mark.parametrize(
    ("leaver", "gamma_keeps", "lent"),
    [
        ("acme", 16, 1),  # acme keeps 24 and has 16 of them, now as before: of 16 idle it leaves 8
        ("beta", 16, 1),  # acme has 16 of its 24 in time
        ("gamma", 32, 0),  # so has acme, but gamma, which had all its 32, has 16 less
    ],
)
def test_what_goes_from_one_to_another_counts_once_in_what_owners_keep(
    leaver: str, gamma_keeps: int, lent: int
) -> None:
    owed = {"acme": 24, "gamma": gamma_keeps}
    keeps = [replace(quota(*row), lending_limit=0) for row in owed.items()]
    waits = [job(1, "2x8", required_tier="leaf"), borrower(2), borrower(3)]
    gangs = [
        holding(7, "n1 n2", tenant=leaver),
        *(mine(n, f"n{n}", tenant="gamma") for n in (4, 6)),  # of each other leaf a node is idle
    ]
    fleet = cluster("c1", {"h100": nodes(6)})
    before = facts(waits, gangs, fleet, quotas=(*keeps, quota("beta", 0)))
    plan = decide(before)
    assert claimed(plan) == {1: "c1: n1 n2 < 7"}
    assert [one.tenant for one in plan.bindings] == [uid("beta")] * lent
    after = then(before, replace(plan, bindings=()))  # it was told to go in the last cycle
    again = decide(after)
    assert (again.claims, again.released, again.bindings) == ((), (), plan.bindings)
    gone = decide(emptied(then(after, again)))  # nor is more lent when it has gone
    assert [one.job for one in gone.bindings] == [1]


def test_what_is_kept_for_spot_stands_where_an_owner_takes_back_elsewhere() -> None:
    keeps = replace(quota("acme", 16), lending_limit=0)
    waits = [job(1, only_clusters=("c2",)), borrower(2)]
    gangs = [holding(7, "n1 n2", tenant="gamma", on="c2"), own_spot(8, "n2", leaves=True)]
    spot = reservation(2, "n2", service_class="spot")
    quotas = (keeps, quota("beta", 0), quota("gamma", 0))
    before = facts(waits, gangs, TWO, ELSEWHERE, quotas=quotas, reservations=(spot,))
    plan = decide(before)
    assert (claimed(plan), plan.released) == ({1: "c2: n1 < 7"}, ())


def test_who_may_stay_as_its_job_is_bound_does_not_make_room_for_others() -> None:
    """acme owns 16. Its job was to have 8 of them from gang 7, and another gang is over first."""
    gangs = [mine(7, "n1", leaves=True, goes_for=1), mine(8, "n4")]
    waits = [job(1, priority=900), job(2, wanted="guaranteed")]
    kept = reservation(1, "n2")
    before = facts(waits, gangs, FOUR, quotas=FULL, reservations=(kept,))
    assert claimed(decide(before)) == {}  # what both use is all of it
    over = held(before, gangs[:1])
    plan = decide(over)
    assert (placed(plan), claimed(plan)) == ({1: "c1/h100/guaranteed/host: n2"}, {})
    elsewhere = held(before, [replace(gangs[0], goes_for=None)])  # it is being stopped
    assert claimed(decide(elsewhere)) == {2: "c1: n1 < "}

"""Past jobs on a policy: goldens by hand, sums that must come out, and a private cluster a tenant."""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.core.resources import GangShape, NodeShape
from federation.core.plan import Plan
from federation.core.replay import Outcome, PastJob, Setting, TenantOutcome, Waits, replay
from federation.core.replay.books import SpotUse, jain, percentile
from federation.core.replay.staging import Choices, ClusterWords, stage, uid
from federation.core.snapshot import Ask, Option
from kit.intervals import HOUR_MS, MINUTE_MS
from quotas.core.table import TableRow

SECOND, TICK = 1000, 30_000
CHOICES = Choices("h100")


def setting(nodes: int = 1, gpus: int = 8, **guaranteed: int) -> Setting:
    """One cluster, and tenants with so many guaranteed GPUs."""
    rows = [TableRow(n, name, "h100", None, g) for n, (name, g) in enumerate(guaranteed.items(), 1)]
    found = stage(rows, [ClusterWords("c", "h100", nodes, gpus)], guaranteed, CHOICES)
    assert isinstance(found, Setting)
    return found


def past(
    number: int, tenant: str, wanted: str, *, at_s: int, run_s: int, gpus: int = 8, nodes: int = 1,
    **more: int,
) -> PastJob:  # fmt: skip
    ask = Ask((Option("h100", GangShape(nodes, NodeShape(gpus, gpus, 0), False)),), HOUR_MS)
    return PastJob(number, at_s * SECOND, uid(tenant), ask, run_s * SECOND, wanted, **more)


def of(outcome: Outcome, tenant: str) -> TenantOutcome:
    return next(one for one in outcome.tenants if one.tenant == tenant)


def test_an_owner_takes_its_gpus_back_and_what_was_evicted_runs_again_from_the_start() -> None:
    jobs = [
        past(1, "b", "spot", at_s=0, run_s=600),
        past(2, "a", "guaranteed", at_s=50, run_s=300),
    ]
    found = replay(jobs, setting(a=8, b=0))
    a, b = of(found, "a"), of(found, "b")
    # At 60 s the owner evicts and starts; it is over at 360 s, and the other begins anew.
    assert a.waits == {"guaranteed": Waits(1, 10 * SECOND, 10 * SECOND)}
    assert a.gpu_ms == {"guaranteed": 8 * 300 * SECOND}
    assert b.waits == {"spot": Waits(1, 0, 0)}
    assert b.gpu_ms == {"spot": 8 * (60 + 600) * SECOND}
    assert (b.evictions, b.lost_gpu_ms, b.finished) == (1, 8 * 60 * SECOND, 1)
    assert found.span_ms == 960 * SECOND
    # 2 dollars a guaranteed GPU-hour, 1 a spot one.
    assert a.cost_nano == 8 * 300 * 2_000_000_000 // 3600
    assert b.cost_nano == 8 * 60 * 1_000_000_000 // 3600 + 8 * 600 * 1_000_000_000 // 3600


def test_with_a_checkpoint_it_has_its_grace_and_loses_what_came_after_the_last_one() -> None:
    jobs = [
        past(1, "b", "spot", at_s=0, run_s=600, interval_ms=50 * SECOND, grace_ms=40 * SECOND),
        past(2, "a", "guaranteed", at_s=61, run_s=300),
    ]
    found = replay(jobs, setting(a=8, b=0))
    a, b = of(found, "a"), of(found, "b")
    # Told at 90 s, gone at 130 s, saved at 100 s; the owner starts at the tick of 150 s.
    assert a.waits["guaranteed"].p50_ms == (150 - 61) * SECOND
    assert (b.evictions, b.lost_gpu_ms) == (1, 8 * 30 * SECOND)
    assert b.gpu_ms == {"spot": 8 * (130 + 500) * SECOND}
    assert found.span_ms == (450 + 500 + 10) * SECOND  # rounded up to the tick


def test_what_ends_within_its_grace_is_not_evicted() -> None:
    jobs = [
        past(1, "b", "spot", at_s=0, run_s=100, interval_ms=50 * SECOND, grace_ms=40 * SECOND),
        past(2, "a", "guaranteed", at_s=61, run_s=300),
    ]
    b = of(replay(jobs, setting(a=8, b=0)), "b")
    assert (b.evictions, b.lost_gpu_ms, b.finished) == (0, 0, 1)


def test_waits_in_all_are_those_of_all_jobs_together() -> None:
    jobs = [past(n, "a", "guaranteed", at_s=0, run_s=60, gpus=4) for n in (1, 2, 3)]
    jobs += [past(4, "b", "guaranteed", at_s=0, run_s=60, gpus=4)]
    found = replay(jobs, setting(a=4, b=4))
    assert of(found, "a").waits == {"guaranteed": Waits(3, 60 * SECOND, 120 * SECOND)}
    assert of(found, "b").waits == {"guaranteed": Waits(1, 0, 0)}
    # Of 0, 0, 60 and 120 s the second is the first that half do not exceed.
    assert found.waits == {"guaranteed": Waits(4, 0, 120 * SECOND)}
    assert replay([], setting(a=4)).waits == {}


def test_auto_is_promoted_and_its_time_is_cut_there() -> None:
    jobs = [
        past(1, "a", "guaranteed", at_s=0, run_s=60, gpus=4),
        past(2, "a", "auto", at_s=0, run_s=600, gpus=4),
    ]
    a = of(replay(jobs, setting(a=4)), "a")
    assert a.gpu_ms == {
        "guaranteed": 4 * (60 + 540) * SECOND,
        "spot": 4 * 60 * SECOND,
    }


def test_ticks_at_which_nothing_happens_cost_no_cycle() -> None:
    jobs = [past(n, "a", "guaranteed", at_s=86_400 * n, run_s=3_600) for n in range(3)]
    found = replay(jobs, setting(a=8))
    assert found.cycles == 3
    assert of(found, "a").finished == 3


def test_what_can_never_start_ends_the_replay() -> None:
    found = replay([past(1, "a", "guaranteed", at_s=0, run_s=60, gpus=16)], setting(a=64))
    assert (of(found, "a").never, of(found, "a").waits) == (1, {})


def test_no_job_is_a_replay_too() -> None:
    assert replay([], setting(a=8)).tenants == ()


def test_within_a_tenant_what_is_more_urgent_goes_first_once_the_other_has_run_long_enough() -> (
    None
):
    jobs = [
        past(1, "a", "guaranteed", at_s=0, run_s=3_600, priority=100),
        past(2, "a", "guaranteed", at_s=30, run_s=60, priority=900),
    ]
    a = of(replay(jobs, setting(a=8)), "a")
    assert a.evictions == 1
    assert a.waits["guaranteed"].p90_ms == 10 * MINUTE_MS - 30 * SECOND


JOBS = st.lists(
    st.builds(
        lambda tenant, wanted, **rest: (tenant, wanted, rest),
        st.sampled_from("abc"),
        st.sampled_from(["guaranteed", "spot", "auto"]),
        at_s=st.integers(0, 1_000),
        run_s=st.integers(1, 900),
        gpus=st.sampled_from([1, 2, 4, 8]),
        priority=st.sampled_from([100, 500]),
        interval_ms=st.sampled_from([None, 20 * SECOND, 90 * SECOND]),
        grace_ms=st.sampled_from([0, 20 * SECOND, 100 * SECOND]),
    ),
    max_size=25,
)


def _jobs(drawn: Sequence[tuple[str, str, dict[str, int]]]) -> list[PastJob]:
    return [past(n, tenant, wanted, **rest) for n, (tenant, wanted, rest) in enumerate(drawn, 1)]


@settings(max_examples=60, deadline=None)
@given(JOBS, st.integers(1, 3), st.integers(0, 1000))
def test_parts_sum_to_wholes_and_the_order_of_jobs_means_nothing(
    drawn: list[tuple[str, str, dict[str, int]]], nodes: int, seed: int
) -> None:
    """GPU time is the work of what finished plus what was lost; nothing else is billed."""
    jobs, place = _jobs(drawn), setting(nodes=nodes, a=8, b=4, c=0)
    used = []

    def watch(plan: Plan) -> None:
        free = [n.free.gpus for c in plan.basis.clusters for f in c.flavors for n in f.nodes]
        held = sum(one.gpus for one in plan.basis.holdings)
        assert held + sum(free) == nodes * 8
        assert held == sum(use.gpus for use in plan.basis.uses)
        used.append(held)

    found = replay(jobs, place, watch=watch)
    work = dict.fromkeys("abc", 0)
    for job, (tenant, _, rest) in zip(jobs, drawn, strict=True):
        work[tenant] += rest["gpus"] * job.run_ms
    for one in found.tenants:
        assert one.finished + one.never == one.jobs
        if not one.never:
            assert one.total_gpu_ms == work[one.tenant] + one.lost_gpu_ms
    assert sum(waits.jobs for waits in found.waits.values()) == len(found.waited_ms)
    for name, waits in found.waits.items():
        apart = [one.waits[name] for one in found.tenants if name in one.waits]
        assert waits.jobs == sum(one.jobs for one in apart)
        assert min(one.p50_ms for one in apart) <= waits.p50_ms <= max(one.p50_ms for one in apart)
        assert min(one.p90_ms for one in apart) <= waits.p90_ms <= max(one.p90_ms for one in apart)
    random.Random(seed).shuffle(jobs)  # noqa: S311 (any order will do)
    assert replay(jobs, place) == found


SINGLES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["guaranteed", "guaranteed", "spot"]),
        st.integers(0, 600),
        st.integers(1, 400),
    ),
    max_size=40,
)
GUARANTEED = {"a": 3, "b": 1, "c": 2}


@settings(max_examples=80, deadline=None)
@given(SINGLES)
def test_nobody_waits_longer_than_with_a_cluster_of_its_own(
    drawn: list[tuple[str, str, int, int]],
) -> None:
    """HiveD's sharing anomaly (Zhao et al., OSDI'20) is zero for guaranteed jobs of one GPU."""
    jobs = [past(n, t, w, at_s=at, run_s=run, gpus=1) for n, (t, w, at, run) in enumerate(drawn)]
    shared = replay(jobs, setting(gpus=6, **GUARANTEED)).waited_ms
    for tenant, gpus in GUARANTEED.items():
        own = [j for j in jobs if j.tenant == uid(tenant) and j.wanted_class == "guaranteed"]
        alone = replay(own, setting(gpus=gpus, **{tenant: gpus})).waited_ms
        assert {key: shared[key] for key in alone} == alone


GANGS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(30, 300),
        st.integers(1, 400),
        st.integers(1, 3),
    ),
    max_size=20,
)


@settings(max_examples=80, deadline=None)
@given(GANGS, st.integers(0, 6))
def test_no_wide_gang_waits_longer_either_where_borrowers_are_on_every_node(
    drawn: list[tuple[str, int, int, int]], borrowers: int
) -> None:
    """Owners' gangs of whole nodes: a wide one takes back before narrow ones behind it start."""
    jobs = [past(n, "a", "spot", at_s=0, run_s=9_999, gpus=5) for n in range(borrowers)]
    for number, (tenant, at_s, run_s, nodes) in enumerate(drawn, borrowers):
        jobs.append(past(number, tenant, "guaranteed", at_s=at_s, run_s=run_s, nodes=nodes))
    owed = {name: 8 * nodes for name, nodes in GUARANTEED.items()}
    shared = replay(jobs, setting(nodes=6, **owed)).waited_ms
    for tenant, nodes in GUARANTEED.items():
        own = [j for j in jobs if j.tenant == uid(tenant) and j.wanted_class == "guaranteed"]
        alone = replay(own, setting(nodes=nodes, **{tenant: 8 * nodes})).waited_ms
        assert {key: shared[key] for key in alone} == alone


@settings(max_examples=60, deadline=None)
@given(SINGLES, st.sampled_from([20, 45, 100]))
def test_who_is_owed_its_gpus_waits_for_nothing_but_the_graces_of_victims(
    drawn: list[tuple[str, str, int, int]], grace_s: int
) -> None:
    saves = {"interval_ms": 30 * SECOND, "grace_ms": grace_s * SECOND}
    jobs = [
        past(n, t, w, at_s=at, run_s=run, gpus=1, **saves)
        for n, (t, w, at, run) in enumerate(drawn)
    ]
    since: dict[int, int] = {}

    def watch(plan: Plan) -> None:
        """A job that has nodes kept starts within the grace; who is inside its quota has them."""
        basis = plan.basis
        held = dict.fromkeys(GUARANTEED, 0)
        for one in basis.holdings:
            if one.service_class == "guaranteed":
                held[next(n for n in GUARANTEED if uid(n) == one.tenant)] += 1
        served = {b.job for b in plan.bindings} | {c.binding.job for c in plan.claims}
        served |= {kept.job for kept in basis.reservations} - set(plan.released)
        for name, gpus in GUARANTEED.items():
            mine = [
                j for j in basis.jobs if j.tenant == uid(name) and j.wanted_class == "guaranteed"
            ]
            owed = min(len(mine), gpus - held[name])
            assert len([j for j in mine if j.id in served]) == owed
        for claim in plan.claims:
            since[claim.binding.job] = basis.now_ms
        for kept in basis.reservations:
            assert basis.now_ms - since[kept.job] < grace_s * SECOND + TICK

    replay(jobs, setting(gpus=6, **GUARANTEED), watch=watch)


def test_decayed_use_is_the_integral_of_what_was_held() -> None:
    half_life = 100_000
    use, key = SpotUse(half_life), (uid("a"), "h100")
    use.change(*key, 4, 0)
    use.change(*key, 2, 50_000)
    use.change(*key, -6, 80_000)
    k = log(2) / half_life

    def stay(gpus: int, start: int, end: int, now: int) -> float:
        return gpus / k * (2 ** (-(now - end) / half_life) - 2 ** (-(now - start) / half_life))

    for now in (80_000, 250_000, 1_000_000):
        expected = stay(4, 0, 80_000, now) + stay(2, 50_000, 80_000, now)
        assert use.at(now)[key] == pytest.approx(expected, abs=1)


def test_numbers_of_the_outcome() -> None:
    assert percentile(range(1, 11), 50) == 5
    assert percentile(range(1, 11), 90) == 9
    assert percentile([7], 90) == 7
    assert jain([3, 3, 3]) == 1
    assert jain([6, 0, 0]) == pytest.approx(1 / 3)
    assert jain([]) == 1


def test_fairness_is_by_weight() -> None:
    place = setting(a=4, b=4)
    weighted = replace(
        place, quotas=tuple(replace(q, weight=w) for q, w in zip(place.quotas, (1, 3), strict=True))
    )
    jobs = [
        past(1, "a", "spot", at_s=0, run_s=100, gpus=1),
        past(2, "b", "spot", at_s=0, run_s=300, gpus=1),
    ]
    assert replay(jobs, weighted).fairness == pytest.approx(1)
    assert replay(jobs, place).fairness == pytest.approx(16 / 20)

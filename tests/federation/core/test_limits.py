"""Limits in a cycle: what is over one waits, blocks nobody, evicts nobody, and is told why."""

from collections import Counter
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.cycle import decide
from federation.core.fixes import fix_for
from federation.core.snapshot import Snapshot, WaitingJob
from quotas.core.limits import Limited, LimitRow, Scope
from tests.federation.core.build import (
    HOUR_MS,
    MIA,
    cluster,
    held,
    holding,
    job,
    nodes,
    quota,
    reservation,
    snapshot,
    tenants,
    uid,
)

BOB = uid("bob")
PEOPLE = frozenset({MIA, BOB})
TREE = tenants("acme/a", "acme/b", "beta")


def limit(tenant: str = "acme", scope: str = "tenant", **more: object) -> LimitRow:
    return LimitRow(uid(tenant), Scope(scope), **more)  # type: ignore[arg-type]


def facts(jobs: list[WaitingJob], *rows: LimitRow, count: int = 8, **changes: object) -> Snapshot:
    """One cluster with so many nodes of 8."""
    room = cluster("c1", {"h100": nodes(count)}, people=PEOPLE)
    limited = Limited(rows, changes.pop("people", {}), changes.pop("labels", {}))  # type: ignore[arg-type]
    return snapshot(jobs, [room], tenants=TREE, limited=limited, **changes)


def bound(given: Snapshot) -> list[int]:
    return sorted(one.job for one in decide(given).bindings)


def told(given: Snapshot, number: int) -> list[tuple[object, ...]]:
    return [
        (r.code, r.cluster, r.needed, r.available, r.unit, r.message)
        for r in decide(given).reasons[number]
    ]


def test_starts_count_at_once_and_block_nobody_behind() -> None:
    jobs = [job(n, tenant="acme/a", age=9 - n) for n in (1, 2, 3)]
    jobs += [job(4, tenant="acme/b"), job(5, tenant="beta"), job(6, "1x4", tenant="acme/a")]
    given = facts(jobs, limit("acme/a", running_gpus=20))
    assert bound(given) == [1, 2, 4, 5, 6]  # 8 + 8 + 4; the third would be 24
    assert told(given, 3) == [
        ("limit_reached", "c1", 8, 0, "gpus",
         "acme/a may hold at most 20 GPUs at once and has 0 left; it needs 8.")
    ]  # fmt: skip


def test_each_person_by_themselves_and_what_runs_counts() -> None:
    jobs = [job(1, tenant="acme/a"), job(2, tenant="acme/b", user=BOB)]
    given = facts(jobs, limit("acme", "user", running_jobs=1), people={9: MIA})
    given = held(given, [holding(9, tenant="acme/b")])
    assert bound(given) == [2]
    assert told(given, 1) == [
        ("limit_reached", None, 1, 0, "jobs",
         "Each person in acme may run at most 1 job at once; all of them run.")
    ]  # fmt: skip


def test_a_label() -> None:
    sweep = frozenset({("kind", "sweep")})
    jobs = [job(n, tenant="acme/a", age=9 - n) for n in (1, 2, 3)]
    row = limit("acme", "label", name="kind", text="sweep", running_jobs=1)
    given = facts(jobs, row, labels={1: sweep, 2: sweep})
    assert bound(given) == [1, 3]
    assert told(given, 2)[0][5] == (
        "Jobs of acme with the label kind=sweep may run at most 1 job at once; all of them run."
    )


def test_the_longest_time_limit_and_its_fix() -> None:
    given = facts([job(1, tenant="acme/a")], limit("acme", longest_ms=HOUR_MS - 1000))
    (reason,) = decide(given).reasons[1]
    assert (reason.needed, reason.available, reason.unit) == (3600, 3599, "seconds")
    assert reason.message == (
        "acme may ask for a time limit of at most 3599 s; its time limit is 3600 s."
    )
    fix = fix_for(reason.to_json())
    assert fix is not None
    assert fix["change"] == {"time_limit": 3599}
    assert fix["description"] == "Ask for at most 3599 seconds, or have the limit raised."


def test_another_flavor_that_takes_fewer_gpus_is_no_way_around_and_one_that_fits_is() -> None:
    room = cluster("c1", {"h100": nodes(4)})
    other = cluster("c2", {"a100": nodes(4)})
    asked = job(1, "2x8", tenant="acme", flavors="h100 a100")
    given = snapshot([asked], [room, other], limited=Limited((limit(running_gpus=8),)))
    assert [r.code for r in decide(given).reasons[1]] == ["limit_reached", "limit_reached"]


def test_nobody_is_evicted_for_a_job_over_its_limit_and_another_is_not_hindered() -> None:
    """Both jobs share place, tenant and priority, and only one of them is over its limit."""
    jobs = [
        job(1, tenant="acme/a", wanted="guaranteed", age=9),
        job(2, tenant="acme/a", wanted="guaranteed", user=BOB),
    ]
    full = [holding(11, "n1"), holding(12, "n2")]
    row = limit("acme", "user", user=MIA, longest_ms=1000)
    plan = decide(held(facts(jobs, row, count=2), full))
    assert [claim.binding.job for claim in plan.claims] == [2]


def test_claims_count_too() -> None:
    jobs = [job(n, tenant="acme/a", wanted="guaranteed", age=9 - n) for n in (1, 2)]
    full = [holding(11, "n1"), holding(12, "n2")]
    plan = decide(held(facts(jobs, limit("acme/a", running_jobs=1), count=2), full))
    assert [claim.binding.job for claim in plan.claims] == [1]


def test_nodes_are_kept_no_longer_for_a_job_whose_limit_was_lowered() -> None:
    jobs = [job(1, tenant="acme/a", wanted="guaranteed")]
    given = held(facts(jobs, count=2), [holding(11, "n1", leaves=True)])
    given = held(given, given.holdings, reservations=(reservation(1, "n1"),))
    assert decide(given).released == ()
    lowered = Limited((limit("acme/a", longest_ms=1000),))
    assert decide(held(given, given.holdings, limited=lowered)).released == (1,)


def test_a_kept_job_is_not_told_that_it_is_over_a_limit_by_itself() -> None:
    jobs = [job(1, tenant="acme/a", wanted="guaranteed")]
    given = held(
        facts(jobs, limit("acme/a", running_jobs=1), count=1),
        [holding(11, "n1", leaves=True)],
        reservations=(reservation(1, "n1"),),
    )
    assert [row[0] for row in told(given, 1)] == ["waiting_for_reclaim"]


def test_a_promotion_does_not_wait_for_a_gang_that_its_limit_keeps_back() -> None:
    runs = holding(9, "n1", tenant="acme/a", wanted="auto", service_class="spot")
    jobs = [job(1, tenant="acme/b", wanted="guaranteed", user=BOB)]
    quota_of_8 = {"quotas": (quota("acme", 8),)}
    row = limit("acme", "user", user=BOB, longest_ms=1000)
    given = facts(jobs, row, people={9: MIA}, count=2, **quota_of_8)
    assert [p.job for p in decide(held(given, [runs])).promotions] == [9]
    free = facts(jobs, count=2, **quota_of_8)
    assert decide(held(free, [runs])).promotions == ()


BOUND = st.one_of(st.none(), st.integers(1, 4))
ROWS = st.lists(
    st.builds(
        limit,
        st.sampled_from(["acme", "acme/a", "acme/b", "beta"]),
        st.sampled_from(["tenant", "user", "label"]),
        user=st.sampled_from([None, MIA, BOB]),
        name=st.just("k"),
        text=st.sampled_from(["a", "b"]),
        running_jobs=BOUND,
        running_gpus=BOUND.map(lambda n: None if n is None else n * 8),
    ),
    max_size=5,
)
ONE = st.tuples(
    st.sampled_from(["acme/a", "acme/b", "beta"]),
    st.sampled_from([MIA, BOB]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["guaranteed", "spot", "auto"]),
)


@st.composite
def crowds(draw: st.DrawFn, count: int) -> Snapshot:
    """Waiting jobs of one or two nodes, some that run, and limits."""
    waiting = draw(st.lists(ONE, max_size=10))
    running = draw(st.lists(ONE, max_size=4))
    jobs = [
        job(n, draw(st.sampled_from(["1x8", "2x8", "1x3"])), tenant=t, user=u, wanted=c)
        for n, (t, u, _, c) in enumerate(waiting, start=1)
    ]
    gangs = [
        holding(100 + n, f"n{n + 1}", tenant=t, service_class="spot")
        for n, (t, _, _, _) in enumerate(running)
    ]
    labels = {n: one[2] for n, one in enumerate(waiting, start=1)}
    labels |= {100 + n: one[2] for n, one in enumerate(running)}
    return held(
        facts(
            jobs,
            *draw(ROWS),
            count=count,
            people={100 + n: one[1] for n, one in enumerate(running)},
            labels={n: frozenset({("k", text)}) for n, text in labels.items() if text},
        ),
        gangs,
    )


Held = tuple[int, UUID, UUID, int]  # job, tenant, user, GPUs


def speaks(row: LimitRow, one: Held, given: Snapshot) -> bool:
    lineages = {t.id: t.lineage for t in given.tenants}
    return row.tenant in lineages[one[1]] and row.speaks_for(
        one[2], given.limited.labels.get(one[0], frozenset())
    )


@settings(max_examples=300, deadline=None)
@given(crowds(6))
def test_no_start_ever_exceeds_a_limit(given: Snapshot) -> None:
    plan = decide(given)
    old = [(h.job, h.tenant, given.limited.people[h.job], h.gpus) for h in given.holdings]
    made = [*plan.bindings, *(claim.binding for claim in plan.claims)]
    new = [(b.job, b.tenant, b.user, b.shape.gpus) for b in made]
    for row in given.limited.rows:
        jobs: Counter[UUID | None] = Counter()
        gpus: Counter[UUID | None] = Counter()
        grown = set()
        for one in (*old, *new):
            if speaks(row, one, given):
                key = one[2] if row.scope is Scope.USER else None
                jobs[key] += 1
                gpus[key] += one[3]
                grown.update([key] if one in new else [])
        for key in grown:
            assert row.running_jobs is None or jobs[key] <= row.running_jobs
            assert row.running_gpus is None or gpus[key] <= row.running_gpus
    for number in {one.id for one in given.jobs} - {b.job for b in plan.bindings}:
        assert plan.reasons[number]


@settings(max_examples=200, deadline=None)
@given(crowds(40))
def test_where_there_is_room_only_limits_keep_jobs_back(given: Snapshot) -> None:
    """Taken away, they delay nobody; while they stand, all that waits is told of one."""
    without = held(given, given.holdings, limited=Limited())
    assert bound(without) == [one.id for one in given.jobs]
    plan = decide(given)
    for one in {one.id for one in given.jobs} - {b.job for b in plan.bindings}:
        assert {reason.code for reason in plan.reasons[one]} == {"limit_reached"}

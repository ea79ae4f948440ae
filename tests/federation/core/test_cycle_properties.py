"""The invariants of DESIGN section 4 on small random federations, against an oracle by force."""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.core.domains import shared_tier
from clusters.core.topology import RANK, NodeRoom
from federation.core.cycle import decide
from federation.core.plan import Plan
from federation.core.snapshot import Snapshot, WaitingJob
from quotas.core.cohort import Use
from tests.federation.core.build import (
    after,
    cluster,
    job,
    node,
    quota,
    snapshot,
    tenants,
    use,
)
from tests.quotas.definition import allows

PATHS = ("acme", "acme/a", "acme/b", "beta")
TIERS = st.sampled_from(["", "host", "leaf", "cluster"])
NODES = st.lists(
    st.tuples(st.sampled_from(["l1", "l2", "l3"]), st.sampled_from([0, 3, 8]), st.booleans()),
    min_size=1,
    max_size=5,
)
JOBS = st.lists(
    st.builds(
        lambda gang, **rest: (gang, rest),
        st.sampled_from(["1x1", "1x8", "2x8", "2x3", "3x8", "1x5"]),
        tenant=st.sampled_from(PATHS),
        flavors=st.sampled_from(["h100", "a100", "h100 a100", "a100 h100"]),
        wanted=st.sampled_from(["auto", "spot", "guaranteed"]),
        priority=st.sampled_from([100, 500]),
        age=st.integers(0, 3),
        required_tier=TIERS,
        prefer=st.sampled_from(["order", "price", "start"]),
        exclusive=st.booleans(),
    ),
    max_size=7,
)
QUOTAS = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.sampled_from(["h100", "a100"]),
        st.sampled_from([None, "c1", "c2"]),
        st.integers(0, 24),
        st.one_of(st.none(), st.integers(0, 24)),
    ),
    max_size=8,
    unique_by=lambda row: row[:3],
)
USES = st.lists(
    st.tuples(st.sampled_from(PATHS), st.integers(1, 9), st.sampled_from(["guaranteed", "spot"])),
    max_size=3,
)


def _nodes(kind: str, rows: list[tuple[str, int, bool]]) -> list[NodeRoom]:
    """Nodes of one kind of GPU; a node of a cluster has one kind, so its name says which."""
    return [node(f"{kind}{i}", leaf, free, up=up) for i, (leaf, free, up) in enumerate(rows)]


@st.composite
def federations(draw: st.DrawFn) -> Snapshot:
    return snapshot(
        [job(n, gang, **rest) for n, (gang, rest) in enumerate(draw(JOBS), start=1)],
        [
            cluster("c1", {"h100": _nodes("h", draw(NODES)), "a100": _nodes("a", draw(NODES))}),
            cluster("c2", {"h100": _nodes("h", draw(NODES))}),
        ],
        tenants=tenants(*PATHS),
        quotas=tuple(quota(t, g, b, f, on) for t, f, on, g, b in draw(QUOTAS)),
        uses=tuple(use(t, gpus, c) for t, gpus, c in draw(USES)),
    )


def _room(facts: Snapshot) -> dict[tuple[str, str, str], NodeRoom]:
    return {(c.name, f.name, n.name): n for c in facts.clusters for f in c.flavors for n in f.nodes}


@settings(max_examples=300, deadline=None)
@given(federations())
def test_capacity_gangs_and_tiers(facts: Snapshot) -> None:
    plan = decide(facts)
    rooms, jobs = _room(facts), {j.id: j for j in facts.jobs}
    gpus: Counter[tuple[str, str, str]] = Counter()
    members: Counter[tuple[str, str, str]] = Counter()
    alone = set()
    for b in plan.bindings:
        assert len(set(b.nodes)) == b.shape.nodes  # whole, each member on a node of its own
        keys = [(b.cluster_name, b.flavor, name) for name in b.nodes]
        assert b.tier == shared_tier([rooms[key].path for key in keys])
        assert RANK[b.tier] <= RANK[jobs[b.job].ask.required_tier or "cluster"]
        for key in keys:
            assert rooms[key].usable
            gpus[key] += b.shape.per_node.gpus
            members[key] += 1
            if b.shape.exclusive:
                alone.add(key)
                assert rooms[key].free == rooms[key].total
    assert all(gpus[key] <= rooms[key].free.gpus for key in gpus)
    assert all(members[key] == 1 for key in alone)
    assert len({b.job for b in plan.bindings}) == len(plan.bindings)


@settings(max_examples=300, deadline=None)
@given(federations())
def test_no_decision_exceeds_a_quota(facts: Snapshot) -> None:
    plan = decide(facts)
    lineages = {t.id: t.lineage for t in facts.tenants}
    places = {(row.tenant, row.flavor, row.cluster) for row in facts.quotas}
    for row in facts.quotas:
        above = [(t, row.flavor, row.cluster) for t in lineages[row.tenant] if t != row.tenant]
        owed = None if places.intersection(above) else row.guaranteed  # else there is headroom
        for service_class, limit in (("guaranteed", owed), ("spot", row.borrowing_limit)):
            held = [
                (u.gpus, new)
                for uses, new in ((facts.uses, False), (after(facts, plan).uses[len(facts.uses):], True))
                for u in uses
                if u.flavor == row.flavor and u.service_class == service_class
                and row.tenant in lineages[u.tenant] and row.cluster in (None, u.cluster)
            ]  # fmt: skip
            if any(new for _, new in held) and limit is not None:
                assert sum(count for count, _ in held) <= limit
    for b in plan.bindings:  # a chain without a row has no quota
        assert any(r.flavor == b.flavor and r.tenant in lineages[b.tenant] for r in facts.quotas)


@settings(max_examples=200, deadline=None)
@given(federations(), st.randoms(use_true_random=False))
def test_the_order_of_rows_means_nothing(facts: Snapshot, random: object) -> None:
    def shuffled(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(random.sample(rows, len(rows)))  # type: ignore[attr-defined]

    mixed = replace(
        facts,
        jobs=shuffled(facts.jobs),
        tenants=shuffled(facts.tenants),
        quotas=shuffled(facts.quotas),
        uses=shuffled(facts.uses),
        clusters=shuffled(
            tuple(
                replace(
                    c,
                    flavors=shuffled(tuple(replace(f, nodes=shuffled(f.nodes)) for f in c.flavors)),
                )
                for c in facts.clusters
            )
        ),
    )
    one, other = decide(facts), decide(mixed)
    assert (one.bindings, one.reasons, one.queue) == (other.bindings, other.reasons, other.queue)


@settings(max_examples=200, deadline=None)
@given(federations())
def test_deciding_on_the_state_after_a_plan_adds_nothing(facts: Snapshot) -> None:
    plan = decide(facts)
    again = decide(after(facts, plan))
    assert again.bindings == ()
    assert again.reasons == plan.reasons
    assert again.queue == plan.queue


def _could_start(facts: Snapshot, waiting: WaitingJob) -> bool:
    """By force: whether any flavor, cluster, class and set of nodes would do for the job."""
    return any(
        _quota_holds(facts, waiting, option.flavor, c.id, option.shape.gpus)
        and any(
            RANK[shared_tier([n.path for n in chosen])] <= RANK[waiting.ask.required_tier or "cluster"]
            for chosen in combinations(
                [
                    n for n in f.nodes
                    if n.usable and n.free.gpus >= option.shape.per_node.gpus
                    and (not option.shape.exclusive or n.free == n.total)
                ],
                option.shape.nodes,
            )
        )
        for option in waiting.ask.options
        for c in facts.clusters
        for f in c.flavors
        if f.name == option.flavor
    )  # fmt: skip


def _quota_holds(facts: Snapshot, waiting: WaitingJob, flavor: str, place: UUID, gpus: int) -> bool:
    lineages = {t.id: t.lineage for t in facts.tenants}
    classes = ("guaranteed", "spot") if waiting.wanted_class == "auto" else (waiting.wanted_class,)
    return any(
        allows(facts.quotas, facts.uses, lineages, Use(waiting.tenant, flavor, place, name, gpus))
        for name in classes
    )


@settings(max_examples=300, deadline=None)
@given(federations())
def test_nothing_waits_that_could_start(facts: Snapshot) -> None:
    plan: Plan = decide(facts)
    left = after(facts, plan)
    for waiting in left.jobs:
        assert not _could_start(left, waiting)
        assert plan.reasons[waiting.id]

"""Reclaim on small random federations, against oracles by force; and as time goes by."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.core.resources import left_of
from clusters.core.topology import NodeRoom
from federation.core.cycle import decide
from federation.core.lines import by_tenant
from federation.core.snapshot import Holding, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT, Cohort, QuotaRow, Use
from tests.federation.core.build import (
    NOW_MS,
    cluster,
    emptied,
    held,
    holding,
    job,
    need,
    node,
    quota,
    snapshot,
    tenants,
    then,
    uid,
)
from tests.federation.core.house import TICK_MS, House
from tests.quotas.tree.claims import check_claims
from tests.quotas.tree.laws import check_plan

PATHS = ("acme", "acme/a", "acme/b", "beta")
GANGS = ("1x4", "1x8", "2x4", "2x8", "3x8")
CLASSES = ("auto", "guaranteed", "spot")
PRIORITIES = (400, 500, 600)


def _fitting(rows: Iterable[dict[str, Any]], fleet: dict[str, list[NodeRoom]]) -> Iterable[Holding]:
    """The gangs that have room beside those before them."""
    taken: dict[tuple[str, str], list[Any]] = {}
    for number, row in enumerate(rows, start=100):
        rooms = fleet[row["on"]]
        chosen = [rooms[place] for place in row["places"] if place < len(rooms)]
        if not chosen:
            continue
        kind = row["kind"]
        one = holding(
            number,
            " ".join(n.name for n in chosen),
            wanted="" if kind != "auto" else kind,
            service_class=SPOT if kind == "auto" else kind,
            **{k: v for k, v in row.items() if k not in ("places", "kind")},
        )
        frees = [left_of(n.total, n.foreign, taken.get((row["on"], n.name), ())) for n in chosen]
        if all(
            free.gpus >= row["gpus"] and (free == n.total or not one.shape.exclusive)
            for free, n in zip(frees, chosen, strict=True)
        ):
            for n in chosen:
                taken.setdefault((row["on"], n.name), []).append(one.shape)
            yield one


def _quotas(random: Random) -> tuple[QuotaRow, ...]:
    return tuple(
        replace(quota(path, 8 * gpus), lending_limit=random.choice([None, None, 0, 8]))
        for path, gpus in zip(PATHS, random.choices([0, 1, 2, 4, 6], k=len(PATHS)), strict=True)
    )


def _federation(seed: int) -> Snapshot:
    """Two clusters that are nearly full, and a few jobs that wait."""
    random = Random(seed)  # noqa: S311 - examples, no secrets
    pick = random.choice
    fleet = {
        name: [
            replace(
                node(f"n{i}", pick(["l1", "l2"]), up=i < 2 or random.random() < 0.8),
                foreign=need(pick([0, 0, 0, 2])),
            )
            for i in range(random.randint(2, 5))
        ]
        for name in ("c1", "c2")
    }
    jobs = [
        job(
            number,
            pick(GANGS),
            tenant=pick(PATHS),
            wanted=pick(CLASSES),
            priority=pick(PRIORITIES),
            age=pick([0, 1, 2, 200_000]),
            exclusive=random.random() < 0.2,
            required_tier=pick(["", "leaf"]),
            only_clusters=pick([(), (), ("c1",)]),
        )
        for number in range(1, random.randint(2, 5))
    ]
    rows = [
        {
            "on": pick(["c1", "c2"]),
            "places": random.sample(range(5), random.randint(1, 2)),
            "gpus": pick([2, 4, 4, 8]),
            "tenant": pick(PATHS),
            "kind": pick(["guaranteed", "guaranteed", "spot", "spot", "auto"]),
            "priority": pick(PRIORITIES),
            "ran": pick([None, random.randint(0, 900), random.randint(600, 5000)]),
            "leaves": random.random() < 0.1,
            "is_lost": random.random() < 0.05,
            "evictions": pick([0, 0, 0, 4]),
            "exclusive": random.random() < 0.1,
        }
        for _ in range(random.randint(4, 25))
    ]
    clusters = [cluster(name, {"h100": rooms}) for name, rooms in fleet.items()]
    facts = snapshot(jobs, clusters, tenants=tenants(*PATHS), quotas=_quotas(random))
    return held(facts, _fitting(rows, fleet))


FEDERATIONS = st.integers(0, 2**32).map(_federation)


@settings(max_examples=250)
@given(FEDERATIONS)
def test_victims_are_few_and_allowed_and_their_claimant_starts(facts: Snapshot) -> None:
    plan = decide(facts)
    check_plan(plan)
    check_claims(plan)


@settings(max_examples=150)
@given(FEDERATIONS, st.randoms(use_true_random=False))
def test_it_is_decided_once_and_whatever_the_order_of_rows(facts: Snapshot, random: Any) -> None:
    plan = decide(facts)
    mixed = replace(
        facts,
        holdings=tuple(random.sample(facts.holdings, len(facts.holdings))),
        jobs=tuple(random.sample(facts.jobs, len(facts.jobs))),
        uses=tuple(random.sample(facts.uses, len(facts.uses))),
    )
    other = decide(mixed)
    assert (plan.claims, plan.bindings, plan.reasons) == (
        other.claims,
        other.bindings,
        other.reasons,
    )
    after = then(facts, plan)
    again = decide(after)
    assert (again.claims, again.released, again.bindings) == ((), (), ())
    started = {b.job: b for b in decide(emptied(after)).bindings}
    lineages = {t.id: t.lineage for t in facts.tenants}
    uses = [h.use for h in after.holdings if not h.goes]
    quotas = Cohort(facts.quotas, lineages, uses)
    for claim in plan.claims:
        b, wanted = started[claim.binding.job], claim.binding.service_class
        if (b.nodes, b.service_class) != (claim.binding.nodes, wanted):
            assert (wanted, b.service_class) == (SPOT, GUARANTEED)  # even better
        assert quotas.headroom(b.tenant, b.flavor, b.cluster, b.service_class).holds(b.shape.gpus)
        quotas.take(Use(b.tenant, b.flavor, b.cluster, b.service_class, b.shape.gpus))


@settings(max_examples=150)
@given(FEDERATIONS, st.sampled_from(PATHS))
def test_what_is_owed_to_a_job_is_not_given_to_one_behind_it(facts: Snapshot, path: str) -> None:
    jobs = [one._replace(tenant=uid(path), wanted_class="auto") for one in facts.jobs]
    line = list(by_tenant(jobs, facts.policy, facts.now_ms)[uid(path)])
    served = _owners_served(facts, line)
    for place, one in enumerate(line):
        if one.id not in served:
            assert one.id not in _owners_served(facts, line[: place + 1])


def _owners_served(facts: Snapshot, line: Sequence[WaitingJob]) -> set[int]:
    """Those of a tenant's jobs that start inside its guarantee, or will, where only these wait."""
    plan = decide(replace(facts, jobs=tuple(line)))
    starts = [*plan.bindings, *(claim.binding for claim in plan.claims)]
    return {one.job for one in starts if one.service_class == GUARANTEED}


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_owners_start_within_the_grace_and_no_two_evict_each_other_in_turn(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - examples, no secrets
    come: dict[int, list[WaitingJob]] = {}
    for number in range(1, 16):
        moment = random.randint(0, 20)
        one = job(
            number,
            random.choice(["1x4", "1x8", "2x8"]),
            tenant=random.choice(PATHS),
            wanted=random.choice(CLASSES),
            priority=random.choice(PRIORITIES),
        )
        one = one._replace(queued_ms=NOW_MS + moment * TICK_MS)
        come.setdefault(moment, []).append(one)
    fleet = [cluster("c1", {"h100": [node(f"n{i}", f"l{i // 2}") for i in range(4)]})]
    facts = snapshot([], fleet, tenants=tenants(*PATHS), quotas=_quotas(random))
    house = House(facts, {number: random.randint(1, 60) * TICK_MS for number in range(1, 16)})
    for moment in range(45):
        house.tick(come.get(moment, ()))

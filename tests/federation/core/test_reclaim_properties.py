"""Reclaim on small random federations, against oracles by force; and as time goes by."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.core.resources import left_of
from clusters.core.topology import NodeRoom
from federation.core.cycle import decide
from federation.core.plan import Claim
from federation.core.reclaim import is_spared
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
)
from tests.federation.core.house import TICK_MS, House

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


def _claimant(claim: Claim) -> Holding:
    """The gang that a claim is for, as if it ran."""
    b = claim.binding
    names = " ".join(b.nodes)
    one = holding(b.job, names, on=b.cluster_name, service_class=b.service_class)
    return replace(one, tenant=b.tenant, shape=b.shape, is_lost=True)  # nobody evicts it


def _starts(
    facts: Snapshot, stay: Iterable[Holding], waiting: WaitingJob, service_class: str
) -> bool:
    """Whether the job, alone, would be bound in the class when only these are there."""
    alone = held(replace(facts, jobs=(waiting,), reservations=()), stay)
    return any(b.service_class == service_class for b in decide(alone).bindings)


def _owed(facts: Snapshot, stay: Iterable[Holding]) -> dict[UUID, int]:
    """By tenant the lowest priority of jobs that wait inside its guarantee when these stay."""
    stay = list(stay)
    lineages = {t.id: t.lineage for t in facts.tenants}
    quotas = Cohort(facts.quotas, lineages, [h.use for h in stay])
    served, lowest = {h.job for h in stay}, dict[UUID, int]()
    for one in facts.jobs:
        if one.wanted_class == SPOT or one.id in served:
            continue
        gpus, places = (
            one.ask.options[0].shape.gpus,
            [c for c in facts.clusters if one.ask.allows(c.name)],
        )
        headrooms = [quotas.headroom(one.tenant, "h100", c.id, GUARANTEED) for c in places]
        if any(headroom.holds(gpus) for headroom in headrooms):
            lowest[one.tenant] = min(one.priority, lowest.get(one.tenant, one.priority))
    return lowest


def _may_be_evicted(
    facts: Snapshot,
    held: Holding,
    waiting: WaitingJob,
    service_class: str,
    owed: Mapping[UUID, int],
) -> bool:
    """The rule by its words."""
    is_own = held.tenant == waiting.tenant
    if held.leaves or held.is_lost:
        return False
    is_new = held.started_ms is None and held.since_ms + facts.policy.min_run_ms > facts.now_ms
    is_safe = is_new or is_spared(held, facts.policy, facts.now_ms)
    is_outranked = is_own and held.priority < waiting.priority and not is_safe
    if service_class == SPOT:
        shields = held.wanted_class == "auto" and held.priority > owed.get(held.tenant, 1000)
        may_turn = waiting.wanted_class == SPOT and held.wanted_class == "auto"
        return held.service_class == SPOT and is_outranked and not shields and not may_turn
    if held.service_class == SPOT:
        is_ahead = held.wanted_class == "auto" and held.priority > waiting.priority
        return not (is_own and is_ahead)
    return is_outranked


@settings(max_examples=250)
@given(FEDERATIONS)
def test_victims_are_few_and_allowed_and_their_claimant_starts(facts: Snapshot) -> None:
    plan = decide(facts)
    jobs = {one.id: one for one in facts.jobs}
    after = then(facts, plan)
    now = [h for h in after.holdings if h.since_ms == NOW_MS and h.job in jobs]  # bound just now
    free = [b.job for b in plan.bindings if b.service_class == GUARANTEED]
    stay = [h for h in facts.holdings if not h.goes] + [h for h in now if h.job in free]
    gone: set[int] = set()
    owed: dict[UUID, int] = {}
    spot = [claim for claim in plan.claims if claim.binding.service_class == SPOT]
    assert tuple(plan.claims[len(plan.claims) - len(spot) :]) == tuple(spot)  # owners come first
    for claim in (*plan.claims, None):
        if claim is (spot[0] if spot else None):
            _nobody_waits_for_more(facts, stay, GUARANTEED, {})
            stay += [h for h in now if h.job not in free]
            owed = _owed(facts, stay)
        if claim is None:
            break
        service_class = claim.binding.service_class
        waiting, victims = jobs[claim.binding.job], {held.job for held in claim.victims}
        assert all(
            _may_be_evicted(facts, held, waiting, service_class, owed) for held in claim.victims
        )
        assert victims.isdisjoint(gone)
        gone |= victims
        without = [h for h in stay if h.job not in victims]
        assert _starts(facts, without, waiting, service_class)
        for spared in claim.victims:
            assert not _starts(facts, [*without, spared], waiting, service_class)
        stay = [*without, _claimant(claim)]
    _within_totals(facts, stay)
    _nobody_waits_for_more(facts, stay, SPOT, owed)


def _nobody_waits_for_more(
    facts: Snapshot, stay: list[Holding], service_class: str, owed: Mapping[UUID, int]
) -> None:
    """Nobody waits whom more evictions would help; as spot, whom evictions at all would."""
    for waiting in facts.jobs:
        if waiting.wanted_class in (service_class, "auto") and waiting.id not in {
            h.job for h in stay
        }:
            hard = [h for h in stay if not _may_be_evicted(facts, h, waiting, service_class, owed)]
            helps = _starts(facts, hard, waiting, service_class)
            assert not helps or (service_class == SPOT and _starts(facts, stay, waiting, SPOT))


def _within_totals(facts: Snapshot, stay: Iterable[Holding]) -> None:
    gpus: Counter[tuple[Any, str]] = Counter()
    for one in stay:
        for name in one.nodes:
            gpus[one.cluster, name] += one.shape.per_node.gpus
    for c in facts.clusters:
        for n in c.flavors[0].nodes:
            assert gpus[c.id, n.name] + n.foreign.gpus <= n.total.gpus


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
        one = replace(one, queued_ms=NOW_MS + moment * TICK_MS)
        come.setdefault(moment, []).append(one)
    fleet = [cluster("c1", {"h100": [node(f"n{i}", f"l{i // 2}") for i in range(4)]})]
    facts = snapshot([], fleet, tenants=tenants(*PATHS), quotas=_quotas(random))
    house = House(facts, {number: random.randint(1, 60) * TICK_MS for number in range(1, 16)})
    for moment in range(45):
        house.tick(come.get(moment, ()))

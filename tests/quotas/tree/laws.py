"""What must hold of a tree of tenants at every moment and of every cycle's plan, by the words.

All of it reads the core's own values, so that the same laws hold a federation in memory and one in
the database to account (DESIGN section 4, invariants 1 to 6, 8). One flavor.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from uuid import UUID

from clusters.core.domains import shared_tier
from clusters.core.topology import RANK
from federation.core.cycle import decide
from federation.core.plan import Binding, Plan
from federation.core.snapshot import Reservation, Snapshot, WaitingJob
from quotas.core.borrowing import attribute
from quotas.core.cohort import GUARANTEED, SPOT, Cohort, Use
from quotas.core.tree import misfits
from tests.federation.core.build import then
from tests.quotas.definition import allows, kept_from

Lineages = Mapping[UUID, tuple[UUID, ...]]


def lineages_of(facts: Snapshot) -> Lineages:
    """From the root to itself, by tenant."""
    return {tenant.id: tenant.lineage for tenant in facts.tenants}


# at every moment


def check_moment(facts: Snapshot) -> None:
    """Sums conserve at every node, children fit in their parents, nothing is there twice."""
    _parts_sum_to_wholes(facts)
    assert not misfits(facts.quotas, lineages_of(facts))
    jobs = Counter(one.job for one in facts.holdings)
    assert set(jobs.values()) <= {1}, "a job holds GPUs twice"
    assert jobs.keys().isdisjoint(job.id for job in facts.jobs), "who waits holds GPUs"


def _parts_sum_to_wholes(facts: Snapshot) -> None:
    """Used = guaranteed + spot = what gangs hold, at every row; what is borrowed is lent."""
    lineages = lineages_of(facts)
    held_by: Counter[tuple[UUID, str, UUID, str]] = Counter()
    for one in facts.holdings:
        held_by[one.tenant, one.flavor, one.cluster, one.service_class] += one.gpus
    used: Counter[tuple[UUID, str, UUID, str]] = Counter()
    for use in facts.uses:
        used[use.tenant, use.flavor, use.cluster, use.service_class] += use.gpus
    assert used == held_by
    cohort = Cohort(facts.quotas, lineages, facts.uses)
    for row in facts.quotas:
        for service_class in (GUARANTEED, SPOT):
            parts = [
                one.gpus
                for one in facts.holdings
                if row.tenant in lineages[one.tenant]
                and one.service_class == service_class
                and row.cluster in (None, one.cluster)
            ]
            assert cohort.used(row, service_class) == sum(parts)
    spot: Counter[UUID] = Counter()
    for use in facts.uses:
        if use.service_class == SPOT:
            spot[use.tenant] += use.gpus
    for flavor in {row.flavor for row in facts.quotas}:
        found = attribute(cohort.idle_guarantees(flavor), spot, lineages, 0)
        parts_of = [(one.own + one.borrowed + one.unowned) for one in found.borrowers.values()]
        assert sum(parts_of) == sum(spot.values())
        lent = sum(found.lent(tenant) for tenant in found.idle)
        assert lent == sum(one.borrowed for one in found.borrowers.values())


def check_nodes(facts: Snapshot) -> None:
    """Invariant 1: no node holds more than it has."""
    gpus: Counter[tuple[UUID, str]] = Counter()
    for one in facts.holdings:
        for name in one.nodes:
            gpus[one.cluster, name] += one.shape.per_node.gpus
    for cluster in facts.clusters:
        for flavor in cluster.flavors:
            for node in flavor.nodes:
                assert gpus[cluster.id, node.name] <= node.total.gpus


# of a plan


def check_plan(plan: Plan) -> None:
    """What is decided is within quota and nodes, whole, where it was asked for."""
    facts = plan.basis
    jobs = {job.id: job for job in facts.jobs}
    _whole_and_near(plan, jobs)
    _within_quota(plan)
    free = {
        (c.id, n.name): n.free.gpus if n.usable else 0
        for c in facts.clusters
        for f in c.flavors
        for n in f.nodes
    }
    for binding in plan.bindings:
        for name in binding.nodes:
            free[binding.cluster, name] -= binding.shape.per_node.gpus
            assert free[binding.cluster, name] >= 0, f"{name} is promised twice"


def _whole_and_near(plan: Plan, jobs: Mapping[int, WaitingJob]) -> None:
    """Invariants 2 and 3."""
    paths = {
        (c.id, n.name): n.path for c in plan.basis.clusters for f in c.flavors for n in f.nodes
    }
    starts: list[Binding] = [*plan.bindings, *(claim.binding for claim in plan.claims)]
    assert len({one.job for one in starts}) == len(starts), "started twice"
    for one in starts:
        assert len(set(one.nodes)) == one.shape.nodes
        tier = shared_tier([paths[one.cluster, name] for name in one.nodes])
        assert RANK[tier] <= RANK[jobs[one.job].ask.required_tier or "cluster"]


def _within_quota(plan: Plan) -> None:
    """Invariant 4: no decision raises use above quota, or takes what owners keep."""
    facts = plan.basis
    lineages, uses = lineages_of(facts), list(facts.uses)
    bound: list[Binding] = []
    for one in plan.bindings:
        ask = Use(one.tenant, one.flavor, one.cluster, one.service_class, one.shape.gpus)
        assert allows(facts.quotas, uses, lineages, ask), f"job {one.job} is above quota"
        if one.service_class == SPOT:
            to_be, idle = _to_be(plan, bound, one.job)
            kept_and_idle = kept_from(facts.quotas, to_be, lineages, ask, idle)
            assert all(kept <= 0 or kept + ask.gpus <= free for kept, free in kept_and_idle), (
                f"job {one.job} takes what an owner keeps idle"
            )
        uses.append(ask)
        bound.append(one)
    for promotion in plan.promotions:
        place = (promotion.tenant, promotion.flavor, promotion.cluster)
        ask = Use(*place, GUARANTEED, promotion.gpus)
        assert allows(facts.quotas, uses, lineages, ask), "promoted above quota"
        uses += [ask, Use(*place, SPOT, -promotion.gpus)]


def _to_be(
    plan: Plan, bound: Iterable[Binding], asking: int
) -> tuple[list[Use], dict[tuple[str, UUID], int]]:
    """Who uses and will use each GPU, once, and what is idle and kept for nobody, for a spot job.

    What nodes are kept for counts for the job that waits for them, and no more for who leaves them.
    Before the asking job those are served who take or await nodes as owners, and those as spot who
    have waited for theirs for longer.
    """
    facts = plan.basis
    tenants = {job.id: job.tenant for job in facts.jobs}
    since = {one.job: (one.claimed_ms, one.job) for one in facts.reservations}
    over = {*plan.released, *(one.job for one in plan.bindings)}
    claims = [claim for claim in plan.claims if claim.binding.service_class == GUARANTEED]
    kept: list[Binding | Reservation] = [claim.binding for claim in claims]
    kept += [
        one
        for one in facts.reservations
        if one.job not in over
        and (
            one.service_class == GUARANTEED or asking not in since or since[one.job] < since[asking]
        )
    ]
    taken: Counter[tuple[UUID, str]] = Counter()
    for one in (*bound, *kept):
        for name in one.nodes:
            taken[one.cluster, name] += one.shape.per_node.gpus
    idle = {
        (flavor.name, cluster.id): sum(
            max(node.free.gpus - taken[cluster.id, node.name], 0)
            for node in flavor.nodes
            if node.usable
        )
        for cluster in facts.clusters
        if cluster.state == "open"
        for flavor in cluster.flavors
    }
    told = {victim.attempt for claim in claims for victim in claim.victims}
    places = {(one.cluster, name) for one in kept for name in one.nodes}
    uses = [
        Use(tenants[one.job], one.flavor, one.cluster, one.service_class, one.shape.gpus)
        for one in (*bound, *kept)
    ]
    for gang in facts.holdings:
        passed = [
            name
            for name in gang.nodes
            if (gang.goes or gang.attempt in told) and (gang.cluster, name) in places
        ]
        gpus = gang.gpus - len(passed) * gang.shape.per_node.gpus
        uses.append(replace(gang.use, gpus=gpus))
    return uses, idle


def check_twice(plan: Plan, random: Random) -> None:
    """Invariant 8: the order of rows means nothing, and deciding again undoes nothing."""
    facts = plan.basis
    mixed = replace(
        facts,
        holdings=tuple(random.sample(facts.holdings, len(facts.holdings))),
        jobs=tuple(random.sample(facts.jobs, len(facts.jobs))),
        quotas=tuple(random.sample(facts.quotas, len(facts.quotas))),
        uses=tuple(random.sample(facts.uses, len(facts.uses))),
    )
    other = decide(mixed)
    assert (plan.bindings, plan.claims, plan.promotions) == (
        other.bindings,
        other.claims,
        other.promotions,
    )
    assert (plan.reasons, plan.released, plan.queue) == (
        other.reasons,
        other.released,
        other.queue,
    )
    left_for = {one.goes_for for one in facts.holdings}
    is_over = plan.released or left_for & {one.job for one in plan.bindings}
    if not is_over:  # else who was to leave stays, and that is another state
        again = decide(then(facts, plan))
        assert not again.released
        if not plan.promotions:  # else the spot that these give back may let somebody start
            assert (again.bindings, again.claims) == ((), ())

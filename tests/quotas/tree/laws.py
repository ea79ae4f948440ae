"""What must hold of a tree of tenants at every moment and of every cycle's plan, by the words.

All of it reads the core's own values, so that the same laws hold a federation in memory and one in
the database to account (DESIGN section 4, invariants 1 to 6, 8). One flavor.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from clusters.core.domains import shared_tier
from clusters.core.topology import RANK
from federation.core.cycle import decide
from federation.core.plan import Binding, Claim, Plan
from federation.core.reclaim import is_spared
from federation.core.snapshot import Holding, Reservation, Snapshot, WaitingJob
from quotas.core.borrowing import attribute
from quotas.core.cohort import GUARANTEED, SPOT, Cohort, Use
from quotas.core.tree import misfits
from tests.federation.core.build import held, then, uid
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
    if not plan.released:  # else who was to leave stays, and that is another state
        again = decide(then(facts, plan))
        assert (again.bindings, again.claims, again.released) == ((), (), ())


# of claims


def as_gang(binding: Binding | Reservation, tenant: UUID) -> Holding:
    """The gang that a claim or a reservation is for, as if it ran; nobody evicts it."""
    return Holding(
        attempt=uid(f"claimed by {binding.job}"),
        job=binding.job,
        tenant=tenant,
        priority=0,
        cluster=binding.cluster,
        flavor=binding.flavor,
        wanted_class=binding.service_class,
        service_class=binding.service_class,
        nodes=binding.nodes,
        shape=binding.shape,
        since_ms=0,
        is_lost=True,
    )


def starts(
    facts: Snapshot, stay: Iterable[Holding], waiting: WaitingJob, service_class: str
) -> bool:
    """Whether the job, alone, would be bound in the class when only these are there."""
    alone = held(replace(facts, jobs=(waiting,), reservations=()), stay)
    return any(one.service_class == service_class for one in decide(alone).bindings)


def _owed(facts: Snapshot, stay: Iterable[Holding]) -> dict[UUID, int]:
    """By tenant the lowest priority of jobs that wait inside its guarantee when these stay."""
    stay, closed = list(stay), {tenant.id for tenant in facts.tenants if not tenant.is_open}
    lineages = lineages_of(facts)
    quotas = Cohort(facts.quotas, lineages, [one.use for one in stay])
    served, lowest = {one.job for one in stay}, dict[UUID, int]()
    for job in facts.jobs:
        if job.wanted_class == SPOT or job.id in served or closed & {*lineages[job.tenant]}:
            continue
        option = job.ask.options[0]
        headrooms = [
            quotas.headroom(job.tenant, option.flavor, cluster.id, GUARANTEED)
            for cluster in facts.clusters
            if job.ask.allows(cluster.name) and cluster.state == "open"
        ]
        if any(headroom.holds(option.shape.gpus) for headroom in headrooms):
            lowest[job.tenant] = min(job.priority, lowest.get(job.tenant, job.priority))
    return lowest


@dataclass(frozen=True)
class _Stage:
    """Claims of one class, made one after the other beside those who `stay`."""

    facts: Snapshot
    service_class: str
    owed: Mapping[UUID, int] = field(default_factory=dict)

    def may_evict(self, waiting: WaitingJob, gang: Holding) -> bool:
        """The rule of DESIGN by its words."""
        facts, is_own = self.facts, gang.tenant == waiting.tenant
        if gang.leaves or gang.is_lost:
            return False
        age_ms = facts.now_ms - gang.since_ms
        is_new = gang.started_ms is None and age_ms <= facts.policy.min_run_ms
        is_safe = is_new or is_spared(gang, facts.policy, facts.now_ms)
        is_outranked = is_own and gang.priority < waiting.priority and not is_safe
        is_spot, is_auto = gang.service_class == SPOT, gang.wanted_class == "auto"
        if self.service_class == SPOT:
            shields = is_auto and gang.priority > self.owed.get(gang.tenant, gang.priority)
            may_turn = is_auto and waiting.wanted_class == SPOT
            return is_spot and is_outranked and not shields and not may_turn
        is_ahead = is_own and is_auto and gang.priority > waiting.priority
        return not is_ahead if is_spot else is_outranked

    def check(self, claim: Claim, waiting: WaitingJob, stay: Sequence[Holding]) -> list[Holding]:
        """Invariant 6 for one claim: allowed, few, and it starts then; who stays after it."""
        assert all(self.may_evict(waiting, gang) for gang in claim.victims)
        told = {gang.attempt for gang in claim.victims}
        assert told <= {gang.attempt for gang in stay}, "a victim of two"
        without = [gang for gang in stay if gang.attempt not in told]
        assert starts(self.facts, without, waiting, self.service_class)
        for spared in claim.victims:
            with_it = [*without, spared]
            assert not starts(self.facts, with_it, waiting, self.service_class), "needless victim"
        return [*without, as_gang(claim.binding, claim.binding.tenant)]

    def nobody_waits_for_more(self, stay: Sequence[Holding], excused: frozenset[int]) -> None:
        """Invariant 5: nobody waits whom more evictions would help; as spot, evictions at all."""
        served = {gang.job for gang in stay} | excused
        for waiting in self.facts.jobs:
            if waiting.id in served or waiting.wanted_class not in (self.service_class, "auto"):
                continue
            hard = [gang for gang in stay if not self.may_evict(waiting, gang)]
            helps = starts(self.facts, hard, waiting, self.service_class)
            is_spot = self.service_class == SPOT
            assert not helps or (is_spot and starts(self.facts, stay, waiting, SPOT)), (
                f"job {waiting.id} waits for those whom it may evict"
            )


def check_claims(plan: Plan) -> None:
    """Invariants 5 and 6: who is evicted for whom, by force; owners first, then as spot."""
    facts = plan.basis
    jobs = {job.id: job for job in facts.jobs}
    over = {*plan.released, *(one.job for one in plan.bindings)}
    kept = [one for one in facts.reservations if one.job not in over]
    after = then(facts, plan)
    new = {one.job for one in plan.bindings}
    # A plan does not evict what it binds.
    bound = [replace(gang, is_lost=True) for gang in after.holdings if gang.job in new]
    stay = [gang for gang in facts.holdings if not gang.goes]
    excused = frozenset(plan.released) | {
        one.job for one in facts.reservations if one.service_class == SPOT
    }
    given_up = {one.service_class for one in facts.reservations if one.job in plan.released}
    owed: dict[UUID, int] = {}
    for service_class in (GUARANTEED, SPOT):
        stay += [gang for gang in bound if gang.service_class == service_class]
        stay += [
            as_gang(one, jobs[one.job].tenant) for one in kept if one.service_class == service_class
        ]
        if service_class == SPOT:
            owed = _owed(facts, stay)
        stage = _Stage(facts, service_class, owed)
        for claim in plan.claims:
            if claim.binding.service_class == service_class:
                stay = stage.check(claim, jobs[claim.binding.job], stay)
        # Who was to go for what is given up stays: only the next cycle knows, and tells others.
        if given_up <= ({SPOT} if service_class == GUARANTEED else set()):
            stage.nobody_waits_for_more(stay, excused)
    classes = [claim.binding.service_class for claim in plan.claims]
    assert classes == sorted(classes)  # "guaranteed" before "spot"


@dataclass
class Turns:
    """No two evict each other in turn: who won nodes keeps them from whom it won them from."""

    won_from: dict[int, set[int]] = field(default_factory=dict)

    def look(self, plan: Plan) -> None:
        """The next cycle's plan, whether or not all of it comes true."""
        kept = {one.job for one in plan.basis.reservations}
        for job in plan.basis.jobs:
            if job.id not in kept:
                self.won_from.pop(job.id, None)
        for claim in plan.claims:
            for victim in claim.victims:
                won = self.won_from.get(victim.job, ())
                assert claim.binding.job not in won, "two evict each other in turn"
        for claim in plan.claims:
            self.won_from[claim.binding.job] = {victim.job for victim in claim.victims}

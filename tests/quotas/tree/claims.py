"""What must hold of claims and evictions in every cycle's plan: by force, and from plan to plan.

As `tests.quotas.tree.laws`, whatever the values come from (DESIGN section 4, invariants 5 and 6).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from federation.core.cycle import decide
from federation.core.plan import Binding, Claim, Plan
from federation.core.reclaim import is_spared
from federation.core.snapshot import Holding, Reservation, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT, Cohort, Use
from tests.federation.core.build import held, then, uid
from tests.quotas.definition import allows
from tests.quotas.tree.laws import lineages_of


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
    stay = list(stay)
    if not _might_start(facts, stay, waiting, service_class):
        return False
    alone = held(replace(facts, jobs=(waiting,), reservations=()), stay)
    return any(one.service_class == service_class for one in decide(alone).bindings)


def _might_start(
    facts: Snapshot, stay: Sequence[Holding], waiting: WaitingJob, service_class: str
) -> bool:
    """False where by the quota's words, or by counting nodes, it cannot: a cycle costs far more."""
    used: Counter[tuple[UUID, str]] = Counter()
    for gang in stay:
        for name in gang.nodes:
            used[gang.cluster, name] += gang.shape.per_node.gpus
    uses, lineages = [gang.use for gang in stay], lineages_of(facts)
    for cluster, flavor in ((c, f) for c in facts.clusters for f in c.flavors):
        for shape in (o.shape for o in waiting.ask.options if o.flavor == flavor.name):
            most = [
                node
                for node in flavor.nodes
                if node.usable
                and node.total.gpus - node.foreign.gpus - used[cluster.id, node.name]
                >= shape.per_node.gpus
            ]
            ask = Use(waiting.tenant, flavor.name, cluster.id, service_class, shape.gpus)
            if len(most) >= shape.nodes and allows(facts.quotas, uses, lineages, ask):
                return True
    return False


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
        asking = [
            job
            for job in self.facts.jobs
            if job.id not in served and job.wanted_class in (self.service_class, "auto")
        ]
        # What is true of one is true of all that differ in nothing but their age.
        for waiting in {job._replace(id=0, queued_ms=0): job for job in asking}.values():
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
    # Who was to go for a job that is bound, or waits for its nodes no longer, may stay: only the
    # next cycle knows, and tells others.
    given_up = {one.service_class for one in facts.reservations if one.job in plan.released}
    left_for = {gang.goes_for for gang in facts.holdings}
    given_up |= {one.service_class for one in plan.bindings if one.job in left_for}
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

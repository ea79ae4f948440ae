"""A federation as time goes by, on the pure core: gangs start at once, run, and go when told to.

Nothing fails here by itself. Each tick checks what holds of claims and evictions.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from federation.core.cycle import decide
from federation.core.departures import heir
from federation.core.plan import Plan
from federation.core.snapshot import Holding, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT
from tests.federation.core.build import held, then
from tests.quotas.tree.claims import Turns

TICK_MS = 30_000
GRACES_S = (0, 60, 150)


@dataclass
class House:
    """`facts` as of the last tick; `runs_ms` is how long each job runs by itself.

    `told` says for which job each victim goes and when; `claimed_ms` since when nodes are kept for an
    owner. Claims of `excused` jobs may fail, as something changed since.
    """

    facts: Snapshot
    runs_ms: dict[int, int]
    waiting: dict[int, WaitingJob] = field(default_factory=dict)
    told: dict[int, tuple[int, int]] = field(default_factory=dict)
    claimed_ms: dict[int, int] = field(default_factory=dict)
    excused: set[int] = field(default_factory=set)
    turns: Turns = field(default_factory=Turns)

    def tick(self, come: Iterable[WaitingJob] = ()) -> Plan:
        """What is over ends, jobs come, a cycle decides, all of it comes true."""
        facts, now_ms = self.facts, self.facts.now_ms + TICK_MS
        stay, back = [], []
        for one in facts.holdings:
            if one.leaves and self.told[one.job][1] <= now_ms:
                back.append(self.waiting[one.job])
                del self.told[one.job]
            elif (one.started_ms or 0) + self.runs_ms[one.job] > now_ms:
                stay.append(one)
            else:
                self.told.pop(one.job, None)
        facts = held(replace(facts, now_ms=now_ms, jobs=(*facts.jobs, *come, *back)), stay)
        self.waiting |= {one.id: one for one in facts.jobs}
        plan = decide(facts)
        self.check(plan)
        self._come_true(plan)
        return plan

    def disturb(self) -> None:
        """Something changed by which what is kept may not be used: quotas, tenants, nodes."""
        self.excused.update(one.job for one in self.facts.reservations)
        self.claimed_ms.clear()

    def check(self, plan: Plan) -> None:
        """Who claims starts in time, and no two evict each other in turn."""
        now_ms = plan.basis.now_ms
        kept = {one.job: one for one in plan.basis.reservations}
        # What is kept is used, unless an owner came.
        released = set(plan.released) - self.excused
        assert all(kept[job].service_class == SPOT for job in released)
        self.excused &= kept.keys()
        for b in plan.bindings:
            since_ms = self.claimed_ms.pop(b.job, None)
            if since_ms is not None:
                assert b.service_class == GUARANTEED
                assert now_ms <= since_ms + GRACES_S[-1] * 1000 + TICK_MS
        for since_ms in self.claimed_ms.values():
            assert now_ms <= since_ms + GRACES_S[-1] * 1000 + TICK_MS
        self.turns.look(plan)

    def _come_true(self, plan: Plan) -> None:
        now_ms = plan.basis.now_ms
        for job in plan.released:
            self.claimed_ms.pop(job, None)
        for claim in plan.claims:
            if claim.binding.service_class == GUARANTEED:
                self.claimed_ms[claim.binding.job] = now_ms
            for victim in claim.victims:
                leaves_ms = now_ms + (victim.grace_ms or 0 if victim.is_running else 0)
                self.told[victim.job] = (claim.binding.job, leaves_ms)
        after = then(plan.basis, plan)
        self.facts = held(after, (self._going_on(one, after) for one in after.holdings))

    def _going_on(self, one: Holding, after: Snapshot) -> Holding:
        """A gang after the cycle: it starts, and goes only for somebody for whom nodes are kept."""
        if one.started_ms is None:
            grace_ms = GRACES_S[one.job % 3] * 1000
            one = replace(one, is_running=True, started_ms=after.now_ms, grace_ms=grace_ms)
        if one.leaves:
            claimant, leaves_ms = self.told[one.job]
            if claimant not in {kept.job for kept in after.reservations}:
                other = heir(one.cluster, one.nodes, after.reservations)
                if other is None:
                    del self.told[one.job]
                    return replace(one, leaves=False, goes_for=None)
                self.told[one.job] = (other, leaves_ms)
                one = replace(one, goes_for=other)
        return one

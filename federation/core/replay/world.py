"""A replayed federation as it goes: what waits, what runs, who leaves when."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from uuid import UUID

from federation.core.departures import heir
from federation.core.plan import Binding, Claim, Plan, Promotion
from federation.core.replay.books import Books
from federation.core.replay.fleet import Fleet
from federation.core.replay.workload import PastJob, Setting
from federation.core.snapshot import Holding, Reservation, Snapshot, WaitingJob
from kit.intervals import DAY_MS
from quotas.core.cohort import GUARANTEED


@dataclass(slots=True)
class _Career:
    """A job from its arrival on: the work it has saved, and when it was evicted."""

    past: PastJob
    waiting: WaitingJob
    saved_ms: int = 0
    evicted_ms: tuple[int, ...] = ()
    has_started: bool = False


@dataclass(slots=True)
class _Run:
    """A running gang. It is over at `end_ms`; `evict_for` is the job that it has to go for."""

    career: _Career
    held: Holding
    class_since_ms: int
    end_ms: int
    evict_for: int | None = None
    evict_ms: int | None = None

    @property
    def leaves_ms(self) -> int:
        """When it leaves its nodes."""
        return self.end_ms if self.evict_ms is None else min(self.end_ms, self.evict_ms)

    def saved_at(self, now_ms: int) -> int | None:
        """When it saved its last checkpoint."""
        interval_ms, start_ms = self.career.past.interval_ms, self.held.since_ms
        saved = (now_ms - start_ms) // interval_ms if interval_ms else 0
        return start_ms + saved * (interval_ms or 0) if saved else None


class World:
    """Applies plans, and lets time pass. Every step is at a tick; ends may lie in between."""

    def __init__(self, setting: Setting, jobs: Iterable[PastJob]) -> None:
        """`jobs` are all that will come."""
        self._is_ranked = len({job.priority for job in jobs}) > 1
        self._setting = setting
        self._fleet = Fleet(setting.clusters)
        self.books = Books(setting.tenants, setting.prices, setting.policy.half_life_ms)
        self._waiting: dict[int, _Career] = {}
        self._runs: dict[UUID, _Run] = {}
        self._kept: dict[int, Reservation] = {}
        self._due: list[tuple[int, int, UUID | None]] = []
        self._numbers = count(1)

    @property
    def next_ms(self) -> int | None:
        """When something is next to happen by itself."""
        return self._due[0][0] if self._due else None

    @property
    def may_decide(self) -> bool:
        """Whether a cycle could change anything: somebody waits, or could be promoted."""
        return bool(self._waiting) or any(
            run.held.wanted_class == "auto" and run.held.service_class != GUARANTEED
            for run in self._runs.values()
        )

    def arrive(self, past: PastJob) -> None:
        """A job begins to wait."""
        self._waiting[past.id] = _Career(past, past.waiting)
        self.books.arrived(past.tenant)

    def pass_to(self, now_ms: int) -> None:
        """Whatever was to happen by now happens."""
        while self._due and self._due[0][0] <= now_ms:
            at_ms, _, attempt = heappop(self._due)
            run = None if attempt is None else self._runs.get(attempt)
            if run is not None and run.leaves_ms == at_ms:
                self._leave(run, at_ms)

    def snapshot(self, now_ms: int) -> Snapshot:
        """What the arbiter would see now."""
        for run in self._runs.values():
            if run.career.past.interval_ms or run.career.evicted_ms:
                run.held = self._renewed(run, now_ms)
        setting = self._setting
        return Snapshot(
            now_ms=now_ms,
            jobs=tuple(career.waiting for career in self._waiting.values()),
            clusters=self._fleet.views(),
            tenants=setting.tenants,
            quotas=setting.quotas,
            uses=self.books.uses,
            prices=setting.prices,
            spot_use=self.books.spot.at(now_ms),
            holdings=tuple(run.held for run in self._runs.values()),
            reservations=tuple(self._kept.values()),
            policy=setting.policy,
        )

    def apply(self, plan: Plan, now_ms: int) -> None:
        """Make a plan true. Who claims nodes that are all left at once starts at once."""
        for job in plan.released:
            self._kept.pop(job, None)
        for binding in plan.bindings:
            self._start(binding, now_ms)
        for promotion in plan.promotions:
            self._promote(promotion, now_ms)
        for claim in plan.claims:
            self._claim(claim, now_ms)
        self._spare()
        self.pass_to(now_ms)
        for claim in plan.claims:
            if self._is_left(claim):
                self._start(claim.binding, now_ms)

    def _is_left(self, claim: Claim) -> bool:
        """Whether its victims are gone, and whoever else is to leave its nodes."""
        if any(victim.attempt in self._runs for victim in claim.victims):
            return False
        nodes, cluster = set(claim.binding.nodes), claim.binding.cluster
        return not any(
            run.held.leaves and run.held.cluster == cluster and not nodes.isdisjoint(run.held.nodes)
            for run in self._runs.values()
        )

    def _start(self, binding: Binding, now_ms: int) -> None:
        career = self._waiting.pop(binding.job)
        self._kept.pop(binding.job, None)
        past, policy = career.past, self._setting.policy
        attempt = UUID(int=next(self._numbers))
        held = Holding(
            attempt=attempt,
            job=past.id,
            tenant=past.tenant,
            priority=past.priority,
            cluster=binding.cluster,
            flavor=binding.flavor,
            wanted_class=past.wanted_class,
            service_class=binding.service_class,
            nodes=binding.nodes,
            shape=binding.shape,
            since_ms=now_ms,
            started_ms=now_ms,
            grace_ms=past.grace_ms if past.interval_ms else None,
        )
        run = _Run(career, held, now_ms, now_ms + past.run_ms - career.saved_ms)
        run.held = self._renewed(run, now_ms)
        self._runs[attempt] = run
        self._fleet.put(held)
        self.books.open(held, now_ms)
        self._wake(run.end_ms, attempt)
        if not career.has_started:
            career.has_started = True
            self.books.waited(held, now_ms - past.arrival_ms)
        if self._is_ranked:  # from then on those who outrank it may evict it
            self._wake(now_ms + policy.min_run_ms)
            if career.evicted_ms:
                self._wake(career.evicted_ms[-1] + policy.cool_down_ms)

    def _renewed(self, run: _Run, now_ms: int) -> Holding:
        """The holding with what depends on the time."""
        within_a_day = [at_ms for at_ms in run.career.evicted_ms if at_ms > now_ms - DAY_MS]
        return replace(
            run.held,
            saved_ms=run.saved_at(now_ms),
            evictions=len(within_a_day),
            evicted_ms=max(within_a_day, default=None),
        )

    def _promote(self, promotion: Promotion, now_ms: int) -> None:
        run = self._runs[promotion.attempt]
        self.books.close(run.held, run.class_since_ms, now_ms)
        run.held, run.class_since_ms = replace(run.held, service_class=GUARANTEED), now_ms
        self.books.open(run.held, now_ms)

    def _claim(self, claim: Claim, now_ms: int) -> None:
        binding = claim.binding
        self._kept[binding.job] = Reservation(
            binding.job,
            binding.cluster,
            binding.flavor,
            binding.service_class,
            binding.nodes,
            binding.shape,
            now_ms,
            claim.deadline_ms,
        )
        self._wake(claim.deadline_ms)
        for victim in claim.victims:
            run = self._runs[victim.attempt]
            run.evict_for, run.evict_ms = binding.job, now_ms + (victim.grace_ms or 0)
            run.held = replace(run.held, leaves=True, goes_for=binding.job)
            self._wake(run.evict_ms, victim.attempt)

    def _spare(self) -> None:
        """What was told to go for a job that has no nodes kept any more stays, or has an heir."""
        kept = sorted(self._kept.values(), key=lambda one: (one.claimed_ms, one.job))
        for run in self._runs.values():
            if run.evict_for is not None and run.evict_for not in self._kept:
                run.evict_for = heir(run.held.cluster, run.held.nodes, kept)
                run.held = replace(run.held, goes_for=run.evict_for)
                if run.evict_for is not None:
                    continue
                run.evict_ms = None
                run.held = replace(run.held, leaves=False)
                self._wake(run.end_ms, run.held.attempt)

    def _leave(self, run: _Run, at_ms: int) -> None:
        """A gang ends, or is evicted and waits again at its old place."""
        held, career = run.held, run.career
        del self._runs[held.attempt]
        self._fleet.take_off(held)
        self.books.close(held, run.class_since_ms, at_ms)
        if at_ms == run.end_ms:
            self.books.finished(held)
            return
        saved_ms = run.saved_at(at_ms) or held.since_ms
        self.books.evicted(held, held.gpus * (at_ms - saved_ms))
        career.saved_ms += saved_ms - held.since_ms
        career.evicted_ms = (*career.evicted_ms, at_ms)
        before = career.waiting
        career.waiting = before._replace(
            version=before.version + 1, attempts_made=before.attempts_made + 1
        )
        self._waiting[held.job] = career

    def _wake(self, at_ms: int, attempt: UUID | None = None) -> None:
        heappush(self._due, (at_ms, next(self._numbers), attempt))


def first_tick(at_ms: int, tick_ms: int) -> int:
    """The first tick at or after a moment."""
    return -(-at_ms // tick_ms) * tick_ms


def in_order(jobs: Iterable[PastJob]) -> list[PastJob]:
    """The jobs, the last to arrive first."""
    return sorted(jobs, key=lambda job: (job.arrival_ms, job.id), reverse=True)

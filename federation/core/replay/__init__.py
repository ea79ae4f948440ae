"""Past jobs on another policy: virtual time, a fixed tick, and the same core that decides live.

Nothing but the plans of `cycle.decide` starts, evicts or promotes here. Left out: the seconds that
clusters take to start and stop gangs, failures, cancellations, foreign load.
"""

from collections.abc import Callable, Iterable

from federation.core.cycle import decide
from federation.core.plan import Plan
from federation.core.replay.books import Outcome, TenantOutcome, Waits
from federation.core.replay.workload import SOMEBODY, PastJob, Setting
from federation.core.replay.world import World, first_tick, in_order

__all__ = ["SOMEBODY", "Outcome", "PastJob", "Setting", "TenantOutcome", "Waits", "replay"]

Watch = Callable[[Plan], None]


def replay(jobs: Iterable[PastJob], setting: Setting, *, watch: Watch | None = None) -> Outcome:
    """What would have come of the jobs.

    It ends when nothing can happen any more; then jobs may still wait which can never start.
    `watch` sees every plan. Ticks at which nothing can change are left out.
    """
    coming = in_order(jobs)
    began_ms = coming[-1].arrival_ms if coming else 0
    world, now_ms, cycles = World(setting, coming), began_ms, 0
    while coming or world.next_ms is not None:
        due = [coming[-1].arrival_ms] if coming else []
        if world.next_ms is not None:
            due.append(world.next_ms)
        now_ms = first_tick(min(due), setting.tick_ms)
        world.pass_to(now_ms)
        while coming and coming[-1].arrival_ms <= now_ms:
            world.arrive(coming.pop())
        if world.may_decide:
            plan = decide(world.snapshot(now_ms))
            cycles += 1
            if watch is not None:
                watch(plan)
            world.apply(plan, now_ms)
    weights = {row.tenant: row.weight for row in setting.quotas if row.cluster is None}
    return world.books.outcome(weights, span_ms=now_ms - began_ms, cycles=cycles)

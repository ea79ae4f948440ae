"""What other quotas or limits would change, by the same core on what is there now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from federation.core.cycle import decide
from federation.core.plan import Plan
from federation.core.snapshot import Snapshot
from federation.models import Job
from federation.selectors.limited import limited_by
from federation.selectors.snapshot import take_snapshot
from kit.intervals import to_ms
from quotas.core.cohort import QuotaRow
from quotas.core.grants import rows_at
from quotas.core.limits import LimitRow
from quotas.selectors import grants_from


@dataclass(frozen=True, slots=True)
class Effect:
    """What a next cycle would do with other quotas or limits, and would not do without (job ids of rows).

    `started` and `claimed` are by class. `claimed` would have gangs go, and start on their nodes;
    `reclaimed` are these gangs. `held_back` would start as things are, and then not.
    """

    started: Mapping[int, str]
    promoted: Sequence[int]
    claimed: Mapping[int, str]
    reclaimed: Sequence[int]
    held_back: Sequence[int]
    jobs: Mapping[int, Mapping[str, Any]]


def effect_of(rows: tuple[QuotaRow, ...], now: datetime) -> Effect:
    """Decides twice on one snapshot: with the quotas as they are, and with these (as set)."""
    snapshot = take_snapshot(now)
    held = rows_at(rows, grants_from(now), to_ms(now))
    return _difference(snapshot, replace(snapshot, quotas=held))


def effect_of_limits(rows: tuple[LimitRow, ...], now: datetime) -> Effect:
    """The same with these limits instead of those that are set."""
    snapshot = take_snapshot(now)
    return _difference(snapshot, replace(snapshot, limited=limited_by(rows, snapshot.holdings)))


def _difference(snapshot: Snapshot, changed: Snapshot) -> Effect:
    before, after = decide(snapshot), decide(changed)
    classes_before, classes_after = _classes(before), _classes(after)
    started = {job: name for job, name in classes_after.items() if classes_before.get(job) != name}
    held_back = [job for job in classes_before if job not in classes_after]
    promoted = _only_after(
        [one.job for one in before.promotions], [one.job for one in after.promotions]
    )
    known = {one.binding.job for one in before.claims}
    claimed = {
        one.binding.job: one.binding.service_class
        for one in after.claims
        if one.binding.job not in known
    }
    reclaimed = _only_after(_victims(before), _victims(after))
    named = {*started, *held_back, *promoted, *claimed, *reclaimed}
    jobs = {
        row["id"]: row
        for row in Job.objects.filter(id__in=named).values("id", "uuid", "name", "tenant__path")
    }
    return Effect(started, promoted, claimed, reclaimed, held_back, jobs)


def _only_after(before: Sequence[int], after: Sequence[int]) -> list[int]:
    known = set(before)
    return [job for job in after if job not in known]


def _victims(plan: Plan) -> list[int]:
    return [held.job for claim in plan.claims for held in claim.victims]


def _classes(plan: Plan) -> dict[int, str]:
    return {binding.job: binding.service_class for binding in plan.bindings}

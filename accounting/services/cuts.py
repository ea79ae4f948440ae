"""Cuts of usage while it lasts: what comes after the moment is another interval of the same run."""

from collections.abc import Mapping, Sequence
from copy import copy
from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounting.core.runs import interval_id
from accounting.models import UsageInterval
from accounting.selectors.costs import UNPOSTED
from kit.intervals import from_ms


@transaction.atomic
def keep_lineages(*, lineages: Mapping[UUID, Sequence[UUID]], at_ms: int, now: datetime) -> None:
    """Has what tenants used until `at_ms` (our clock) keep the tenants that are above them now.

    For a move of the tenants in the tree: an open interval is cut there, as by `change_class`, and
    what is not posted yet is rated by the lineages given; what comes after, by those to come.
    """
    unposted = (
        UsageInterval.objects.select_for_update()
        .filter(UNPOSTED, tenant__in=lineages, lineage=None)
        .order_by("id")
    )
    kept, after = [], []
    for interval in unposted:
        if interval.ended_ms is None:
            cut_ms = cut_at(interval, at_ms)
            if cut_ms == interval.started_ms:
                continue  # nothing is used yet
            after.append(after_cut(interval, cut_ms, interval.service_class, from_ms(at_ms)))
            interval.ended_ms, interval.ended_at = cut_ms, now
        interval.lineage = list(lineages[interval.tenant_id])
        kept.append(interval)
    UsageInterval.objects.bulk_update(kept, ["ended_ms", "ended_at", "lineage"], batch_size=1000)
    UsageInterval.objects.bulk_create(after)


def cut_at(interval: UsageInterval, at_ms: int) -> int:
    """Our moment on the cluster's clock, in the run and behind what is posted of it."""
    return max(at_ms + interval.skew_ms, interval.started_ms, interval.metered_ms)


def after_cut(
    interval: UsageInterval, cut_ms: int, service_class: str, moment: datetime
) -> UsageInterval:
    """What goes on after the cut, in the class given."""
    rest = copy(interval)
    rest._state = copy(interval._state)
    rest.id = interval_id(interval.attempt_id, interval.run_start_ms, cut_ms)
    rest.service_class, rest.price_missing = service_class, False
    rest.started_ms = rest.metered_ms = cut_ms
    rest.started_at = moment
    return rest

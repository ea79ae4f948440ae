"""What jobs and tenants used and what it cost, live: the ledger plus what is not posted yet."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from uuid import UUID

from django.db.models import F, Q, QuerySet, Sum

from accounting.core.costs import IntervalCost, JobCost, UsageSum, unposted, worst_case
from accounting.core.metering import Usage
from accounting.core.rating import PriceBook
from accounting.models import UsageInterval, UsageRecord
from accounting.selectors.prices import DEFAULT_CURRENCY, whole_book
from kit.intervals import DAY_MS, to_ms

# Not wholly in the ledger: open, or closed and not metered to its end.
UNPOSTED = Q(ended_ms=None) | Q(metered_ms__lt=F("ended_ms"))
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def usage_of(interval: UsageInterval, until_ms: int) -> Usage:
    """The interval up to `until_ms` as the core sees it; its tenant is to be at hand."""
    return Usage(
        flavor=interval.flavor_id,
        service_class=interval.service_class,
        gpus=interval.gpus,
        start_ms=interval.started_ms,
        end_ms=until_ms,
        cluster=interval.cluster_id,
        lineage=tuple(interval.lineage or interval.tenant.lineage),
        skew_ms=interval.skew_ms,
    )


def job_costs(
    *,
    job_ids: Collection[UUID],
    now: datetime,
    ahead: Mapping[UUID, Sequence[Usage]] | None = None,
) -> dict[UUID, JobCost]:
    """The cost so far of each job (public ids), at `now` for what runs. Three queries.

    A job that used nothing has an empty cost. `ahead` says, for jobs whose worst case is wanted,
    what each may still use: the rest of its time limit where it runs, or its whole time limit on
    each thing it could start on; the dearest counts.
    """
    book = whole_book()
    rows = (
        UsageInterval.objects.filter(job_id__in=job_ids)
        .select_related("tenant", "cluster")
        .order_by("started_ms", "id")
    )
    posted = dict(
        UsageRecord.objects.filter(interval__job_id__in=job_ids)
        .order_by()
        .values("interval_id")
        .annotate(posted=Sum("amount_nano"))
        .values_list("interval_id", "posted")
    )
    parts: dict[UUID, list[IntervalCost]] = {job_id: [] for job_id in job_ids}
    for row in rows:
        part = _interval_cost(row, int(posted.get(row.pk) or 0), book, to_ms(now))
        if part.is_open or part.until_ms > part.start_ms:
            parts[row.job_id].append(part)
    currency = book.currency or DEFAULT_CURRENCY
    costs = {job_id: JobCost(currency, tuple(found)) for job_id, found in parts.items()}
    for job_id, usages in (ahead or {}).items():
        to_come = worst_case(usages, book)
        if to_come is not None:
            worst_nano = costs[job_id].amount_nano + to_come
            costs[job_id] = replace(costs[job_id], worst_case_nano=worst_nano)
    return costs


def _interval_cost(
    row: UsageInterval, posted_nano: int, book: PriceBook, now_ms: int
) -> IntervalCost:
    until_ms = _until(row, now_ms)
    pieces = unposted(usage_of(row, until_ms), row.metered_ms, book)
    return IntervalCost(
        attempt_id=row.attempt_id,
        flavor=row.flavor_id,
        cluster=row.cluster.name,
        service_class=row.service_class,
        gpus=row.gpus,
        start_ms=row.started_ms,
        until_ms=until_ms,
        is_open=row.ended_ms is None,
        posted_nano=posted_nano,
        unposted_nano=sum(piece.amount_nano or 0 for piece in pieces),
        unpriced_gpu_ms=sum(piece.gpu_ms for piece in pieces if piece.amount_nano is None),
    )


def _until(row: UsageInterval, now_ms: int) -> int:
    """The interval's end; for an open one, now on its cluster's clock."""
    if row.ended_ms is not None:
        return row.ended_ms
    return max(now_ms + row.skew_ms, row.metered_ms)


def tenant_usage(
    *, tenant_id: UUID, first_day: date, end_day: date, now: datetime
) -> list[UsageSum]:
    """Usage of a tenant and all below it over the UTC days [first_day, end_day).

    By tenant, day, class, flavor and cluster, ordered so; the ledger and what is not posted yet
    together, so that the sums equal those of the jobs to the last nano-unit. Three queries.
    """
    first, end = first_day.toordinal() - _EPOCH_DAY, end_day.toordinal() - _EPOCH_DAY
    sums: dict[tuple[UUID, int, str, str, UUID], UsageSum] = {}
    for posted in _posted_sums(tenant_id, first, end):
        _add(sums, posted)
    for live in _live_sums(tenant_id, to_ms(now)):
        if first <= live.day < end:
            _add(sums, live)
    return [sums[key] for key in sorted(sums)]


def _add(sums: dict[tuple[UUID, int, str, str, UUID], UsageSum], one: UsageSum) -> None:
    key = (one.tenant_id, one.day, one.service_class, one.flavor, one.cluster_id)
    other = sums.get(key)
    sums[key] = (
        one
        if other is None
        else UsageSum(
            *key,
            gpu_ms=one.gpu_ms + other.gpu_ms,
            amount_nano=one.amount_nano + other.amount_nano,
            unpriced_gpu_ms=one.unpriced_gpu_ms + other.unpriced_gpu_ms,
        )
    )


def _posted_sums(tenant_id: UUID, first: int, end: int) -> Iterable[UsageSum]:
    """The ledger's sums. A record never reaches over a day's end, so its start tells its day."""
    rows = (
        UsageRecord.objects.filter(
            interval__tenant__lineage__contains=[tenant_id],
            start_ms__gte=first * DAY_MS,
            start_ms__lt=end * DAY_MS,
        )
        .order_by()
        .annotate(day=F("start_ms") / DAY_MS)
        .values_list(
            "interval__tenant_id",
            "day",
            "service_class",
            "interval__flavor_id",
            "interval__cluster_id",
        )
        .annotate(used=Sum("gpu_ms"), billed=Sum("amount_nano"))
    )
    for tenant, day, service_class, flavor, cluster, used, billed in rows:
        yield UsageSum(tenant, day, service_class, flavor, cluster, int(used), int(billed))


def _live_sums(tenant_id: UUID, now_ms: int) -> Iterable[UsageSum]:
    """What is not posted yet, piece by piece."""
    rows: QuerySet[UsageInterval] = UsageInterval.objects.filter(
        UNPOSTED, tenant__lineage__contains=[tenant_id]
    ).select_related("tenant")
    book = whole_book()
    for row in rows:
        for piece in unposted(usage_of(row, _until(row, now_ms)), row.metered_ms, book):
            yield UsageSum(
                row.tenant_id,
                piece.day,
                row.service_class,
                row.flavor_id,
                row.cluster_id,
                gpu_ms=piece.gpu_ms,
                amount_nano=piece.amount_nano or 0,
                unpriced_gpu_ms=piece.gpu_ms if piece.amount_nano is None else 0,
            )

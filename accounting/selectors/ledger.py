"""Reads of the ledger: its rows, whether it is whole, and what waits to be posted."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from django.db.models import Count, F, Min, Q, Sum

from accounting.core.posting import Batch as SealedBatch
from accounting.core.posting import LedgerFault, revenue_account, tenant_account, verify
from accounting.models import Adjustment, Batch, Transfer, UsageInterval, UsageRecord
from accounting.selectors.costs import UNPOSTED
from kit.intervals import to_ms
from tenancy.models import Tenant, User
from tenancy.selectors.access import visible_tenant_ids

CHUNK = 2000


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is not in the ledger: counts, and the age of the oldest ended usage that waits.

    `open` runs now; `unposted` ended and waits for the poster; `price_missing` waits for a price;
    `corrections_due` was posted beyond the end that was reported later.
    """

    open: int
    unposted: int
    price_missing: int
    corrections_due: int
    lag: timedelta


def backlog(*, now: datetime) -> Backlog:
    """What waits, for metrics. One query."""
    waits = Q(metered_ms__lt=F("ended_ms"), price_missing=False)
    overposted = Q(ended_ms__gt=F("reported_end_ms"), metered_ms__gt=F("started_ms"))
    found = UsageInterval.objects.filter(UNPOSTED | overposted).aggregate(
        open=Count("id", filter=Q(ended_ms=None)),
        unposted=Count("id", filter=waits),
        missing=Count("id", filter=Q(price_missing=True)),
        due=Count("id", filter=overposted),
        oldest=Min("ended_at", filter=waits),
    )
    lag = timedelta() if found["oldest"] is None else max(timedelta(), now - found["oldest"])
    return Backlog(found["open"], found["unposted"], found["missing"], found["due"], lag)


def unsettled_jobs(jobs: Iterable[UUID]) -> set[UUID]:
    """Those of the jobs (public ids) with usage that runs, is not posted, or awaits a correction."""
    waits = UNPOSTED | Q(ended_ms__gt=F("reported_end_ms"))
    return set(
        UsageInterval.objects.filter(waits, job_id__in=jobs).values_list("job_id", flat=True)
    )


def transfer_page(
    user: User,
    *,
    under: Sequence[str],
    jobs: Sequence[UUID],
    after: tuple[int, UUID] | None,
    limit: int,
) -> list[Transfer]:
    """At most `limit` + 1 transfers of tenants the user may see, newest batch first.

    `under` are paths of tenants, each with all below it; `jobs` public ids; empty = all. `after` is
    the (batch, id) of the last one seen.
    """
    rows = Transfer.objects.select_related(
        "batch",
        "record__interval__tenant",
        "record__interval__cluster",
        "adjustment__tenant",
        "adjustment__cluster",
    )
    visible = visible_tenant_ids(user)
    if visible is not None:
        rows = rows.filter(_either("tenant__in", visible))
    if under:
        tops = Tenant.objects.filter(path__in=under).values_list("id", flat=True)
        rows = rows.filter(_either("tenant__lineage__overlap", list(tops)))
    if jobs:
        rows = rows.filter(_either("job_id__in", jobs))
    if after is not None:
        seq, transfer_id = after
        rows = rows.filter(Q(batch__lt=seq) | Q(batch=seq, id__gt=transfer_id))
    return list(rows.order_by("-batch_id", "id")[: limit + 1])


def _either(lookup: str, value: object) -> Q:
    """A condition on whatever the transfer is for: usage, or an adjustment."""
    return Q(**{f"record__interval__{lookup}": value}) | Q(**{f"adjustment__{lookup}": value})


def adjustment_page(
    user: User, *, under: Sequence[str], after: tuple[datetime, UUID] | None, limit: int
) -> list[Adjustment]:
    """At most `limit` + 1 adjustments of tenants the user may see, newest first.

    `under` are paths of tenants, each with all below it; `after` is (when, id) of the last seen.
    """
    rows = Adjustment.objects.select_related("tenant", "cluster", "actor").prefetch_related(
        "transfers"
    )
    visible = visible_tenant_ids(user)
    if visible is not None:
        rows = rows.filter(tenant__in=visible)
    if under:
        tops = Tenant.objects.filter(path__in=under).values_list("id", flat=True)
        rows = rows.filter(tenant__lineage__overlap=list(tops))
    if after is not None:
        at, adjustment_id = after
        rows = rows.filter(Q(at__lt=at) | Q(at=at, id__gt=adjustment_id))
    return list(rows.order_by("-at", "id")[: limit + 1])


def verify_ledger() -> LedgerFault | None:
    """The ledger's first fault, or None: records without transfer, counts, totals, then the chain.

    Reads the whole ledger in one pass, a chunk at a time. That the newest batches are there at all
    only an anchor kept elsewhere can tell (the last batch's `seq` and `hash`).
    """
    for kind, without in (
        ("usage record", UsageRecord.objects.filter(transfer=None)),
        ("adjustment", Adjustment.objects.filter(transfers=None)),
    ):
        orphan = without.values_list("id", flat=True).first()
        if orphan is not None:
            return LedgerFault(0, f"the {kind} {orphan} has no transfer")
    odd = (
        Batch.objects.annotate(held=Count("transfers"), sum=Sum("transfers__amount_nano"))
        .exclude(held=F("rows"), sum=F("total_nano"))
        .order_by("seq")
        .first()
    )
    if odd is not None:
        return LedgerFault(odd.seq, "its rows do not add up to the count and total it states")
    return verify(_sealed_batches())


def odd_rows(seq: int) -> list[UUID]:
    """Transfers of a batch that are not what their usage record says, by id.

    A fault of the chain tells the batch. Which row was changed shows where two tables differ.
    """
    rows = Transfer.objects.filter(batch=seq, record__isnull=False).order_by("id")
    return [row.id for row in rows.select_related("record__interval") if not _is_as_recorded(row)]


def _is_as_recorded(row: Transfer) -> bool:
    record = row.record
    assert record is not None  # noqa: S101 - asked for
    interval = record.interval
    return (row.debit, row.credit, row.amount_nano, row.currency) == (
        tenant_account(interval.tenant_id),
        revenue_account(interval.cluster_id, record.service_class),
        record.amount_nano,
        record.currency,
    )


def last_seal() -> tuple[int, str] | None:
    """Number and hash of the newest batch: kept elsewhere, it shows a cut at the ledger's end."""
    return Batch.objects.order_by("-seq").values_list("seq", "hash").first()


def _sealed_batches() -> Iterator[SealedBatch]:
    """Every batch with its postings, in order."""
    rows = (
        Transfer.objects.select_related("batch", "record", "adjustment")
        .order_by("batch_id", "id")
        .iterator(chunk_size=CHUNK)
    )
    for batch, transfers in groupby(rows, key=lambda row: row.batch):
        yield SealedBatch(
            seq=batch.seq,
            at_ms=to_ms(batch.at),
            previous_hash=batch.previous_hash,
            hash=batch.hash,
            postings=tuple(transfer.posting for transfer in transfers),
        )

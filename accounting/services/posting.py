"""Metering, rating and posting: from intervals to sealed batches of transfers."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, Q

from accounting.core.posting import (
    GENESIS,
    Posting,
    record_id,
    revenue_account,
    seal,
    tenant_account,
)
from accounting.core.rating import PriceBook, RatedPiece, rate
from accounting.models import Batch, Transfer, UsageInterval, UsageRecord
from accounting.selectors.costs import UNPOSTED, usage_of
from accounting.selectors.prices import whole_book
from accounting.services.locks import try_poster_lock
from kit.intervals import to_ms

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Posted:
    """What one call did. `intervals` is how many it looked at: none means that nothing is due.

    `is_busy`: another poster holds the lock, and nothing was looked at.
    """

    intervals: int = 0
    records: int = 0
    unpriced: int = 0
    amount_nano: int = 0
    batch: int | None = None
    is_busy: bool = False


@dataclass(slots=True)
class _Work:
    """What is to be written: rows of the batch, and how far each interval is metered."""

    records: list[UsageRecord] = field(default_factory=list)
    postings: list[Posting] = field(default_factory=list)
    metered_ms: dict[UUID, int] = field(default_factory=dict)
    unpriced: list[UUID] = field(default_factory=list)


@transaction.atomic
def meter_and_post(*, now: datetime, limit: int = 1000) -> Posted:
    """Meters, rates and posts at most `limit` intervals in one batch, or nothing at all.

    Runs whose end was reported are metered to it, others to the last midnight that they were seen
    to last beyond: also what a change of class closed, as the run may have ended before, unseen.
    Usage that no price covers is set aside until prices change, counted, never billed at zero; what
    is priced before the gap is posted. A crash leaves nothing behind: all is one transaction, and
    ids are made of the facts. A constant number of statements, whatever the number of intervals.
    """
    if not try_poster_lock():
        return Posted(is_busy=True)
    due = _due(limit)
    if not due:
        return Posted()
    work = _rate_all(due, whole_book())
    _mark(work)
    if not work.postings:
        return Posted(intervals=len(due), unpriced=len(work.unpriced))
    batch = _write_batch(work, now)
    return Posted(
        intervals=len(due),
        records=len(work.records),
        unpriced=len(work.unpriced),
        amount_nano=int(batch.total_nano),
        batch=batch.seq,
    )


def _due(limit: int) -> Sequence[UsageInterval]:
    """Intervals with something to meter, locked; one that is being told of waits for next time."""
    is_due = Q(reported_end_ms__isnull=False) | Q(confirmed_ms__gt=F("metered_ms"))
    rows = (
        UsageInterval.objects.filter(UNPOSTED, is_due, price_missing=False)
        .select_related("tenant")
        .order_by("id")
        .select_for_update(of=("self",), skip_locked=True)
    )
    return list(rows[:limit])


def _rate_all(due: Iterable[UsageInterval], book: PriceBook) -> _Work:
    work = _Work()
    for interval in due:
        _rate_one(interval, _until_ms(interval), book, work)
    return work


def _until_ms(interval: UsageInterval) -> int:
    """Up to where an interval may be metered."""
    if interval.reported_end_ms is not None and interval.ended_ms is not None:
        return interval.ended_ms
    confirmed_ms = interval.confirmed_ms
    return confirmed_ms if interval.ended_ms is None else min(interval.ended_ms, confirmed_ms)


def _rate_one(interval: UsageInterval, until_ms: int, book: PriceBook, work: _Work) -> None:
    """Adds the rows of one interval from where it is metered to up to `until_ms` or a gap."""
    metered_ms = interval.metered_ms
    for piece in rate(usage_of(interval, until_ms), book, marks=[metered_ms]):
        if piece.end_ms <= metered_ms:
            continue
        if not isinstance(piece, RatedPiece):
            work.unpriced.append(interval.pk)
            break
        record, posting = _rows(interval, piece)
        work.records.append(record)
        work.postings.append(posting)
        metered_ms = piece.end_ms
    if metered_ms > interval.metered_ms:
        work.metered_ms[interval.pk] = metered_ms


def _rows(interval: UsageInterval, piece: RatedPiece) -> tuple[UsageRecord, Posting]:
    record = UsageRecord(
        id=record_id(interval.pk, piece.start_ms),
        interval_id=interval.pk,
        start_ms=piece.start_ms,
        end_ms=piece.end_ms,
        service_class=interval.service_class,
        gpus=interval.gpus,
        gpu_ms=piece.gpu_ms,
        price_id=piece.price.id,
        amount_nano=piece.amount_nano,
        currency=piece.price.currency,
    )
    posting = Posting(
        record_id=record.id,
        interval_id=interval.pk,
        start_ms=piece.start_ms,
        end_ms=piece.end_ms,
        service_class=interval.service_class,
        gpus=interval.gpus,
        gpu_ms=piece.gpu_ms,
        price_id=piece.price.id,
        debit=tenant_account(interval.tenant_id),
        credit=revenue_account(interval.cluster_id, interval.service_class),
        amount_nano=piece.amount_nano,
        currency=piece.price.currency,
    )
    return record, posting


def _mark(work: _Work) -> None:
    """Moves the metered mark of every posted interval, and sets unpriced ones aside."""
    if work.unpriced:
        logger.warning("%d usage intervals have no price and are set aside", len(work.unpriced))
        UsageInterval.objects.filter(id__in=work.unpriced).update(price_missing=True)
    if work.metered_ms:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE accounting_usageinterval AS kept SET metered_ms = done.until"
                " FROM unnest(%s::uuid[], %s::bigint[]) AS done(id, until)"
                " WHERE kept.id = done.id",
                [list(work.metered_ms), list(work.metered_ms.values())],
            )


def _write_batch(work: _Work, now: datetime) -> Batch:
    """Seals the batch onto the last one and writes it with its records and transfers."""
    last = Batch.objects.order_by("-seq").first()
    at_ms = to_ms(now)
    sealed = seal(
        seq=1 if last is None else last.seq + 1,
        at_ms=at_ms,
        previous_hash=GENESIS if last is None else last.hash,
        postings=work.postings,
    )
    batch = Batch.objects.create(
        seq=sealed.seq,
        at=now,
        previous_hash=sealed.previous_hash,
        hash=sealed.hash,
        rows=len(sealed.postings),
        total_nano=sum(posting.amount_nano for posting in sealed.postings),
    )
    UsageRecord.objects.bulk_create(work.records)
    Transfer.objects.bulk_create(
        [
            Transfer(
                id=posting.transfer_id,
                batch=batch,
                record_id=posting.record_id,
                debit=posting.debit,
                credit=posting.credit,
                amount_nano=posting.amount_nano,
                currency=posting.currency,
            )
            for posting in work.postings
        ]
    )
    return batch

"""What usage cost so far, posted and not yet posted, and how the API shows it.

Amounts are nano-units of the price book's one currency. Every total here is the sum of the parts
beside it; nothing is rounded on the way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from accounting.core.metering import ServiceClass, Usage, gpu_ms
from accounting.core.rating import (
    NoPrice,
    PriceBook,
    RatedPiece,
    UnpricedPiece,
    amount_nano,
    rate,
)
from kit.intervals import DAY_MS, from_ms, iso
from kit.money import gpu_time, money


@dataclass(frozen=True, slots=True)
class IntervalCost:
    """One interval up to `until_ms` (its end, or now while it is open) and what it cost.

    `unpriced_gpu_ms` is the part no price covers: used, not billed, and not part of the amount.
    """

    attempt_id: UUID
    flavor: str
    cluster: str
    service_class: str
    gpus: int
    start_ms: int
    until_ms: int
    is_open: bool
    posted_nano: int
    unposted_nano: int
    unpriced_gpu_ms: int

    @property
    def gpu_ms(self) -> int:
        """GPU-milliseconds used so far."""
        return gpu_ms(self.gpus, self.start_ms, self.until_ms)

    @property
    def amount_nano(self) -> int:
        """Posted and not yet posted together."""
        return self.posted_nano + self.unposted_nano


@dataclass(frozen=True, slots=True)
class JobCost:
    """What a job cost so far, interval by interval; all times on the clusters' clocks.

    `worst_case_nano` is what it costs at most, so far and still to come, if it runs to its time
    limit; None when it was not asked for, or nothing it could run on has a price.
    """

    currency: str
    intervals: tuple[IntervalCost, ...] = ()
    worst_case_nano: int | None = None

    @property
    def amount_nano(self) -> int:
        """The cost so far."""
        return sum(part.amount_nano for part in self.intervals)

    @property
    def posted_nano(self) -> int:
        """What of it is in the ledger."""
        return sum(part.posted_nano for part in self.intervals)

    @property
    def gpu_ms(self) -> int:
        """GPU-milliseconds so far."""
        return sum(part.gpu_ms for part in self.intervals)


@dataclass(frozen=True, slots=True)
class Unposted:
    """A piece of usage that is not in the ledger yet; `amount_nano` None where no price covers it."""

    day: int
    gpu_ms: int
    amount_nano: int | None


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Usage of one tenant on one UTC day (days since the epoch), by class, flavor and cluster."""

    tenant_id: UUID
    day: int
    service_class: str
    flavor: str
    cluster_id: UUID
    gpu_ms: int
    amount_nano: int
    unpriced_gpu_ms: int = 0

    @property
    def date(self) -> date:
        """The day in the calendar."""
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=self.day)).date()


def unposted(usage: Usage, metered_ms: int, book: PriceBook) -> list[Unposted]:
    """The pieces of a usage after what is metered, by day, as they would be posted now."""
    pieces = rate(usage, book, marks=[metered_ms])
    return [
        Unposted(piece.start_ms // DAY_MS, piece.gpu_ms, _amount(piece))
        for piece in pieces
        if piece.start_ms >= metered_ms
    ]


def _amount(piece: RatedPiece | UnpricedPiece) -> int | None:
    return piece.amount_nano if isinstance(piece, RatedPiece) else None


def worst_case(usages: Iterable[Usage], book: PriceBook) -> int | None:
    """The dearest of what could happen, by the prices known now; None when none has a price.

    A usage with a gap in its prices cannot start, so it cannot be the worst.
    """
    costs = [_whole_cost(usage, book) for usage in usages]
    return max((cost for cost in costs if not isinstance(cost, NoPrice)), default=None)


def _whole_cost(usage: Usage, book: PriceBook) -> int | NoPrice:
    total = 0
    for stretch in book.stretches(usage):
        if isinstance(stretch.price, NoPrice):
            return stretch.price
        duration_ms = stretch.end_ms - stretch.start_ms
        total += amount_nano(stretch.price.nano_per_gpu_hour, usage.gpus, duration_ms)
    return total


def render_job_cost(cost: JobCost) -> dict[str, object]:
    """The body of `GET /jobs/{id}/costs`: intervals, totals by class, and the whole."""
    worst = cost.worst_case_nano
    return {
        "so_far": money(cost.amount_nano, cost.currency),
        "posted": money(cost.posted_nano, cost.currency),
        "unposted": money(cost.amount_nano - cost.posted_nano, cost.currency),
        "worst_case": None if worst is None else money(worst, cost.currency),
        **gpu_time(cost.gpu_ms),
        "price_missing": any(part.unpriced_gpu_ms for part in cost.intervals),
        "by_class": {
            word.value: _render_class(cost, [p for p in cost.intervals if p.service_class == word])
            for word in ServiceClass
        },
        "intervals": [_render_interval(part, cost.currency) for part in cost.intervals],
    }


def _render_class(cost: JobCost, parts: Sequence[IntervalCost]) -> dict[str, object]:
    amount = money(sum(part.amount_nano for part in parts), cost.currency)
    return {**gpu_time(sum(part.gpu_ms for part in parts)), "amount": amount}


def _render_interval(part: IntervalCost, currency: str) -> dict[str, object]:
    return {
        "attempt": str(part.attempt_id),
        "cluster": part.cluster,
        "flavor": part.flavor,
        "class": part.service_class,
        "gpus": part.gpus,
        "start": iso(from_ms(part.start_ms)),
        "end": None if part.is_open else iso(from_ms(part.until_ms)),
        **gpu_time(part.gpu_ms),
        "amount": money(part.amount_nano, currency),
        "posted": money(part.posted_nano, currency),
        "price_missing": part.unpriced_gpu_ms > 0,
    }

"""The dated price book, and what usage costs by it.

**Which price holds.** Prices are given for a flavor and a class, and optionally for a tenant (and
all below it) and a cluster. The most specific one that is in force wins, in this order:

1. the nearest tenant on the way from the billed tenant up to the root; for one tenant, its price on
   this cluster before its price on any cluster;
2. the price of this cluster for every tenant;
3. the price for every cluster and tenant.

A price is in force from `effective_ms` until the next one of exactly the same scope: [from, next).
Where none is in force there is *no price*, a value of its own: such usage is not billed, not even
at zero.

**What a piece costs.** A *stretch* is the longest part of a usage interval under one price. With
``f(t) = floor(price * gpus * t / 3_600_000)`` nano-units, the piece [a, b) of a stretch that begins
at s costs ``f(b - s) - f(a - s)``. The terms cancel between neighbours, so pieces cut anywhere
add up to the uncut stretch to the last nano-unit, and each is off its real value by less than one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from accounting.core.metering import Usage, gpu_ms, meter
from kit.intervals import HOUR_MS, cut

_Scope = tuple[str, str, UUID | None, UUID | None]


@dataclass(frozen=True, slots=True)
class PriceEntry:
    """One price: nano-units per GPU-hour from `effective_ms` (our clock) on. None = any."""

    id: int
    flavor: str
    service_class: str
    cluster: UUID | None
    tenant: UUID | None
    nano_per_gpu_hour: int
    currency: str
    effective_ms: int


@dataclass(frozen=True, slots=True)
class NoPrice:
    """No price is in force for this flavor and class at that moment (our clock)."""

    flavor: str
    service_class: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class RatedPiece:
    """A piece [start_ms, end_ms) within one UTC day and under one price, with what it costs."""

    start_ms: int
    end_ms: int
    gpu_ms: int
    price: PriceEntry
    amount_nano: int


@dataclass(frozen=True, slots=True)
class UnpricedPiece:
    """A piece [start_ms, end_ms) within one UTC day that no price covers."""

    start_ms: int
    end_ms: int
    gpu_ms: int
    price: NoPrice


@dataclass(frozen=True, slots=True)
class Stretch:
    """The longest part of a usage under one price, or under none."""

    start_ms: int
    end_ms: int
    price: PriceEntry | NoPrice


class PriceBook:
    """Every dated price, looked up without a database."""

    def __init__(self, entries: Iterable[PriceEntry] = ()) -> None:
        """Two entries of one scope and one moment are a fault of the caller."""
        self._dated: dict[_Scope, tuple[list[int], list[PriceEntry]]] = {}
        for entry in sorted(entries, key=lambda entry: entry.effective_ms):
            scope = (entry.flavor, entry.service_class, entry.cluster, entry.tenant)
            moments, dated = self._dated.setdefault(scope, ([], []))
            assert entry.effective_ms not in moments[-1:], "two prices of one scope and moment"
            moments.append(entry.effective_ms)
            dated.append(entry)

    @property
    def currency(self) -> str | None:
        """The book's one currency; None while it is empty."""
        return next((dated[0].currency for _, dated in self._dated.values()), None)

    def lookup(
        self,
        *,
        flavor: str,
        service_class: str,
        cluster: UUID | None,
        lineage: tuple[UUID, ...],
        at_ms: int,
    ) -> PriceEntry | NoPrice:
        """The price in force at `at_ms` (our clock) for the last tenant of `lineage`.

        `cluster` None asks for the price that does not depend on the cluster.
        """
        for moments, dated in self._candidates(flavor, service_class, cluster, lineage):
            position = bisect_right(moments, at_ms)
            if position:
                return dated[position - 1]
        return NoPrice(flavor, service_class, at_ms)

    def stretches(self, usage: Usage) -> list[Stretch]:
        """The usage's interval by the price in force, in order; the stretches tile it."""
        marks = [
            moment + usage.skew_ms
            for moments, _ in self._candidates(
                usage.flavor, usage.service_class, usage.cluster, usage.lineage
            )
            for moment in moments
        ]
        joined: list[Stretch] = []
        for start_ms, end_ms in cut(usage.start_ms, usage.end_ms, marks):
            price = self.lookup(
                flavor=usage.flavor,
                service_class=usage.service_class,
                cluster=usage.cluster,
                lineage=usage.lineage,
                at_ms=start_ms - usage.skew_ms,
            )
            if joined and _same(joined[-1].price, price):
                joined[-1] = Stretch(joined[-1].start_ms, end_ms, joined[-1].price)
            else:
                joined.append(Stretch(start_ms, end_ms, price))
        return joined

    def _candidates(
        self, flavor: str, service_class: str, cluster: UUID | None, lineage: tuple[UUID, ...]
    ) -> Iterator[tuple[list[int], list[PriceEntry]]]:
        """The dated prices of every scope that applies, most specific first."""
        clusters = (cluster, None) if cluster is not None else (None,)
        for tenant in (*reversed(lineage), None):
            for place in clusters:
                found = self._dated.get((flavor, service_class, place, tenant))
                if found is not None:
                    yield found


def _same(one: PriceEntry | NoPrice, other: PriceEntry | NoPrice) -> bool:
    """Whether two neighbours are under the same price, or both under none."""
    return one == other or (isinstance(one, NoPrice) and isinstance(other, NoPrice))


def amount_nano(nano_per_gpu_hour: int, gpus: int, duration_ms: int) -> int:
    """Nano-units for `gpus` GPUs over a stretch's first `duration_ms`, rounded down."""
    return nano_per_gpu_hour * gpus * duration_ms // HOUR_MS


def rate(
    usage: Usage, book: PriceBook, *, marks: Iterable[int] = ()
) -> list[RatedPiece | UnpricedPiece]:
    """The usage cut at midnights, at price changes and at `marks`, each piece with its price.

    `marks` (the cluster's clock) change where the cuts are and never what they add up to. What was
    posted before up to a moment is left out by giving that moment as a mark and skipping the
    pieces before it: amounts are counted from the stretch's start, not from the mark.
    """
    rated: list[RatedPiece | UnpricedPiece] = []
    stretches = book.stretches(usage)
    cuts = meter(usage, marks=[*marks, *(stretch.start_ms for stretch in stretches)])
    position = 0
    for start_ms, end_ms in cuts:
        while stretches[position].end_ms <= start_ms:
            position += 1
        rated.append(_rate_piece(usage.gpus, stretches[position], start_ms, end_ms))
    return rated


def _rate_piece(
    gpus: int, stretch: Stretch, start_ms: int, end_ms: int
) -> RatedPiece | UnpricedPiece:
    held = gpu_ms(gpus, start_ms, end_ms)
    if isinstance(stretch.price, NoPrice):
        return UnpricedPiece(start_ms, end_ms, held, stretch.price)
    until_end = amount_nano(stretch.price.nano_per_gpu_hour, gpus, end_ms - stretch.start_ms)
    until_start = amount_nano(stretch.price.nano_per_gpu_hour, gpus, start_ms - stretch.start_ms)
    return RatedPiece(start_ms, end_ms, held, stretch.price, until_end - until_start)

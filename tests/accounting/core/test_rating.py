"""Metering and rating: parts sum to wholes, the right price holds, a gap is never billed."""

from datetime import UTC, datetime
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.core.costs import unposted, worst_case
from accounting.core.metering import Usage, gpu_ms_by_class, meter
from accounting.core.rating import (
    NoPrice,
    PriceBook,
    PriceEntry,
    RatedPiece,
    UnpricedPiece,
    rate,
)
from kit.intervals import DAY_MS, HOUR_MS, to_ms
from tests.accounting.oracle import exact_cost

ORG, TEAM, PROJECT, OTHER = (UUID(int=n) for n in range(1, 5))
ALPHA, BETA = UUID(int=11), UUID(int=12)
USD = 10**9


def at(*parts: int) -> int:
    return to_ms(datetime(*parts, tzinfo=UTC))  # type: ignore[arg-type, misc]


def price(
    number: int,
    nano: int,
    effective_ms: int = 0,
    *,
    cluster: UUID | None = None,
    tenant: UUID | None = None,
    service_class: str = "guaranteed",
) -> PriceEntry:
    return PriceEntry(number, "h100", service_class, cluster, tenant, nano, "USD", effective_ms)


def usage(
    start_ms: int,
    end_ms: int,
    *,
    gpus: int = 8,
    skew_ms: int = 0,
    lineage: tuple[UUID, ...] = (ORG, TEAM, PROJECT),
    service_class: str = "guaranteed",
) -> Usage:
    return Usage("h100", service_class, gpus, start_ms, end_ms, ALPHA, lineage, skew_ms)


def test_an_hour_of_eight_gpus_costs_eight_times_the_price() -> None:
    (piece,) = rate(usage(0, HOUR_MS), PriceBook([price(1, 2 * USD)]))
    assert isinstance(piece, RatedPiece)
    assert (piece.amount_nano, piece.gpu_ms, piece.price.id) == (16 * USD, 8 * HOUR_MS, 1)


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        (at(2026, 1, 31, 12), at(2026, 2, 1, 12), 2),  # month's end
        (at(2028, 2, 28, 12), at(2028, 3, 1, 12), 3),  # leap day
        (at(2026, 2, 28, 12), at(2026, 3, 1, 12), 2),  # no leap day
        (
            at(2026, 3, 28, 12),
            at(2026, 3, 30, 12),
            3,
        ),  # clocks forward in Europe: UTC does not care
        (at(2026, 10, 24, 12), at(2026, 10, 26, 12), 3),  # and back
        (at(2026, 12, 31, 23, 59, 59), at(2027, 1, 1), 1),  # ends on the stroke: one day only
    ],
)
def test_days_add_up_to_the_total(start: int, end: int, days: int) -> None:
    pieces = meter(usage(start, end))
    assert len(pieces) == days
    assert pieces[0][0] == start
    assert pieces[-1][1] == end
    assert all(left[1] == right[0] for left, right in pairwise(pieces))
    assert all(a // DAY_MS == (b - 1) // DAY_MS for a, b in pieces)
    assert sum(b - a for a, b in pieces) == end - start


MOMENTS = st.integers(0, 5 * DAY_MS)
PRICES = st.integers(0, 10**11)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Usage, list[tuple[int, int]], list[int]]:
    """A usage, price changes from the epoch on (moment, nano), and cuts anywhere."""
    start_ms, end_ms = sorted((draw(MOMENTS), draw(MOMENTS)))
    moments = sorted({0, *draw(st.lists(MOMENTS, max_size=4))})
    changes = [(moment, draw(PRICES)) for moment in moments]
    marks = draw(st.lists(MOMENTS, max_size=8))
    return usage(start_ms, end_ms, gpus=draw(st.integers(1, 4096))), changes, marks


@given(cases())
def test_pieces_cut_anywhere_sum_to_the_uncut_and_to_the_oracle(
    case: tuple[Usage, list[tuple[int, int]], list[int]],
) -> None:
    used, changes, marks = case
    book = PriceBook([price(n, nano, moment) for n, (moment, nano) in enumerate(changes)])
    whole = [p for p in rate(used, book) if isinstance(p, RatedPiece)]
    cut = [p for p in rate(used, book, marks=marks) if isinstance(p, RatedPiece)]
    real, billed = exact_cost(
        gpus=used.gpus, start_ms=used.start_ms, end_ms=used.end_ms, price_changes=changes
    )
    assert sum(p.amount_nano for p in cut) == sum(p.amount_nano for p in whole) == billed
    assert 0 <= real - billed < len(changes)
    assert sum(p.gpu_ms for p in cut) == used.gpus * (used.end_ms - used.start_ms)
    assert all(p.amount_nano >= 0 for p in cut)


@given(cases(), MOMENTS)
def test_what_is_posted_and_what_is_not_make_the_whole(
    case: tuple[Usage, list[tuple[int, int]], list[int]], metered_ms: int
) -> None:
    used, changes, _ = case
    metered_ms = min(max(metered_ms, used.start_ms), used.end_ms)
    book = PriceBook([price(n, nano, moment) for n, (moment, nano) in enumerate(changes)])
    before = [p for p in rate(used, book, marks=[metered_ms]) if p.end_ms <= metered_ms]
    posted = sum(p.amount_nano for p in before if isinstance(p, RatedPiece))
    waiting = sum(p.amount_nano or 0 for p in unposted(used, metered_ms, book))
    assert posted + waiting == sum(
        p.amount_nano for p in rate(used, book) if isinstance(p, RatedPiece)
    )


@given(cases(), st.permutations(range(5)))
def test_the_order_of_prices_given_does_not_matter(
    case: tuple[Usage, list[tuple[int, int]], list[int]], order: list[int]
) -> None:
    used, changes, _ = case
    entries = [price(n, nano, moment) for n, (moment, nano) in enumerate(changes)]
    shuffled = [entries[n] for n in order if n < len(entries)]
    assert rate(used, PriceBook(entries)) == rate(used, PriceBook(shuffled))


def test_a_price_change_in_mid_run_cuts_there_and_half_open() -> None:
    book = PriceBook([price(1, 2 * USD), price(2, 3 * USD, HOUR_MS)])
    pieces = rate(usage(0, 2 * HOUR_MS), book)
    assert [(p.start_ms, p.end_ms, p.price) for p in pieces] == [
        (0, HOUR_MS, price(1, 2 * USD)),
        (HOUR_MS, 2 * HOUR_MS, price(2, 3 * USD, HOUR_MS)),
    ]


def test_a_price_change_falls_later_on_a_clock_that_is_ahead() -> None:
    book = PriceBook([price(1, 2 * USD, -HOUR_MS), price(2, 3 * USD, HOUR_MS)])
    pieces = rate(usage(0, 2 * HOUR_MS, skew_ms=5_000), book)
    assert [p.start_ms for p in pieces] == [0, HOUR_MS + 5_000]


def test_a_later_price_of_a_wider_scope_does_not_cut_under_a_narrower_one() -> None:
    book = PriceBook([price(1, USD, tenant=TEAM), price(2, 9 * USD, HOUR_MS)])
    (piece,) = rate(usage(0, 2 * HOUR_MS), book)
    assert isinstance(piece, RatedPiece)
    assert piece.price.id == 1


def test_the_most_specific_price_wins() -> None:
    ordered = [
        price(1, USD, tenant=PROJECT, cluster=ALPHA),
        price(2, USD, tenant=PROJECT),
        price(3, USD, tenant=ORG, cluster=ALPHA),
        price(4, USD, tenant=ORG),
        price(5, USD, cluster=ALPHA),
        price(6, USD),
    ]
    others = [
        price(7, USD, tenant=OTHER),
        price(8, USD, cluster=BETA),
        price(9, USD, service_class="spot"),
    ]
    for winner in range(len(ordered)):
        found = PriceBook([*reversed(ordered[winner:]), *others]).lookup(
            flavor="h100",
            service_class="guaranteed",
            cluster=ALPHA,
            lineage=(ORG, TEAM, PROJECT),
            at_ms=0,
        )
        assert found == ordered[winner]


def test_a_specific_price_that_is_not_in_force_yet_leaves_the_general_one() -> None:
    book = PriceBook([price(1, USD), price(2, 5 * USD, 100, tenant=PROJECT)])
    wanted = {
        "flavor": "h100",
        "service_class": "guaranteed",
        "cluster": ALPHA,
        "lineage": (ORG, PROJECT),
    }
    before = book.lookup(**wanted, at_ms=99)  # type: ignore[arg-type]
    since = book.lookup(**wanted, at_ms=100)  # type: ignore[arg-type]
    assert isinstance(before, PriceEntry)
    assert isinstance(since, PriceEntry)
    assert (before.id, since.id) == (1, 2)


def test_a_gap_in_prices_is_no_price_and_not_zero() -> None:
    pieces = rate(usage(0, 2 * HOUR_MS), PriceBook([price(1, USD, HOUR_MS)]))
    assert isinstance(pieces[0], UnpricedPiece)
    assert pieces[0].price == NoPrice("h100", "guaranteed", 0)
    assert isinstance(pieces[1], RatedPiece)
    assert pieces[1].amount_nano == 8 * USD


def test_a_price_of_zero_is_a_price() -> None:
    (piece,) = rate(usage(0, HOUR_MS), PriceBook([price(1, 0)]))
    assert isinstance(piece, RatedPiece)
    assert piece.amount_nano == 0


def test_the_worst_case_is_the_dearest_that_can_start() -> None:
    book = PriceBook([price(1, USD), price(2, 3 * USD, service_class="spot")])
    cheap, dear = usage(0, HOUR_MS), usage(0, HOUR_MS, service_class="spot")
    nowhere = Usage("a100", "spot", 8, 0, HOUR_MS, ALPHA, (ORG,))
    assert worst_case([cheap, dear, nowhere], book) == 24 * USD
    assert worst_case([nowhere], book) is None


def test_gpu_time_by_class() -> None:
    used = [
        usage(0, 10, gpus=3),
        usage(10, 20, gpus=3, service_class="spot"),
        usage(20, 30, gpus=1),
    ]
    assert gpu_ms_by_class(used) == {"guaranteed": 40, "spot": 30}

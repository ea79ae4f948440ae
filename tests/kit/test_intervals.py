"""Time: milliseconds and back, and intervals that tile what was cut."""

import itertools
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.intervals import DAY_MS, cut, from_ms, iso, midnights, to_ms

MOMENTS = st.integers(min_value=-(10**13), max_value=10**14)  # years 1653 to 5138


@given(MOMENTS)
def test_milliseconds_survive_the_way_there_and_back(ms: int) -> None:
    assert to_ms(from_ms(ms)) == ms


@given(
    st.datetimes(
        min_value=datetime(1900, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
        max_value=datetime(2200, 1, 1),  # noqa: DTZ001
        timezones=st.timezones(),
    )
)
def test_a_moment_is_the_same_in_every_zone_and_rounded_down(moment: datetime) -> None:
    ms = to_ms(moment)
    assert ms == to_ms(moment.astimezone(UTC))
    assert timedelta(0) <= moment.astimezone(UTC) - from_ms(ms) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, None),
        (datetime(2026, 2, 28, 23, 59, 59, 999_999, UTC), "2026-02-28T23:59:59.999Z"),
        (datetime(2024, 2, 29, tzinfo=UTC), "2024-02-29T00:00:00.000Z"),
        (
            datetime(2026, 3, 29, 3, 0, tzinfo=timezone(timedelta(hours=2))),
            "2026-03-29T01:00:00.000Z",
        ),
    ],
)
def test_the_text_is_utc_with_milliseconds(moment: datetime | None, text: str | None) -> None:
    assert iso(moment) == text


@given(MOMENTS, st.integers(0, 10**9), st.lists(st.integers(-100, 10**9 + 100)))
def test_pieces_tile_the_interval(start: int, length: int, offsets: list[int]) -> None:
    end = start + length
    pieces = list(cut(start, end, [start + offset for offset in offsets]))
    assert sum(right - left for left, right in pieces) == length
    assert all(left < right for left, right in pieces)
    if pieces:
        assert (pieces[0][0], pieces[-1][1]) == (start, end)
        assert all(a[1] == b[0] for a, b in itertools.pairwise(pieces))
        inner = {start + offset for offset in offsets if 0 < offset < length}
        assert {left for left, _ in pieces[1:]} == inner


def test_an_empty_or_backward_interval_has_no_pieces() -> None:
    assert list(cut(5, 5, [5])) == []
    assert list(cut(7, 5, [6])) == []


@given(MOMENTS, st.integers(0, 40 * DAY_MS))
def test_midnights_lie_strictly_inside_a_day_apart(start: int, length: int) -> None:
    marks = list(midnights(start, start + length))
    assert all(start < mark < start + length and mark % DAY_MS == 0 for mark in marks)
    assert all(b - a == DAY_MS for a, b in itertools.pairwise(marks))
    days = [from_ms(left).date() for left, _ in cut(start, start + length, marks)]
    assert len(days) == len(set(days))  # each piece is of one UTC day

"""The filters of templates."""

from datetime import UTC, datetime, timedelta

import pytest

from kit import display

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (62, "1 min 2 s"),
        (662, "11 min"),
        (3_600, "1 h"),
        (3_661, "1 h 1 min"),
        (90_000, "1 d 1 h"),
        (86_460, "1 d"),
        (40 * 86_400, "40 d"),
    ],
)
def test_spans_have_at_most_two_units(seconds: int, words: str) -> None:
    assert display.span(seconds) == words
    assert display.duration(seconds * 1000) == words
    assert display.duration(timedelta(seconds=seconds)) == words


def test_moments_are_relative_with_the_exact_time_beside() -> None:
    before = NOW - timedelta(minutes=3)
    assert display.ago(before, NOW) == (
        '<time datetime="2026-11-29T11:57:00.000Z" title="2026-11-29 11:57:00 UTC">3 min ago</time>'
    )
    assert ">in 3 min<" in display.ago(NOW + timedelta(minutes=3), NOW)
    assert ">just now<" in display.ago(NOW - timedelta(seconds=1), NOW)
    assert ">3 min<" in display.since(before, NOW)
    assert display.ago(None, NOW) == display.since(None, NOW) == display.utc(None) == "\u2013"


@pytest.mark.parametrize(
    ("nano", "short", "exact"),
    [
        (0, "0.00", "0.000000"),
        (1_234_567_890_123, "1,234.57", "1,234.567890123"),
        (5_000_000, "0.01", "0.005000"),
        (4_999_999, "0.00", "0.004999999"),
        (-2_500_000_000, "-2.50", "-2.500000"),
    ],
)
def test_money_short_and_exact(nano: int, short: str, exact: str) -> None:
    assert (display.amount(nano), display.amount_exact(nano)) == (short, exact)


def test_gpu_hours_short_and_exact() -> None:
    assert display.gpu_hours(3_600_000 * 1_234 + 1_800_000) == "1,234.50"
    assert display.gpu_hours_exact(3_600_000 * 1_234 + 1) == "1,234.000000"
    assert display.gpu_hours_exact(3_600_000 // 3) == "0.333333"


def test_plain_words_and_numbers() -> None:
    assert display.plain("node_failure") == "node failure"
    assert (display.number(1_048_576), display.percent(0.25)) == ("1,048,576", "25 %")
    assert display.amount(None) == display.number(None) == display.percent(None) == "\u2013"

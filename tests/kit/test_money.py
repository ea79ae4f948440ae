"""Money and GPU time as the API writes them."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.intervals import HOUR_MS
from kit.money import NANO, decimal_string, gpu_hours, gpu_time, money, to_nano


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0.000000"),
        (12_340_000_000, "12.340000"),
        (1, "0.000000001"),
        (1_000_000_010, "1.00000001"),
        (-2_500_000_000, "-2.500000"),
    ],
)
def test_money_is_written_exactly(nano: int, text: str) -> None:
    assert decimal_string(nano) == text
    assert money(nano, "EUR") == {"amount": text, "currency": "EUR"}


@given(st.integers(-(10**20), 10**20))
def test_money_reads_back_to_the_nano_unit(nano: int) -> None:
    text = decimal_string(nano)
    assert to_nano(Decimal(text)) == nano
    assert 6 <= len(text.partition(".")[2]) <= 9


@pytest.mark.parametrize("text", ["0.0000000001", "NaN", "Infinity", "1e400000", "1000000000000"])
def test_money_that_is_not_whole_nano_units_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="amount of money"):
        to_nano(Decimal(text))


@given(st.integers(0, 10**16))
def test_gpu_hours_are_within_half_a_millionth(gpu_ms: int) -> None:
    shown = Fraction(gpu_hours(gpu_ms))
    assert abs(shown - Fraction(gpu_ms, HOUR_MS)) <= Fraction(1, 2_000_000)


def test_gpu_time_has_the_exact_number_beside_the_hours() -> None:
    assert gpu_time(128 * HOUR_MS) == {"gpu_ms": 128 * HOUR_MS, "gpu_hours": "128.000000"}
    assert NANO == 10**9

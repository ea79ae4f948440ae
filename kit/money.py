"""Money as integer nano-units and GPU time as integer milliseconds, rendered as the API writes them.

Nothing here rounds money: a nano-unit amount has at most nine decimals and all that matter are
shown. GPU hours are a rendering of `gpu_ms`, which is the exact number beside it.
"""

from decimal import Decimal
from typing import TypedDict

from kit.intervals import HOUR_MS

NANO = 1_000_000_000
_TOO_MUCH = 10**12  # so that the decimal context's 28 digits hold every amount exactly
_SHOWN = 6  # decimals that are always there, as in `12.340000`


class Money(TypedDict):
    """The API's money: a decimal string and an ISO 4217 code."""

    amount: str
    currency: str


class GpuTime(TypedDict):
    """The API's GPU time: exact GPU-milliseconds and, beside them, hours to six decimals."""

    gpu_ms: int
    gpu_hours: str


def decimal_string(nano: int) -> str:
    """The exact decimal string of nano-units: six decimals, up to nine where they are not zero."""
    whole, rest = divmod(abs(nano), NANO)
    digits = f"{rest:09d}"
    shown = digits[:_SHOWN] + digits[_SHOWN:].rstrip("0")
    return f"{'-' if nano < 0 else ''}{whole}.{shown}"


def money(nano: int, currency: str) -> Money:
    """Nano-units as the API's money."""
    return {"amount": decimal_string(nano), "currency": currency}


def to_nano(amount: Decimal) -> int:
    """The nano-units of a decimal amount.

    Raises:
        ValueError: it is not a number below a trillion, or has more than nine decimals.
    """
    if not amount.is_finite() or abs(amount) >= _TOO_MUCH:
        raise ValueError("An amount of money is a number below a trillion.")
    scaled = amount.scaleb(9)
    if scaled != scaled.to_integral_value():
        raise ValueError("An amount of money has at most nine decimals.")
    return int(scaled)


def gpu_hours(gpu_ms: int) -> str:
    """GPU-milliseconds as hours with six decimals, half up."""
    micro = (2 * gpu_ms * 1_000_000 + HOUR_MS) // (2 * HOUR_MS)
    return f"{micro // 1_000_000}.{micro % 1_000_000:06d}"


def gpu_time(gpu_ms: int) -> GpuTime:
    """GPU-milliseconds as the API's GPU time."""
    return {"gpu_ms": gpu_ms, "gpu_hours": gpu_hours(gpu_ms)}

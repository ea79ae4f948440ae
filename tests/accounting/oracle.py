"""An independent calculation of costs: millisecond facts and exact fractions, no shared code."""

from collections.abc import Sequence
from fractions import Fraction

HOUR = 3_600_000


def exact_cost(
    *,
    gpus: int,
    start_ms: int,
    end_ms: int,
    price_changes: Sequence[tuple[int, int]],
) -> tuple[Fraction, int]:
    """The real-valued cost in nano-units, and what is billed.

    `price_changes` are (moment, nano-units per GPU-hour), oldest first, the first one at or before
    the start. What is billed is the cost of each stretch under one price, rounded down.
    """
    real, billed = Fraction(0), 0
    for number, (moment, nano) in enumerate(price_changes):
        until = price_changes[number + 1][0] if number + 1 < len(price_changes) else end_ms
        held = min(until, end_ms) - max(moment, start_ms)
        if held > 0:
            stretch = Fraction(nano * gpus * held, HOUR)
            real += stretch
            billed += stretch.numerator // stretch.denominator
    return real, billed

"""Time: integer milliseconds since the epoch (UTC) in the core, datetimes at the edges."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    """Milliseconds since the epoch of an aware datetime, rounded down."""
    return (moment - _EPOCH) // _MS


def to_ms_or_none(moment: datetime | None) -> int | None:
    """`to_ms` of a moment that may not have come."""
    return None if moment is None else to_ms(moment)


def from_ms(milliseconds: int) -> datetime:
    """The aware UTC datetime of milliseconds since the epoch."""
    return _EPOCH + milliseconds * _MS


def iso(moment: datetime | None) -> str | None:
    """UTC ISO 8601 with `Z` and milliseconds, as the API writes times; None stays None."""
    if moment is None:
        return None
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + (
        f"{moment.microsecond // 1000:03d}Z"
    )


def cut(start_ms: int, end_ms: int, marks: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The half-open interval [start, end) cut at the marks inside it, in order.

    Empty intervals yield nothing. The pieces tile the interval exactly.
    """
    left = start_ms
    for mark in sorted({m for m in marks if start_ms < m < end_ms}):
        yield left, mark
        left = mark
    if left < end_ms:
        yield left, end_ms


def midnights(start_ms: int, end_ms: int) -> Iterator[int]:
    """Every UTC midnight strictly inside the interval."""
    mark = (start_ms // DAY_MS + 1) * DAY_MS
    while mark < end_ms:
        yield mark
        mark += DAY_MS

"""What a told run changes in what is known: a pure function, so that telling twice is telling once.

A *run* is one stay of an attempt on nodes, known by the attempt and the run's start on the
cluster's clock. It is kept as one or more intervals, one for each class it had, in order. What was
metered is posted and does not move; all else follows the last report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from kit.ids import fact_id


class Told(StrEnum):
    """What became of a report."""

    STARTED = "started"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    CORRECTION_DUE = "correction_due"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Known:
    """One interval of a run as it is kept. Times on the cluster's clock, `ended_ms` None = open.

    [started_ms, metered_ms) is posted. `reported_end_ms` is the run's end as last reported.
    """

    id: UUID
    run_start_ms: int
    started_ms: int
    ended_ms: int | None
    metered_ms: int
    reported_end_ms: int | None


@dataclass(frozen=True, slots=True)
class NewEnd:
    """An interval's end as it should be kept now."""

    id: UUID
    ended_ms: int
    reported_end_ms: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """What to write for a report: a first interval or not, and new ends."""

    told: Told
    ends: tuple[NewEnd, ...] = ()
    why: str = ""


def interval_id(attempt_id: UUID, run_start_ms: int, started_ms: int) -> UUID:
    """The id of an interval: the source fact (attempt, run's start), and the cut if it is later."""
    if started_ms == run_start_ms:
        return fact_id("usage", attempt_id, run_start_ms)
    return fact_id("usage", attempt_id, run_start_ms, started_ms)


def settle(known: Sequence[Known], run_start_ms: int, run_end_ms: int | None) -> Settlement:
    """What a report of a run changes, given every known interval of its attempt.

    A run that ends before it starts, or that begins or lasts beside an open run of its attempt, is
    refused: an attempt holds GPUs once at a time, and the end of the open one is told sooner or
    later. Beside one that ended it is not: between the two their cluster's clock was set back, and
    each lasted as long as it says. An end that was told is not taken back by a report without one
    (it is older, or less informed).
    """
    if run_end_ms is not None and run_end_ms < run_start_ms:
        return Settlement(Told.REFUSED, why="the run ends before it starts")
    mine = sorted(
        (piece for piece in known if piece.run_start_ms == run_start_ms),
        key=lambda piece: piece.started_ms,
    )
    if not mine:
        if any(_overlap(piece, run_end_ms) for piece in known):
            return Settlement(Told.REFUSED, why="it overlaps another run of the attempt")
        return Settlement(Told.STARTED)
    if run_end_ms is None:
        return Settlement(Told.UNCHANGED)
    return _end(mine, run_end_ms)


def _end(pieces: list[Known], run_end_ms: int) -> Settlement:
    """The ends of a run's pieces: each until the next one's start, and none beyond the run's end.

    What is metered beyond the reported end stays (it is posted) until a counter-transfer.
    """
    ends: list[NewEnd] = []
    due = False
    nexts = [*(piece.started_ms for piece in pieces[1:]), run_end_ms]
    for piece, following_ms in zip(pieces, nexts, strict=True):
        wanted_ms = max(piece.started_ms, min(following_ms, run_end_ms))
        due = due or piece.metered_ms > wanted_ms
        end = NewEnd(piece.id, max(wanted_ms, piece.metered_ms), run_end_ms)
        if (piece.ended_ms, piece.reported_end_ms) != (end.ended_ms, end.reported_end_ms):
            ends.append(end)
    if due:
        return Settlement(Told.CORRECTION_DUE, tuple(ends), "part of it is posted beyond its end")
    return Settlement(Told.CHANGED if ends else Told.UNCHANGED, tuple(ends))


def _overlap(piece: Known, end_ms: int | None) -> bool:
    """Whether a run until then (None: not known yet) shares a moment with a piece that is open."""
    return piece.ended_ms is None and (end_ms is None or piece.started_ms < end_ms)

"""What a job's real runs say about the job: how long it would run by itself."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kit.intervals import MINUTE_MS

SAVES_EACH_MS = 30 * MINUTE_MS  # a job that can save and does not say how often


@dataclass(frozen=True, slots=True)
class PastRun:
    """A stay on nodes, [start_ms, end_ms), and when its attempt last proved a checkpoint."""

    start_ms: int
    end_ms: int
    saved_ms: int | None


def runs_of(
    stays: Iterable[Sequence[int | None]], saved_ms: int | None, end_ms: int
) -> Iterable[PastRun]:
    """The runs of an attempt. Stays are `[start, end or None, GPUs]`; an open one lasts to `end_ms`."""
    for start_ms, ended_ms, _ in stays:
        if start_ms is not None:
            yield PastRun(start_ms, end_ms if ended_ms is None else ended_ms, saved_ms)


def work_ms(runs: Sequence[PastRun], since_ms: int) -> int:
    """How much of the runs (in order) counted, from a moment on.

    The last one whole. One that another followed only up to its checkpoint: what came after was
    done once more.
    """
    counted = 0
    for number, run in enumerate(runs, start=1):
        is_last = number == len(runs)
        kept_ms = run.end_ms if is_last else min(run.end_ms, run.saved_ms or run.start_ms)
        counted += max(0, kept_ms - max(run.start_ms, since_ms))
    return counted

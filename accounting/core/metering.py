"""From intervals of use to pieces: who held how many GPUs of what, cut where it must be cut.

Times are milliseconds since the epoch on the cluster's own clock; intervals are half-open, so the
pieces of one interval tile it and their GPU-milliseconds add up to its own, wherever the cuts are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from kit.intervals import cut, midnights


class ServiceClass(StrEnum):
    """The class of an allocation, which its price depends on."""

    GUARANTEED = "guaranteed"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Usage:
    """A stay of one gang on GPUs in one class: `gpus` of `flavor` over [start_ms, end_ms).

    `lineage` are the ids of the tenants from the root to the one that is billed; `cluster` None is
    any, for a job that is not bound yet. `skew_ms` is the cluster's clock minus ours: moments of
    ours (price changes) fall `skew_ms` later on its clock.
    """

    flavor: str
    service_class: str
    gpus: int
    start_ms: int
    end_ms: int
    cluster: UUID | None
    lineage: tuple[UUID, ...]
    skew_ms: int = 0

    def __post_init__(self) -> None:
        assert self.gpus > 0, "a gang without GPUs is not metered"
        assert self.start_ms <= self.end_ms, "an interval ends at or after its start"


def meter(usage: Usage, *, marks: Iterable[int] = ()) -> list[tuple[int, int]]:
    """The usage's interval cut at every UTC midnight and at the marks inside it, in order.

    So no piece reaches over a day's end, and days add up to the total. UTC has no daylight saving.
    """
    days = midnights(usage.start_ms, usage.end_ms)
    return list(cut(usage.start_ms, usage.end_ms, [*marks, *days]))


def gpu_ms(gpus: int, start_ms: int, end_ms: int) -> int:
    """GPU-milliseconds of `gpus` GPUs held over [start_ms, end_ms)."""
    return gpus * (end_ms - start_ms)


def gpu_ms_by_class(usages: Iterable[Usage]) -> dict[str, int]:
    """GPU-milliseconds of the usages, by class."""
    totals: dict[str, int] = {}
    for usage in usages:
        held = gpu_ms(usage.gpus, usage.start_ms, usage.end_ms)
        totals[usage.service_class] = totals.get(usage.service_class, 0) + held
    return totals

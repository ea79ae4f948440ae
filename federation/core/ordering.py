"""Whose turn it is: priority then age within a tenant, tenants in turn.

The tenant that holds the fewest GPUs of the class goes first; each grant counts at once, so that
tenants take turns by GPUs and not by jobs. Equal tenants: the one whose head waits longest.
What a turn does not bind costs nothing: what cannot start does not block what can.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from uuid import UUID

from federation.core.snapshot import WaitingJob
from quotas.core.cohort import Use

Lines = Mapping[UUID, Sequence[WaitingJob]]


def within_tenant(job: WaitingJob) -> tuple[int, int, int]:
    """The order of one tenant's jobs: higher priority first, then older."""
    return (-job.priority, job.queued_ms, job.id)


def by_tenant(jobs: Iterable[WaitingJob]) -> dict[UUID, list[WaitingJob]]:
    """Each tenant's jobs, in their order."""
    lines: dict[UUID, list[WaitingJob]] = {}
    for job in jobs:
        lines.setdefault(job.tenant, []).append(job)
    for line in lines.values():
        line.sort(key=within_tenant)
    return lines


def held(uses: Iterable[Use], *classes: str) -> dict[UUID, int]:
    """GPUs that each tenant's own jobs hold in the classes."""
    gpus: dict[UUID, int] = {}
    for use in uses:
        if use.service_class in classes:
            gpus[use.tenant] = gpus.get(use.tenant, 0) + use.gpus
    return gpus


class _Line:
    """One tenant's jobs, the next one at the end, and the GPUs that it holds."""

    __slots__ = ("gpus", "jobs")

    def __init__(self, jobs: Iterable[WaitingJob], gpus: int) -> None:
        self.gpus = gpus
        self.jobs = list(jobs)
        self.jobs.reverse()

    def key(self) -> tuple[int, int, int, "_Line"]:
        """Who goes first; jobs' ids differ, so lines are never compared."""
        head = self.jobs[-1]
        return self.gpus, head.queued_ms, head.id, self


class Turns(Iterator[WaitingJob]):
    """Jobs in the order in which they may ask. `grant` tells what the last one got."""

    def __init__(self, jobs: Lines, gpus: Mapping[UUID, int]) -> None:
        """`jobs` are each tenant's in their order, `gpus` what each tenant holds already."""
        lines = [_Line(line, gpus.get(tenant, 0)) for tenant, line in jobs.items()]
        self._heap = [line.key() for line in lines if line.jobs]
        heapify(self._heap)
        self._last: _Line | None = None

    def __next__(self) -> WaitingJob:
        if self._last is not None and self._last.jobs:
            heappush(self._heap, self._last.key())
        if not self._heap:
            raise StopIteration
        self._last = heappop(self._heap)[-1]
        return self._last.jobs.pop()

    def grant(self, gpus: int) -> None:
        """Count GPUs that the last job's tenant got in its turn."""
        assert self._last is not None, "nobody has had a turn yet"
        self._last.gpus += gpus


def rank(jobs: Lines, gpus: Mapping[UUID, int]) -> tuple[int, ...]:
    """The queue as people see it: the order in which the jobs would go if each one got its turn."""
    turns = Turns(jobs, gpus)
    order = []
    for job in turns:
        order.append(job.id)
        turns.grant(job.ask.options[0].shape.gpus)
    return tuple(order)

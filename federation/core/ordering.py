"""Whose turn it is: priority then age within a tenant, tenants in turn.

The tenant that holds the fewest GPUs of the class goes first; each grant counts at once, so that
tenants take turns by GPUs and not by jobs. Equal tenants: the one whose head waits longest.
What a turn does not bind costs nothing: what cannot start does not block what can.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from uuid import UUID

from federation.core.snapshot import WaitingJob
from quotas.core.cohort import Use


def within_tenant(job: WaitingJob) -> tuple[int, int, int]:
    """The order of one tenant's jobs: higher priority first, then older."""
    return (-job.priority, job.queued_ms, job.id)


def held(uses: Iterable[Use], *classes: str) -> dict[UUID, int]:
    """GPUs that each tenant's own jobs hold in the classes."""
    gpus: dict[UUID, int] = {}
    for use in uses:
        if use.service_class in classes:
            gpus[use.tenant] = gpus.get(use.tenant, 0) + use.gpus
    return gpus


class Turns(Iterator[WaitingJob]):
    """Jobs in the order in which they may ask. `grant` tells what the last one got."""

    def __init__(self, jobs: Iterable[WaitingJob], gpus: Mapping[UUID, int]) -> None:
        """`gpus` is what each tenant holds already."""
        self._gpus = dict(gpus)
        self._queues: dict[UUID, list[WaitingJob]] = {}
        for job in jobs:
            self._queues.setdefault(job.tenant, []).append(job)
        for queue in self._queues.values():
            queue.sort(key=within_tenant, reverse=True)  # the next one stands at the end
        self._heap = [self._key(tenant) for tenant in self._queues]
        heapify(self._heap)

    def __next__(self) -> WaitingJob:
        while self._heap:
            key = heappop(self._heap)
            tenant = key[-1]
            if key[0] != self._gpus.get(tenant, 0):
                heappush(self._heap, self._key(tenant))
                continue
            queue = self._queues[tenant]
            job = queue.pop()
            if queue:
                heappush(self._heap, self._key(tenant))
            return job
        raise StopIteration

    def grant(self, job: WaitingJob, gpus: int) -> None:
        """Count GPUs that the job's tenant got in this turn."""
        self._gpus[job.tenant] = self._gpus.get(job.tenant, 0) + gpus

    def _key(self, tenant: UUID) -> tuple[int, int, int, UUID]:
        head = self._queues[tenant][-1]
        return (self._gpus.get(tenant, 0), head.queued_ms, head.id, tenant)


def rank(jobs: Iterable[WaitingJob], gpus: Mapping[UUID, int]) -> tuple[int, ...]:
    """The queue as people see it: the order in which the jobs would go if each one got its turn."""
    turns = Turns(jobs, gpus)
    order = []
    for job in turns:
        order.append(job.id)
        turns.grant(job, job.ask.options[0].shape.gpus)
    return tuple(order)

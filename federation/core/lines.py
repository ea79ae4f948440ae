"""The jobs that wait as a cycle goes through them: those alike together, whatever their number.

Of jobs of one tenant that differ in age alone, only the first one is looked at until it gets what
it asks for. So a pass over a queue costs by what it binds and by kinds of jobs, not by jobs.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, islice
from operator import attrgetter
from typing import Protocol
from uuid import UUID

from federation.core.snapshot import WaitingJob
from quotas.core.policy import Policy

Kind = Sequence[WaitingJob]  # alike but for their age, the oldest first
_Place = tuple[int, int, int]
_Standing = tuple[_Place, int, Kind]  # of a kind the next job: its place, and where in the kind
BY_AGE = attrgetter("queued_ms", "id")


class Waits:
    """One tenant's jobs that wait: higher priority first, then older.

    Waiting raises the priority (`Policy.aging_ms`), so that nothing finite waits for ever.
    """

    __slots__ = ("kinds", "place")

    def __init__(self, kinds: Sequence[Kind], place: Callable[[WaitingJob], _Place]) -> None:
        self.kinds = kinds
        self.place = place

    def __iter__(self) -> Iterator[WaitingJob]:
        """The jobs in their order."""
        if len(self.kinds) == 1:
            return iter(self.kinds[0])
        return iter(sorted(chain.from_iterable(self.kinds), key=self.place))

    def firsts(self, is_served: Callable[[WaitingJob], bool]) -> Iterator[WaitingJob]:
        """Of each kind the first job that is not served."""
        for kind in self.kinds:
            yield from islice((job for job in kind if not is_served(job)), 1)

    def where(self, holds: Callable[[WaitingJob], bool]) -> "Waits":
        """The kinds for whose jobs it holds, each asked of one of them."""
        return Waits([kind for kind in self.kinds if holds(kind[0])], self.place)

    def of(self, *classes: str) -> "Waits":
        """The jobs that want one of the classes."""
        return Waits([kind for kind in self.kinds if kind[0].wanted_class in classes], self.place)

    def without(self, others: Iterable[WaitingJob]) -> "Waits":
        """All but these jobs."""
        left_out = {job.id for job in others}
        kinds = ([job for job in kind if job.id not in left_out] for kind in self.kinds)
        return Waits([kind for kind in kinds if kind], self.place)


class Jobs(tuple[WaitingJob, ...]):
    """Jobs that wait, where their kinds are at hand already."""

    kinds: tuple[Kind, ...] = ()


def trait(job: WaitingJob) -> Hashable:
    """What a job has in common with those of its kind.

    Values that jobs share are known by their identity: that is fast, and who does not share them
    is only a kind of its own.
    """
    return (
        id(job.ask),
        id(job.tenant),
        id(job.user),
        job.priority,
        job.wanted_class,
        job.not_before_ms,
    )


def by_tenant(jobs: Iterable[WaitingJob], policy: Policy, now_ms: int) -> dict[UUID, Waits]:
    """Each tenant's jobs."""
    aging_ms = policy.aging_ms

    def place(job: WaitingJob) -> _Place:
        aged = (now_ms - job.queued_ms) // aging_ms if aging_ms else 0
        return (-job.priority - aged, job.queued_ms, job.id)

    tenants: dict[UUID, list[Kind]] = {}
    for kind in jobs.kinds if isinstance(jobs, Jobs) else _kinds(jobs):
        tenants.setdefault(kind[0].tenant, []).append(kind)
    return {tenant: Waits(found, place) for tenant, found in tenants.items()}


def _kinds(jobs: Iterable[WaitingJob]) -> Iterable[Kind]:
    kinds: dict[Hashable, list[WaitingJob]] = {}
    for job in sorted(jobs, key=BY_AGE):
        kinds.setdefault(trait(job), []).append(job)
    return kinds.values()


class Server(Protocol):
    """Who gives sites to jobs in a pass."""

    @property
    def changes(self) -> int:
        """So often may have become possible what was given up."""

    def gives_up(self, job: WaitingJob) -> bool:
        """Whether nothing is left for this job and for all that are alike."""


class Line:
    """What is left of one tenant's jobs in a pass.

    Kinds that are given up are passed over together. A job of theirs still is the head of the line
    where it is the next in order: whose turn it is does not depend on what is known to be in vain.
    """

    __slots__ = ("_changes", "_is_served", "_live", "_place", "_vain", "tenant")

    def __init__(
        self, tenant: UUID, waits: Waits, is_served: Callable[[WaitingJob], bool] = lambda _: False
    ) -> None:
        """Jobs that were served in an earlier pass are left out."""
        self.tenant = tenant
        self._place = waits.place
        self._is_served = is_served
        self._changes = 0
        standings = (self._next(kind, 0) for kind in waits.kinds)
        self._live = [standing for standing in standings if standing is not None]
        self._vain: list[_Standing] = []
        heapify(self._live)

    @property
    def head(self) -> WaitingJob | None:
        """The next job in the order, None = there is none left."""
        standing = min((*self._live[:1], *self._vain[:1]), default=None)
        return None if standing is None else standing[2][standing[1]]

    def take(self, server: Server) -> WaitingJob | None:
        """Take off the next job that may get something; without one, all that is left."""
        if self._changes != server.changes:
            self._changes = server.changes
            for standing in self._vain:
                heappush(self._live, standing)
            self._vain.clear()
        while self._live:
            place, index, kind = self._live[0]
            if index + 1 == len(kind):  # to try the last one costs no more than to ask
                heappop(self._live)
            elif server.gives_up(kind[index]):
                heappush(self._vain, heappop(self._live))
                continue
            else:
                self._step(kind, index + 1)
            if self._vain:
                self._pass_over(place)
            return kind[index]
        self._vain.clear()
        return None

    def _step(self, kind: Kind, start: int) -> None:
        """Let the next one of the first kind stand there."""
        following = self._next(kind, start)
        if following is None:
            heappop(self._live)
        else:
            heapreplace(self._live, following)

    def _pass_over(self, place: _Place) -> None:
        """Take off all jobs up to this place that are in vain."""
        while self._vain and self._vain[0][0] < place:
            _, index, kind = heappop(self._vain)
            following = self._next(kind, bisect_right(kind, place, index, key=self._place))
            if following is not None:
                heappush(self._vain, following)

    def _next(self, kind: Kind, start: int) -> _Standing | None:
        for index in range(start, len(kind)):
            if not self._is_served(kind[index]):
                return self._place(kind[index]), index, kind
        return None

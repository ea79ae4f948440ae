"""Limits of a tenant, its people and its labels: how much may run and wait at once, and how long.

Unlike a quota a limit promises nothing and knows no flavor: it only keeps jobs from starting. It
speaks for jobs of the tenant and of all below it; every limit that speaks for a job has to let it
start. What holds GPUs counts as running, also while it is being stopped. Nothing is ever stopped
because of a limit.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

Pair = tuple[str, str]  # a label's name and text
NOTHING: frozenset[Pair] = frozenset()
BOUNDS = ("running_gpus", "running_jobs", "waiting_jobs", "longest_ms")
LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")  # as in a job's body


class Scope(StrEnum):
    """For whose jobs of the subtree a limit speaks, taken together."""

    TENANT = "tenant"
    USER = "user"
    LABEL = "label"


class Unit(StrEnum):
    """What a limit counts."""

    GPUS = "gpus"
    JOBS = "jobs"
    MILLISECONDS = "milliseconds"


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit of the tenant's subtree; None = it does not bound that.

    Scope `user`: each person by themselves, or only the one named. Scope `label`: the jobs with
    the label `name` = `text`. `longest_ms` bounds the time limit of each single job.
    """

    tenant: UUID
    scope: Scope = Scope.TENANT
    user: UUID | None = None
    name: str = ""
    text: str = ""
    running_gpus: int | None = None
    running_jobs: int | None = None
    waiting_jobs: int | None = None
    longest_ms: int | None = None

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What sorts the limits of one tenant."""
        return self.scope, str(self.user or ""), self.name, self.text

    def speaks_for(self, user: UUID | None, labels: Collection[Pair]) -> bool:
        """Whether it bounds jobs of its subtree by this person (None: unknown), so labelled."""
        if self.scope is Scope.USER:
            return user is not None and self.user in (None, user)
        return self.scope is Scope.TENANT or (self.name, self.text) in labels


@dataclass(frozen=True)
class Limited:
    """All limits, and of jobs (by row id) what they ask for.

    `people` are those whose jobs hold GPUs, where a limit speaks of people; `labels` those of
    waiting jobs and of jobs that hold GPUs which some limit names.
    """

    rows: tuple[LimitRow, ...] = ()
    people: Mapping[int, UUID] = field(default_factory=dict)
    labels: Mapping[int, frozenset[Pair]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """A limit that a start would exceed: what the job needs, what is left of the limit (>= 0)."""

    row: LimitRow
    unit: Unit
    needed: int
    available: int

    @property
    def most(self) -> int:
        """What the limit allows in all."""
        row = self.row
        most = {
            Unit.GPUS: row.running_gpus,
            Unit.JOBS: row.running_jobs,
            Unit.MILLISECONDS: row.longest_ms,
        }[self.unit]
        assert most is not None, "what does not bound is not hit"
        return most


class Count:
    """What runs under a limit: of one person, where it is each person's."""

    __slots__ = ("gpus", "jobs", "row")

    def __init__(self, row: LimitRow) -> None:
        self.row = row
        self.jobs = 0
        self.gpus = 0


Standing = Sequence[Count]  # all counts that bound a job, from the root of the tree down


def first_hit(standing: Standing, gpus: int, time_limit_ms: int) -> Hit | None:
    """The first limit that a start of so many GPUs would exceed, None when all let it start.

    What never fits is told before what is only full now.
    """
    for count in standing:
        longest_ms = count.row.longest_ms
        if longest_ms is not None and time_limit_ms > longest_ms:
            return Hit(count.row, Unit.MILLISECONDS, time_limit_ms, longest_ms)
    for count in standing:
        row = count.row
        if row.running_jobs is not None and count.jobs >= row.running_jobs:
            return Hit(row, Unit.JOBS, 1, 0)
        if row.running_gpus is not None and count.gpus + gpus > row.running_gpus:
            return Hit(row, Unit.GPUS, gpus, max(row.running_gpus - count.gpus, 0))
    return None


class Counts:
    """What runs under each limit, counted while a plan is made: a start counts at once."""

    def __init__(self, limited: Limited, lineages: Mapping[UUID, tuple[UUID, ...]]) -> None:
        self._limited = limited
        self._lineages = lineages
        self._rows: dict[UUID, list[LimitRow]] = {}
        for row in sorted(limited.rows, key=lambda row: row.place):
            self._rows.setdefault(row.tenant, []).append(row)
        self._counts: dict[tuple[LimitRow, UUID | None], Count] = {}
        self._standings: dict[tuple[UUID, UUID | None, frozenset[Pair]], Standing] = {}

    def __bool__(self) -> bool:
        """Whether there is any limit at all."""
        return bool(self._rows)

    def hold(self, held: Iterable[tuple[int, UUID, int]]) -> None:
        """Count what holds GPUs already: jobs' row ids, tenants, GPUs."""
        for job, tenant, gpus in held:
            self.start(job, tenant, self._limited.people.get(job), gpus)

    def start(self, job: int, tenant: UUID, user: UUID | None, gpus: int) -> None:
        """Count a job that starts. `user` None: unknown, as no limit speaks of people."""
        for count in self.standing(job, tenant, user):
            count.jobs += 1
            count.gpus += gpus

    def standing(self, job: int, tenant: UUID, user: UUID | None) -> Standing:
        """The counts of all limits that speak for a job."""
        labels = self._limited.labels.get(job, NOTHING)
        key = (tenant, user, labels)
        standing = self._standings.get(key)
        if standing is None:
            standing = self._standings[key] = [
                self._count(row, user)
                for above in self._lineages[tenant]
                for row in self._rows.get(above, ())
                if row.speaks_for(user, labels)
            ]
        return standing

    def _count(self, row: LimitRow, user: UUID | None) -> Count:
        is_each = row.scope is Scope.USER and row.user is None
        key = (row, user if is_each else None)
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = Count(row)
        return count

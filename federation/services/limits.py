"""Limits at submit: how many jobs may wait, and for how long one may ask."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from federation.core.bounded import too_long, whom
from federation.core.lifecycle import JobState
from federation.core.spec import JobSpec
from federation.core.spec.quantities import read_duration_ms
from kit.bulk import Statement, run
from kit.errors import FieldProblem, InvalidContentError
from quotas.core.limits import LimitRow, Scope
from quotas.selectors import limits_at_submit
from quotas.services.limits import LONGEST_MS, lock_limits
from tenancy.models import Tenant

LONGEST_DURATION = 400  # letters


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A job that is to be taken in; `at` is the JSON pointer of its body."""

    at: str
    spec: JobSpec
    tenant: Tenant
    user: UUID

    def is_bound_by(self, row: LimitRow) -> bool:
        """Whether the limit speaks for it."""
        is_below = row.tenant in self.tenant.lineage
        return is_below and row.speaks_for(self.user, self.spec.labels.items())

    def path_of(self, row: LimitRow) -> str:
        """The path of the tenant whose limit it is, which is its own or one above."""
        depth = self.tenant.lineage.index(row.tenant) + 1
        return "/".join(self.tenant.path.split("/")[:depth])


def time_problems(newcomers: Sequence[Newcomer]) -> Iterator[FieldProblem]:
    """The jobs that ask for a longer time limit than they may. One query."""
    yield from _too_long(newcomers, _rows(newcomers))


def over_limits(newcomers: Sequence[Newcomer]) -> list[FieldProblem]:
    """Why some of one person's new jobs are not taken: too many that wait, too long a time limit.

    They count together, with all that waits (queued or held). In the caller's transaction, which
    has to add them: of two at once the second waits for the first. Three queries at most.
    """
    rows = _rows(newcomers)
    found = list(_too_long(newcomers, rows))
    waiting = [
        key
        for key, row in rows.items()
        if row.waiting_jobs is not None and any(new.is_bound_by(row) for new in newcomers)
    ]
    if waiting:
        locked = lock_limits(waiting)
        counts = _count(list(locked), newcomers[0].user)
        for key, row in locked.items():
            found += _too_many(newcomers, row, counts.get(key, 0))
    return found


def _rows(newcomers: Sequence[Newcomer]) -> Mapping[int, LimitRow]:
    return limits_at_submit({above for new in newcomers for above in new.tenant.lineage})


def _too_long(
    newcomers: Sequence[Newcomer], rows: Mapping[int, LimitRow]
) -> Iterator[FieldProblem]:
    for new in newcomers:
        for row in rows.values():
            longest_ms = row.longest_ms
            is_over = longest_ms is not None and new.spec.time_limit_ms > longest_ms
            if is_over and new.is_bound_by(row):
                words = f"{too_long(row, new.path_of(row))}: ask for that or less."
                yield FieldProblem(f"{new.at}/time_limit", "limit_reached", words)


def _too_many(newcomers: Sequence[Newcomer], row: LimitRow, waits: int) -> Iterator[FieldProblem]:
    most = row.waiting_jobs
    if most is None:  # changed since it was read
        return
    bound = [new for new in newcomers if new.is_bound_by(row)]
    field = "labels" if row.scope is Scope.LABEL else "tenant"
    for new in bound[max(most - waits, 0) :]:
        come = f" and {len(bound)} come at once" if len(bound) > 1 else ""
        words = (
            f"{whom(row, new.path_of(row))} may have at most {most} waiting jobs; {waits} wait{come}."
            " Submit it when some have started, cancel some, or have the limit raised."
        )
        yield FieldProblem(f"{new.at}/{field}", "limit_reached", words)


def _count(limits: Sequence[int], user: UUID) -> Mapping[int, int]:
    """How many jobs wait under each limit by row id; under limits of people, the user's."""
    (rows,) = run(
        Statement(
            "SELECT held.id, count(*) FROM quotas_limit held"
            " JOIN tenancy_tenant tenant ON held.tenant_id = ANY(tenant.lineage)"
            " JOIN federation_job job ON job.tenant_id = tenant.id AND job.state IN (%s, %s)"
            " AND (held.scope <> %s OR job.user_id = %s)"
            " AND (held.scope <> %s OR job.labels ->> held.label = held.text)"
            " WHERE held.id = ANY(%s) GROUP BY held.id",
            (
                JobState.QUEUED.value,
                JobState.HELD.value,
                Scope.USER.value,
                user,
                Scope.LABEL.value,
                list(limits),
            ),
        )
    )
    return dict(rows)


def read_time_limit(given: object) -> int | None:
    """Milliseconds of the longest time limit as people write it: seconds, or text; None is none.

    Raises:
        InvalidContentError: it is no duration, or one that no job may have.
    """
    if given is None:
        return None
    is_form = type(given) is int or (isinstance(given, str) and len(given) <= LONGEST_DURATION)
    found = read_duration_ms(given) if is_form else None  # type: ignore[arg-type]
    if found is None or not 1000 <= found <= LONGEST_MS:
        most = f"seconds from 1 to {LONGEST_MS // 1000}"
        words = f'Give {most}, or text such as "72:00:00", "3-00:00:00" or "90m".'
        problem = FieldProblem("/time_limit", "invalid_format", words)
        raise InvalidContentError("The limit is not valid.", errors=[problem])
    return found

"""Grants: GPUs that a tenant is guaranteed beside its row, from a moment until another or for good.

Nothing is written when a grant begins or ends: the rows that hold at a moment are worked out from
the rows as they were set and the grants of that moment. Times are milliseconds since the epoch,
intervals half-open.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from quotas.core.cohort import QuotaRow
from quotas.core.tree import Misfit, misfits


@dataclass(frozen=True, slots=True)
class Grant:
    """GPUs that the tenant's row for all clusters is guaranteed more in [from_ms, until_ms).

    `until_ms` None = for good. `borrowing_limit`: while it holds, the row's own is at least that
    (None = the row's stays).
    """

    tenant: UUID
    flavor: str
    gpus: int
    from_ms: int
    until_ms: int | None = None
    borrowing_limit: int | None = None

    def holds(self, at_ms: int) -> bool:
        """Whether it counts at that moment."""
        return self.from_ms <= at_ms and not self.is_over(at_ms)

    def is_over(self, at_ms: int) -> bool:
        """Whether it has ended by that moment."""
        return self.until_ms is not None and self.until_ms <= at_ms


def rows_at(rows: Iterable[QuotaRow], grants: Iterable[Grant], at_ms: int) -> tuple[QuotaRow, ...]:
    """The rows as they hold at a moment: those that were set, raised by the grants of then."""
    raised: dict[tuple[UUID, str], list[Grant]] = {}
    for grant in grants:
        if grant.holds(at_ms):
            raised.setdefault((grant.tenant, grant.flavor), []).append(grant)
    if not raised:
        return tuple(rows)
    return tuple(
        _raised(row, raised.get((row.tenant, row.flavor), ())) if row.cluster is None else row
        for row in rows
    )


def _raised(row: QuotaRow, grants: Sequence[Grant]) -> QuotaRow:
    limit = row.borrowing_limit
    if limit is not None:
        limit = max([limit, *(one.borrowing_limit or 0 for one in grants)])
    granted = sum(one.gpus for one in grants)
    return replace(row, guaranteed=row.guaranteed + granted, borrowing_limit=limit)


def turns(grants: Iterable[Grant], now_ms: int) -> tuple[int, ...]:
    """The moments from which on other rows hold than before: now, then each begin and end to come."""
    marks = {mark for one in grants for mark in (one.from_ms, one.until_ms) if mark is not None}
    return (now_ms, *sorted(mark for mark in marks if mark > now_ms))


def first_misfits(
    rows: Sequence[QuotaRow],
    grants: Sequence[Grant],
    lineages: Mapping[UUID, tuple[UUID, ...]],
    now_ms: int,
) -> tuple[int, tuple[Misfit, ...]]:
    """The first moment, now or to come, at which some row owes more than it has, and these rows.

    Between two turns nothing changes, so looking at each of them is looking at every moment.
    """
    flavors = {one.flavor for one in grants}
    for at_ms in turns(grants, now_ms):
        held = rows_at(rows, grants, at_ms)
        if at_ms > now_ms:  # of the others nothing changes
            held = tuple(row for row in held if row.flavor in flavors)
        if found := misfits(held, lineages):
            return at_ms, found
    return now_ms, ()

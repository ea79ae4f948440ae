"""What must hold between rows whenever one is written: no row owes more than it is owed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from quotas.core.cohort import QuotaRow


@dataclass(frozen=True, slots=True)
class Misfit:
    """Rows that together claim more than the row above them (or beside them) is guaranteed."""

    row: QuotaRow
    claims: tuple[QuotaRow, ...]

    @property
    def claimed(self) -> int:
        """GPUs that the claims sum up to."""
        return sum(claim.guaranteed for claim in self.claims)


def misfits(
    rows: Iterable[QuotaRow], lineages: Mapping[UUID, tuple[UUID, ...]]
) -> tuple[Misfit, ...]:
    """Every row that owes more than it has, in a fixed order.

    The rows right below a row claim from it: those of the same flavor and place with no other row
    in between. A row for one cluster claims from its tenant's row for all clusters by itself.
    """
    places = {(row.tenant, row.flavor, row.cluster): row for row in rows}
    claims: dict[QuotaRow, list[QuotaRow]] = {}
    found = []
    for row in places.values():
        above = next(
            (
                places[ancestor, row.flavor, row.cluster]
                for ancestor in reversed(lineages[row.tenant][:-1])
                if (ancestor, row.flavor, row.cluster) in places
            ),
            None,
        )
        if above is not None:
            claims.setdefault(above, []).append(row)
        whole = places.get((row.tenant, row.flavor, None))
        if row.cluster is not None and whole is not None and row.guaranteed > whole.guaranteed:
            found.append(Misfit(whole, (row,)))
    for row, claiming in claims.items():
        misfit = Misfit(row, tuple(sorted(claiming, key=lambda claim: claim.tenant)))
        if misfit.claimed > row.guaranteed:
            found.append(misfit)
    return tuple(sorted(found, key=lambda one: (one.row.flavor, one.row.tenant, len(one.claims))))

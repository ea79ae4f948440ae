"""The quota model by its words, worked out anew for every question: what the core is held against.

All of one flavor. `owed` is what rows guarantee, by tenant; `own` what tenants' own jobs use.
"""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from quotas.core.cohort import GUARANTEED, SPOT, QuotaRow, Use

Lineages = Mapping[UUID, tuple[UUID, ...]]
Gpus = Mapping[UUID, int]


def need(tenant: UUID, lineages: Lineages, owed: Gpus, own: Gpus) -> int:
    """What the tenant's subtree needs of what is above it."""
    children = [one for one, line in lineages.items() if len(line) > 1 and line[-2] == tenant]
    below = own.get(tenant, 0) + sum(need(child, lineages, owed, own) for child in children)
    return max(owed[tenant], below) if tenant in owed else below


def is_owed(tenant: UUID, gpus: int, lineages: Lineages, owed: Gpus, own: Gpus) -> bool:
    """Whether an ask makes the topmost row need no more than before, and use what it may."""
    rows = [one for one in lineages[tenant] if one in owed]
    if not rows:
        return False
    more = {**own, tenant: own.get(tenant, 0) + gpus}
    whole = sum(held for one, held in more.items() if rows[0] in lineages[one])
    before, after = (need(rows[0], lineages, owed, now) for now in (own, more))
    return whole <= owed[rows[0]] and before == after


def allows(
    rows: Sequence[QuotaRow],
    uses: Iterable[Use],
    lineages: Lineages,
    ask: Use,
) -> bool:
    """Whether quota lets a tenant use more of a class in a cluster, all that is idle being lent."""
    rows = [row for row in rows if row.flavor == ask.flavor]
    uses = [u for u in uses if (u.flavor, u.service_class) == (ask.flavor, ask.service_class)]
    answers = []
    for place in (ask.cluster, None):
        book = [row for row in rows if row.cluster == place]
        if not any(row.tenant in lineages[ask.tenant] for row in book):
            continue
        here = [use for use in uses if place in (None, use.cluster)]
        if ask.service_class == GUARANTEED:
            owed = {row.tenant: row.guaranteed for row in book}
            own: dict[UUID, int] = {}
            for use in here:
                own[use.tenant] = own.get(use.tenant, 0) + use.gpus
            answers.append(is_owed(ask.tenant, ask.gpus, lineages, owed, own))
        else:
            assert ask.service_class == SPOT
            answers.append(
                all(
                    ask.gpus + sum(u.gpus for u in here if row.tenant in lineages[u.tenant])
                    <= row.borrowing_limit
                    for row in book
                    if row.borrowing_limit is not None and row.tenant in lineages[ask.tenant]
                )
            )
    return bool(answers) and all(answers)


def kept_from(
    rows: Sequence[QuotaRow],
    uses: Sequence[Use],
    lineages: Lineages,
    ask: Use,
    idle: Mapping[tuple[str, UUID], int],
) -> list[tuple[int, int]]:
    """For each book that speaks of the ask: GPUs that others keep from it, and GPUs idle there."""
    found = []
    for place in (ask.cluster, None):
        book = {row.tenant: row for row in rows if (row.flavor, row.cluster) == (ask.flavor, place)}
        if not any(tenant in lineages[ask.tenant] for tenant in book):
            continue
        here = [u for u in uses if u.flavor == ask.flavor and place in (None, u.cluster)]
        above = {tenant: _row_above(tenant, lineages, book) for tenant in book}
        kept = sum(
            _kept(tenant, lineages, book, above, here)
            for tenant in book
            if tenant not in lineages[ask.tenant]
            and (above[tenant] is None or above[tenant] in lineages[ask.tenant])
        )
        free = sum(
            gpus
            for (flavor, cluster), gpus in idle.items()
            if flavor == ask.flavor and place in (None, cluster)
        )
        found.append((kept, free))
    return found


def _row_above(tenant: UUID, lineages: Lineages, book: Mapping[UUID, QuotaRow]) -> UUID | None:
    return next((one for one in reversed(lineages[tenant][:-1]) if one in book), None)


def _kept(
    tenant: UUID,
    lineages: Lineages,
    book: Mapping[UUID, QuotaRow],
    above: Mapping[UUID, UUID | None],
    uses: Iterable[Use],
) -> int:
    """What a subtree keeps idle from all others: what it does not lend, less what it uses."""
    used = sum(use.gpus for use in uses if tenant in lineages[use.tenant])
    below = [one for one in book if above[one] == tenant]
    inner = sum(_kept(one, lineages, book, above, uses) for one in below)
    return max(book[tenant].kept - used, inner, 0)

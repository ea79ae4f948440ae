"""Who borrows what from whom: spot use of a flavor, attributed to what it comes out of.

Nobody lends a certain GPU to anybody; this is bookkeeping over sums, in a fixed order:

1. Spot that fits in what the tenant's own row, or one above it, leaves idle of its guarantee is the
   tenant's own (such as spot that was asked for by name): nothing is borrowed.
2. What nobody is guaranteed is taken next, by all that use more, in proportion.
3. The rest comes out of idle guarantees, the nearest first: those below the same row, then below the
   next above. A subtree lends at most its lending limit. Lenders and borrowers of one level share in
   proportion (largest remainders, so that whole GPUs add up).
4. What is left comes out of nobody's guarantee: owners were promised more than there is, or the
   lending limit fell while GPUs were lent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from quotas.core.cohort import IdleGuarantee


@dataclass(slots=True)
class Borrower:
    """A tenant's spot use by what it comes out of; `lenders` gives GPUs by the lending tenant."""

    tenant: UUID
    spot: int
    own: int = 0
    unowned: int = 0
    lenders: dict[UUID, int] = field(default_factory=dict)

    @property
    def borrowed(self) -> int:
        """GPUs out of others' guarantees."""
        return sum(self.lenders.values())


@dataclass(frozen=True, slots=True)
class Attribution:
    """The whole of one flavor. Tenants that use no spot, or leave nothing idle, are not named."""

    borrowers: Mapping[UUID, Borrower]
    idle: Mapping[UUID, int]

    def lent(self, tenant: UUID) -> int:
        """GPUs of the tenant's own idle guarantee that others use."""
        return sum(one.lenders.get(tenant, 0) for one in self.borrowers.values())


@dataclass(slots=True)
class _Level:
    """What a subtree still asks for (by borrower) and still offers (by lender)."""

    asks: dict[UUID, int] = field(default_factory=dict)
    offers: dict[UUID, int] = field(default_factory=dict)


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts in proportion to the weights, none above its weight.

    Largest remainders, earlier ones first among equals. `total` is at most the sum of the weights.
    """
    whole = sum(weights)
    assert 0 <= total <= whole
    if not total:
        return [0] * len(weights)
    parts = [total * weight // whole for weight in weights]
    by_rest = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in by_rest[: total - sum(parts)]:
        parts[i] += 1
    return parts


def attribute(
    idle: Iterable[IdleGuarantee],
    spot: Mapping[UUID, int],
    lineages: Mapping[UUID, tuple[UUID, ...]],
    unowned: int,
) -> Attribution:
    """Attributes `spot` (each tenant's own use, by tenant) to idle guarantees and `unowned` GPUs."""
    idle = sorted(idle, key=lambda row: (len(lineages[row.tenant]), row.tenant))
    rows = {row.tenant: row for row in idle}
    left = {row.tenant: row.gpus for row in idle}
    borrowers = {
        tenant: Borrower(tenant, gpus) for tenant, gpus in sorted(spot.items()) if gpus > 0
    }
    asks = {tenant: _take_own(one, lineages[tenant], left) for tenant, one in borrowers.items()}
    free = apportion(min(unowned, sum(asks.values())), list(asks.values()))
    levels: dict[UUID | None, _Level] = {None: _Level()}
    levels |= {tenant: _Level() for tenant in rows}
    for (tenant, wanted), gpus in zip(asks.items(), free, strict=True):
        borrowers[tenant].unowned = gpus
        if wanted > gpus:
            place = next((one for one in reversed(lineages[tenant]) if one in rows), None)
            levels[place].asks[tenant] = wanted - gpus
    for row in reversed(idle):  # those below before those above
        level, above = levels[row.tenant], levels[row.above]
        _match(level, borrowers)
        level.offers[row.tenant] = left[row.tenant]
        _limit(level, row)
        above.asks |= level.asks
        above.offers |= level.offers
    _match(levels[None], borrowers)
    for tenant, gpus in levels[None].asks.items():
        borrowers[tenant].unowned += gpus
    return Attribution(borrowers, {row.tenant: row.gpus for row in idle if row.gpus})


def _take_own(one: Borrower, lineage: Iterable[UUID], left: dict[UUID, int]) -> int:
    """Takes what its own row and those above leave idle; how much more it uses."""
    wanted = one.spot
    for tenant in reversed(tuple(lineage)):
        taken = min(wanted, left.get(tenant, 0))
        if taken:
            left[tenant] -= taken
            wanted -= taken
    one.own = one.spot - wanted
    return wanted


def _match(level: _Level, borrowers: Mapping[UUID, Borrower]) -> None:
    """Lets the asks of a level take its offers, both in proportion."""
    total = min(sum(level.asks.values()), sum(level.offers.values()))
    if not total:
        return
    given = dict(zip(level.offers, apportion(total, list(level.offers.values())), strict=True))
    served = apportion(total, list(level.asks.values()))
    for lender, gpus in given.items():
        level.offers[lender] -= gpus
    for (tenant, wanted), gpus in zip(tuple(level.asks.items()), served, strict=True):
        level.asks[tenant] = wanted - gpus
        for lender, part in zip(given, apportion(gpus, list(given.values())), strict=True):
            if part:
                given[lender] -= part
                lenders = borrowers[tenant].lenders
                lenders[lender] = lenders.get(lender, 0) + part


def _limit(level: _Level, row: IdleGuarantee) -> None:
    """Keeps in the subtree what is not lent."""
    offered = sum(level.offers.values())
    most = min(offered, row.whole, offered if row.lending_limit is None else row.lending_limit)
    parts = apportion(most, list(level.offers.values()))
    level.offers = dict(zip(level.offers, parts, strict=True))

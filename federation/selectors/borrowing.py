"""Who borrows from whom, as one person may see it: tenants of others are sums without names."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from federation.selectors.quota_sums import FlavorSums, Standing, Victim
from quotas.core.borrowing import Borrower

MOST_VICTIMS = 200


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Spot use by what it comes out of. `tenant` is a path, None = all that one may not see.

    `lenders`: GPUs by the lender's path; None likewise.
    """

    tenant: str | None
    spot: int
    own: int
    unowned: int
    lenders: Mapping[str | None, int]

    @property
    def borrowed(self) -> int:
        """GPUs out of others' guarantees."""
        return sum(self.lenders.values())


@dataclass(frozen=True, slots=True)
class Lent:
    """A tenant's own part of its guarantee that it leaves idle, and how much of that others use."""

    tenant: str | None
    idle: int
    lent: int


@dataclass(frozen=True, slots=True)
class NextVictim:
    """A gang that could be evicted, and its place from 1 among all of the flavor."""

    place: int
    tenant: str
    gang: Victim


@dataclass(frozen=True)
class FlavorBorrowing:
    """One flavor. `victims` are those that one may see, of `victims_in_all`."""

    sums: FlavorSums
    borrowers: tuple[Borrowed, ...]
    lenders: tuple[Lent, ...]
    victims: tuple[NextVictim, ...]
    victims_in_all: int


def borrowing(found: Standing, seen: Collection[UUID] | None) -> list[FlavorBorrowing]:
    """Every flavor of which something is used as spot or lies idle. `seen` None = all tenants."""
    names = {tenant: path for tenant, path in found.paths.items() if seen is None or tenant in seen}
    return [_flavor(sums, names) for sums in found.flavors.values()]


def _flavor(sums: FlavorSums, names: Mapping[UUID, str]) -> FlavorBorrowing:
    found = sums.attribution
    lenders: Counter[str | None] = Counter()
    idle: Counter[str | None] = Counter()
    for tenant, gpus in found.idle.items():
        idle[names.get(tenant)] += gpus
        lenders[names.get(tenant)] += found.lent(tenant)
    return FlavorBorrowing(
        sums=sums,
        borrowers=tuple(_borrowers(found.borrowers.values(), names)),
        lenders=tuple(Lent(name, idle[name], lenders[name]) for name in sorted(idle, key=_last)),
        victims=tuple(
            NextVictim(place, names[victim.tenant], victim)
            for place, victim in enumerate(sums.victims, start=1)
            if victim.tenant in names
        )[:MOST_VICTIMS],
        victims_in_all=len(sums.victims),
    )


def _borrowers(found: Iterable[Borrower], names: Mapping[UUID, str]) -> list[Borrowed]:
    groups: dict[str | None, list[Borrower]] = {}
    for one in found:
        groups.setdefault(names.get(one.tenant), []).append(one)
    rows = []
    for name in sorted(groups, key=_last):
        lenders: Counter[str | None] = Counter()
        for one in groups[name]:
            for lender, gpus in one.lenders.items():
                lenders[names.get(lender)] += gpus
        rows.append(
            Borrowed(
                tenant=name,
                spot=sum(one.spot for one in groups[name]),
                own=sum(one.own for one in groups[name]),
                unowned=sum(one.unowned for one in groups[name]),
                lenders={key: lenders[key] for key in sorted(lenders, key=_last)},
            )
        )
    return rows


def _last(name: str | None) -> tuple[bool, str]:
    """Names in order, the rest at the end."""
    return name is None, name or ""

"""Quota over the tree of tenants: what is used, and how much more a tenant may take.

A row speaks for one tenant and everything below it, for one flavor, and for one cluster or (cluster
None) for all of them together. An ask must stay within every row on the way from its tenant to the
root. Where no row on that way speaks of the flavor, the tenant has none of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

GUARANTEED, SPOT = "guaranteed", "spot"


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """GPUs owed to a subtree, and the most it may use as spot (None = no limit of its own)."""

    tenant: UUID
    flavor: str
    cluster: UUID | None
    guaranteed: int
    borrowing_limit: int | None
    revision: int = 1

    def limit(self, service_class: str) -> int | None:
        """The most GPUs of a class; None = no limit."""
        return self.guaranteed if service_class == GUARANTEED else self.borrowing_limit


@dataclass(frozen=True, slots=True)
class Use:
    """GPUs that a tenant's own jobs hold or were promised in one cluster and class."""

    tenant: UUID
    flavor: str
    cluster: UUID
    service_class: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Headroom:
    """How many more GPUs may be taken (None = no limit; below 0 = over), and the row that says so.

    `row` is None when nothing limits, or when no row speaks of the flavor (then `gpus` is 0).
    """

    gpus: int | None
    row: QuotaRow | None

    def holds(self, gpus: int) -> bool:
        """Whether an ask of so many GPUs stays within."""
        return self.gpus is None or gpus <= self.gpus


NO_QUOTA, NO_LIMIT = Headroom(0, None), Headroom(None, None)


class _Account:
    """A row and what its subtree uses, by class."""

    __slots__ = ("row", "used")

    def __init__(self, row: QuotaRow) -> None:
        self.row = row
        self.used = {GUARANTEED: 0, SPOT: 0}


class Limits:
    """What limits one tenant in one flavor, cluster and class; always up to date."""

    __slots__ = ("_chain", "_limited", "_service_class")

    def __init__(self, chain: tuple[_Account, ...], service_class: str) -> None:
        self._chain = chain
        self._service_class = service_class
        self._limited = [
            (limit, account)
            for account in chain
            if (limit := account.row.limit(service_class)) is not None
        ]

    def headroom(self) -> Headroom:
        """How much more may be taken, and the row that allows the least."""
        if not self._chain:
            return NO_QUOTA
        tightest = NO_LIMIT
        for limit, account in self._limited:
            left = limit - account.used[self._service_class]
            if tightest.gpus is None or left < tightest.gpus:
                tightest = Headroom(left, account.row)
        return tightest

    def hold(self, gpus: int) -> bool:
        """Whether an ask of so many GPUs stays within; the same as `headroom().holds(gpus)`."""
        if not self._chain:
            return gpus <= 0
        for limit, account in self._limited:
            if account.used[self._service_class] + gpus > limit:
                return False
        return True


class Cohort:
    """The tree's quota while a plan is made: use is added, never taken back."""

    def __init__(
        self,
        rows: Iterable[QuotaRow],
        lineages: Mapping[UUID, tuple[UUID, ...]],
        uses: Iterable[Use] = (),
    ) -> None:
        """`lineages` gives for each tenant the ids from the root to itself."""
        self._lineages = lineages
        self._accounts = {(row.tenant, row.flavor, row.cluster): _Account(row) for row in rows}
        self._chains: dict[tuple[UUID, str, UUID], tuple[_Account, ...]] = {}
        for use in uses:
            self.take(use)

    def limits(self, tenant: UUID, flavor: str, cluster: UUID, service_class: str) -> Limits:
        """What limits the tenant's use of a class in a cluster."""
        return Limits(self._chain(tenant, flavor, cluster), service_class)

    def headroom(self, tenant: UUID, flavor: str, cluster: UUID, service_class: str) -> Headroom:
        """How much more of a class the tenant may take in a cluster now, and what limits it."""
        return self.limits(tenant, flavor, cluster, service_class).headroom()

    def take(self, use: Use) -> None:
        """Count GPUs in every row that speaks for the tenant, whether or not they fit."""
        for account in self._chain(use.tenant, use.flavor, use.cluster):
            account.used[use.service_class] += use.gpus

    def used(self, row: QuotaRow, service_class: str) -> int:
        """What the row's subtree uses of a class."""
        return self._accounts[row.tenant, row.flavor, row.cluster].used[service_class]

    def _chain(self, tenant: UUID, flavor: str, cluster: UUID) -> tuple[_Account, ...]:
        """The rows that an ask must stay within, the tenant's own first."""
        key = (tenant, flavor, cluster)
        chain = self._chains.get(key)
        if chain is None:
            places = [
                (ancestor, flavor, place)
                for ancestor in reversed(self._lineages[tenant])
                for place in (cluster, None)
            ]
            chain = tuple(self._accounts[place] for place in places if place in self._accounts)
            self._chains[key] = chain
        return chain

"""Quota over the tree of tenants: what is owed, kept, lent and used, and how much more may be taken.

A row speaks for one tenant and everything below it, for one flavor, and for one cluster or (cluster
None) for all of them together. The rows of one flavor and place make a *book*: a tree in which each
row hangs below the nearest row above it. An ask must hold in the book of all clusters and in that
of its cluster, as far as its tenant has rows in them; with rows in neither there is no quota.

Guaranteed. A row reserves its guarantee from the row above whether it is used or not; what a row
does not reserve for rows below is headroom, which its subtree shares. With `need` = the use of
those that have no row of their own in between + the larger of guarantee and `need` of each row
below, an ask is owed while the excess of `need` over guarantee finds room in some row above, and
while the topmost row's whole use stays within its guarantee.

Spot. Use stays within the borrowing limit of every row above, and leaves idle what others keep: of
a guarantee all but the lending limit is kept for the row's own subtree, less what that uses. A GPU
that goes from one to another without being idle is used by the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

GUARANTEED, SPOT = "guaranteed", "spot"


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """GPUs owed to a subtree; the most it may use as spot, and lend as spot (None = no limit).

    `weight` is its part of spot against its siblings' (see `quotas.core.fair_share`).
    """

    tenant: UUID
    flavor: str
    cluster: UUID | None
    guaranteed: int
    borrowing_limit: int | None
    revision: int = 1
    lending_limit: int | None = None
    weight: int = 1

    @property
    def kept(self) -> int:
        """GPUs of the guarantee that are never lent."""
        lent = self.guaranteed if self.lending_limit is None else self.lending_limit
        return max(self.guaranteed - lent, 0)


@dataclass(frozen=True, slots=True)
class Use:
    """GPUs that a tenant's own jobs hold or were promised in one cluster and class."""

    tenant: UUID
    flavor: str
    cluster: UUID
    service_class: str
    gpus: int


@dataclass(frozen=True, slots=True)
class IdleGuarantee:
    """What a row's own part of its guarantee leaves idle: neither used nor reserved for rows below.

    `above` is the tenant of the row that it hangs below, None for a topmost one. `whole` is what the
    whole subtree leaves idle of the guarantee, `lending_limit` the most it lends of that.
    """

    tenant: UUID
    above: UUID | None
    gpus: int
    whole: int
    lending_limit: int | None


class Bound(StrEnum):
    """What bounds an ask: no quota at all, a guarantee, a borrowing limit, what others keep."""

    NOTHING = "nothing"
    NO_QUOTA = "no_quota"
    GUARANTEE = "guarantee"
    BORROWING = "borrowing"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Headroom:
    """How many more GPUs may be taken (None = no limit; below 0 = over), and what says so.

    `row` is the row that bounds; None where nothing does, no row speaks of the flavor, or others
    keep what is idle.
    """

    gpus: int | None
    row: QuotaRow | None
    bound: Bound = Bound.NOTHING

    def holds(self, gpus: int) -> bool:
        """Whether an ask of so many GPUs stays within."""
        return self.gpus is None or gpus <= self.gpus

    def tighter(self, other: "Headroom") -> "Headroom":
        """The one that allows less; this one if both allow the same."""
        if other.gpus is None:
            return self
        return other if self.gpus is None or other.gpus < self.gpus else self


NO_QUOTA = Headroom(0, None, Bound.NO_QUOTA)
NO_LIMIT = Headroom(None, None)


class _Account:
    """A row in its book, and what its subtree uses."""

    __slots__ = ("above", "kept_below", "need", "passed", "row", "used")

    def __init__(self, row: QuotaRow, above: "_Account | None") -> None:
        self.row = row
        self.above = above
        self.used = {GUARANTEED: 0, SPOT: 0}
        self.need = 0
        self.kept_below = 0  # what the rows right below keep
        self.passed = 0  # used still, but it will be another's and never idle

    @property
    def slack(self) -> int:
        """Guaranteed GPUs that no use and no row below has reserved."""
        return self.row.guaranteed - self.need

    @property
    def reserved(self) -> int:
        """What the row reserves from the row above."""
        return max(self.row.guaranteed, self.need)

    @property
    def kept(self) -> int:
        """Idle GPUs that the subtree keeps from all others."""
        own = self.row.kept - self.used[GUARANTEED] - self.used[SPOT] + self.passed
        return max(own, self.kept_below, 0)


class _Book:
    """The rows of one flavor in one place as trees, and the idle GPUs there if they are known."""

    def __init__(self, rows: Iterable[QuotaRow], lineages: Mapping[UUID, tuple[UUID, ...]]) -> None:
        self._lineages = lineages
        self.accounts: dict[UUID, _Account] = {}
        self.idle: int | None = None
        self.kept = 0  # by the topmost rows
        self.changes = 0  # so often has what is used, kept or idle changed
        for row in sorted(rows, key=lambda row: len(lineages[row.tenant])):
            account = self.accounts[row.tenant] = _Account(row, self.nearest(row.tenant))
            self._change(account.above, need=row.guaranteed, kept=account.kept)

    def nearest(self, tenant: UUID) -> "_Account | None":
        """The row that speaks for the tenant: its own or the nearest above."""
        for ancestor in reversed(self._lineages[tenant]):
            if ancestor in self.accounts:
                return self.accounts[ancestor]
        return None

    def add(self, account: "_Account | None", service_class: str, gpus: int) -> None:
        """Counts GPUs used in every row above."""
        self.changes += 1
        need = gpus if service_class == GUARANTEED else 0
        kept = 0
        while account is not None:
            reserved, kept_before = account.reserved, account.kept
            account.used[service_class] += gpus
            account.need += need
            account.kept_below += kept
            need, kept = account.reserved - reserved, account.kept - kept_before
            account = account.above
        self.kept += kept

    def pass_on(self, account: "_Account | None", gpus: int) -> None:
        """Counts GPUs no longer as used where it is asked what is kept, in every row above."""
        self.changes += 1
        self._change(account, need=0, kept=0, passed=gpus)

    def _change(self, account: "_Account | None", *, need: int, kept: int, passed: int = 0) -> None:
        """Lets a row reserve, keep and pass on more, up to the top."""
        while account is not None:
            reserved, kept_before = account.reserved, account.kept
            account.need += need
            account.kept_below += kept
            account.passed += passed
            need, kept = account.reserved - reserved, account.kept - kept_before
            account = account.above
        self.kept += kept

    def kept_from(self, account: _Account) -> int:
        """Idle GPUs that all others keep from the row's own use."""
        kept, here = account.kept_below, account
        while here.above is not None:
            kept += here.above.kept_below - here.kept
            here = here.above
        return kept + self.kept - here.kept


class Limits:
    """What limits one tenant in one flavor, cluster and class; always up to date."""

    __slots__ = ("_chains", "_changes", "_headroom", "_is_spot")

    def __init__(self, books: Iterable[_Book], tenant: UUID, service_class: str) -> None:
        found = [(book, book.nearest(tenant)) for book in books]
        self._chains = [(book, account) for book, account in found if account is not None]
        self._is_spot = service_class == SPOT
        self._headroom = NO_QUOTA
        self._changes = -1  # those that are seen in `_headroom`

    def headroom(self) -> Headroom:
        """How much more may be taken, and what allows the least."""
        changes = 0
        for book, _ in self._chains:
            changes += book.changes
        if changes != self._changes:
            self._headroom, self._changes = self._find(), changes
        return self._headroom

    def _find(self) -> Headroom:
        if not self._chains:
            return NO_QUOTA
        tightest = NO_LIMIT
        for book, account in self._chains:
            found = _spot_left(book, account) if self._is_spot else _guaranteed_left(account)
            tightest = tightest.tighter(found)
        return tightest

    def hold(self, gpus: int) -> bool:
        """Whether an ask of so many GPUs stays within."""
        return self.headroom().holds(gpus)


def _guaranteed_left(account: _Account) -> Headroom:
    left, here = max(account.slack, 0), account
    while here.above is not None:
        here = here.above
        left += max(here.slack, 0)
    whole = here.row.guaranteed - here.used[GUARANTEED]
    if whole < left:
        return Headroom(whole, here.row, Bound.GUARANTEE)
    return Headroom(left, account.row, Bound.GUARANTEE)


def _spot_left(book: _Book, account: _Account) -> Headroom:
    tightest = NO_LIMIT
    here: _Account | None = account
    while here is not None:
        if here.row.borrowing_limit is not None:
            left = here.row.borrowing_limit - here.used[SPOT]
            tightest = tightest.tighter(Headroom(left, here.row, Bound.BORROWING))
        here = here.above
    if book.idle is not None:
        kept = book.kept_from(account)
        if kept:
            tightest = tightest.tighter(Headroom(book.idle - kept, None, Bound.KEPT))
    return tightest


class Cohort:
    """The tree's quota while a plan is made."""

    def __init__(
        self,
        rows: Iterable[QuotaRow],
        lineages: Mapping[UUID, tuple[UUID, ...]],
        uses: Iterable[Use] = (),
        idle: Mapping[tuple[str, UUID], int] | None = None,
    ) -> None:
        """`lineages` gives for each tenant the ids from the root to itself.

        `idle` are free GPUs by flavor and cluster beside `uses`. Without it nothing is known of
        them, and what owners keep limits nobody.
        """
        by_place: dict[tuple[str, UUID | None], list[QuotaRow]] = {}
        for row in rows:
            by_place.setdefault((row.flavor, row.cluster), []).append(row)
        self._books = {place: _Book(found, lineages) for place, found in by_place.items()}
        for use in uses:
            self._count(use)
        if idle is not None:
            self.know_idle(idle)

    def know_idle(self, idle: Mapping[tuple[str, UUID], int]) -> None:
        """From now on what owners keep of these free GPUs, by flavor and cluster, limits spot."""
        for (flavor, place), book in self._books.items():
            book.changes += 1
            book.idle = sum(
                gpus
                for (name, cluster), gpus in idle.items()
                if name == flavor and place in (None, cluster)
            )

    def limits(self, tenant: UUID, flavor: str, cluster: UUID, service_class: str) -> Limits:
        """What limits the tenant's use of a class in a cluster."""
        return Limits(self._at(flavor, cluster), tenant, service_class)

    def headroom(self, tenant: UUID, flavor: str, cluster: UUID, service_class: str) -> Headroom:
        """How much more of a class the tenant may take in a cluster now, and what limits it."""
        return self.limits(tenant, flavor, cluster, service_class).headroom()

    def take(self, use: Use, idle: int | None = None) -> None:
        """Count GPUs, whether or not they fit. `idle`: how many of them were idle, None = all."""
        self._count(use)
        for book in self._at(use.flavor, use.cluster):
            if book.idle is not None:
                book.idle -= use.gpus if idle is None else idle
                book.changes += 1

    def give_back(self, use: Use) -> None:
        """Count GPUs no longer; `take` with no idle GPUs counts them again."""
        self._count(Use(use.tenant, use.flavor, use.cluster, use.service_class, -use.gpus))

    def pass_on(self, use: Use) -> None:
        """GPUs in use go to another, who was counted with them by `take`: they are never idle.

        Both count in limits. Only the other one counts in what owners keep of idle GPUs.
        """
        for book in self._at(use.flavor, use.cluster):
            book.pass_on(book.nearest(use.tenant), use.gpus)

    def promote(self, use: Use) -> None:
        """Count GPUs held as spot as guaranteed from now on."""
        self.give_back(Use(use.tenant, use.flavor, use.cluster, SPOT, use.gpus))
        self._count(use)

    def kept(self, flavor: str) -> int:
        """Idle GPUs of a flavor, wherever they are, that owners keep from all others."""
        book = self._books.get((flavor, None))
        return book.kept if book else 0

    def idle_guarantees(self, flavor: str) -> tuple[IdleGuarantee, ...]:
        """What the rows for all clusters leave idle of a flavor; rows above come before others."""
        book = self._books.get((flavor, None))
        return tuple(
            IdleGuarantee(
                tenant=account.row.tenant,
                above=account.above.row.tenant if account.above else None,
                gpus=max(account.slack, 0),
                whole=max(account.row.guaranteed - account.used[GUARANTEED], 0),
                lending_limit=account.row.lending_limit,
            )
            for account in (book.accounts.values() if book else ())
        )

    def used(self, row: QuotaRow, service_class: str) -> int:
        """What the row's subtree uses of a class."""
        return self._books[row.flavor, row.cluster].accounts[row.tenant].used[service_class]

    def _count(self, use: Use) -> None:
        for book in self._at(use.flavor, use.cluster):
            book.add(book.nearest(use.tenant), use.service_class, use.gpus)

    def _at(self, flavor: str, cluster: UUID) -> list[_Book]:
        """The books that an ask must hold in."""
        places = ((flavor, cluster), (flavor, None))
        return [self._books[place] for place in places if place in self._books]

"""Quotas mirrored to a member cluster: the limit that its own accounts could hold, and the drift.

A member that limits its accounts keeps people within a tenant's share also where they go past
Muster. Such a limit must never hold back what Muster itself binds, so it is an upper bound:

    limit = min( guaranteed + spot, GPUs of the flavor in the cluster ), at least what is in use

over all tenants that are charged to the account or to one below it there, at the most generous
moment from now on (a grant that begins next week counts already). In the rows of one place:

- guaranteed: what they use, and the room that is left in each row above them when every row beside
  has reserved its guarantee. A quota set below what is in use leaves the use, and no room.
- spot: the borrowing limit of each row, at most what the rows below may use unless a tenant has its
  use counted in the row itself.

Where a tenant has rows for all clusters and for this one, both hold.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from clusters.core.limits import ANY_GPU, LimitHolder, LimitsSeen, resource_of
from quotas.core.cohort import GUARANTEED, SPOT, QuotaRow, Use

Lineages = Mapping[UUID, tuple[UUID, ...]]
# What a member says of a job that the limit of its account, or one above or below it, keeps waiting:
# Slurm's word for GrpTRES of an association (22.05, run live).
HELD_BY_LIMIT = frozenset({"AssocGrpGRES"})
NO_BOUND = 2**62  # more GPUs than there are anywhere; sums of it stay numbers


class Drift(StrEnum):
    """How a limit that is there stands to the one that is wanted.

    Foreign: a limit on GPUs in the way that is not Muster's to change: of an account above, of a
    person, or of another resource. No account, not counted: it cannot be there.
    """

    NONE = "none"
    MISSING = "missing"
    DIFFERS = "differs"
    FOREIGN = "foreign"
    NO_ACCOUNT = "no_account"
    NOT_COUNTED = "not_counted"


CHANGEABLE = (Drift.MISSING, Drift.DIFFERS)


@dataclass(frozen=True, slots=True)
class Served:
    """A flavor on the cluster: its GRES type or resource there, and how many GPUs of it there are."""

    flavor: str
    device: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster whose accounts are looked at, and what it has."""

    cluster: UUID
    served: tuple[Served, ...]


@dataclass(frozen=True, slots=True)
class MirrorLine:
    """One limit. `there` and `wanted` are GPUs, None = no limit.

    Attributes:
        account, user: whose limit it is; user "" = the account's own.
        resource: `gpu:h100`, or `gpu` for GPUs of all kinds.
        tenants: whose use the wanted limit is for.
        holds_back: whether what is there keeps from running what Muster may bind.
        fixed: why this one cannot be written by Muster; "" = it can.
    """

    account: str
    user: str
    resource: str
    there: int | None
    wanted: int | None
    drift: Drift
    tenants: tuple[UUID, ...] = ()
    holds_back: bool = False
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class Charges:
    """Who is charged to which account: tenants by account, and those that no account is named for.

    The latter are charged to the default account of whoever submits; `defaults` are the default
    accounts of all who may. `flavors` are those that an account takes, where it is not all: a Volcano
    queue, which is an account here, may be of one.
    """

    named: Mapping[str, frozenset[UUID]]
    unnamed: frozenset[UUID]
    defaults: frozenset[str]
    flavors: Mapping[str, frozenset[str]] | None = None

    def of(self, accounts: Collection[str]) -> frozenset[UUID]:
        """Every tenant that some of these accounts may be charged for."""
        found = frozenset[UUID]().union(*(self.named.get(one, ()) for one in accounts))
        return found | self.unnamed if self.defaults & set(accounts) else found

    def taken(self, place: Place, accounts: Collection[str]) -> Place:
        """The place with the flavors that some of these accounts take."""
        if self.flavors is None:
            return place
        taken = frozenset[str]().union(*(self.flavors.get(one, ()) for one in accounts))
        return replace(place, served=tuple(s for s in place.served if s.flavor in taken))


def most_held(
    rows: Iterable[QuotaRow],
    uses: Iterable[Use],
    lineages: Lineages,
    tenants: Collection[UUID],
    place: tuple[str, UUID],
) -> int:
    """The most GPUs that Muster may ever let these tenants hold together in a place, from now on.

    `place` is a flavor and a cluster, whose size is not looked at: NO_BOUND or more = as many as
    there are. Use beyond a quota that was lowered goes on, and counts.
    """
    flavor, cluster = place
    ours = [use for use in uses if use.tenant in tenants and use.flavor == flavor]
    in_it = [use for use in ours if use.cluster == cluster]
    here = _Book(rows, in_it, lineages, place)
    everywhere = _Book(rows, ours, lineages, (flavor, None))
    in_here = {tenant for tenant in tenants if here.speaks_for(tenant)}
    in_all = {tenant for tenant in tenants if everywhere.speaks_for(tenant)}
    unbound = sum(use.gpus for use in in_it if use.tenant not in in_here | in_all)
    return unbound + min(
        here.most(in_here) + everywhere.most(in_all - in_here),
        everywhere.most(in_all) + here.most(in_here - in_all),
    )


class _Book:
    """The rows of one flavor in one place, None = everywhere, and the use of some tenants there."""

    def __init__(
        self,
        rows: Iterable[QuotaRow],
        uses: Iterable[Use],
        lineages: Lineages,
        place: tuple[str, UUID | None],
    ) -> None:
        self._lineages = lineages
        self._rows = {row.tenant: row for row in rows if (row.flavor, row.cluster) == place}
        self._uses = tuple(uses)
        self._below: dict[UUID | None, list[UUID]] = {}
        for tenant in self._rows:
            self._below.setdefault(self._nearest(lineages[tenant][:-1]), []).append(tenant)

    def speaks_for(self, tenant: UUID) -> bool:
        """Whether the tenant or one above it has a row."""
        return self._nearest(self._lineages[tenant]) is not None

    def most(self, tenants: Collection[UUID]) -> int:
        """The most that tenants with a row may hold together, guaranteed and spot."""
        held = {self._nearest(self._lineages[tenant]) for tenant in tenants}
        concerned = {above for row in held if row for above in self._lineages[row]}
        used: dict[str, Counter[UUID]] = {GUARANTEED: Counter(), SPOT: Counter()}
        for use in self._uses:
            nearest = self._nearest(self._lineages[use.tenant])
            if use.tenant in tenants and nearest:
                used[use.service_class][nearest] += use.gpus
        tops = [row for row in self._below.get(None, ()) if row in concerned]
        return sum(
            self._guaranteed(top, concerned, used[GUARANTEED])
            + self._spot(top, held, concerned, used[SPOT])[0]
            for top in tops
        )

    def _nearest(self, lineage: Sequence[UUID]) -> UUID | None:
        return next((one for one in reversed(lineage) if one in self._rows), None)

    def _guaranteed(self, top: UUID, concerned: Collection[UUID], used: Counter[UUID]) -> int:
        """What is used, and the room in each row on the way; starting one takes of the latter.

        Never more than the topmost guarantee, unless it is used already.
        """
        in_use, _, room = self._room(top, concerned, used)
        return max(min(in_use + room, self._rows[top].guaranteed), in_use)

    def _room(
        self, row: UUID, concerned: Collection[UUID], used: Counter[UUID]
    ) -> tuple[int, int, int]:
        """Of a row and all below it: what is used, what it reserves, and the room in concerned rows."""
        in_use, need, room = used[row], used[row], 0
        for below in self._below.get(row, ()):
            its_use, its_reserve, its_room = self._room(below, concerned, used)
            in_use, need, room = in_use + its_use, need + its_reserve, room + its_room
        owed = self._rows[row].guaranteed
        own = max(owed - need, 0) if row in concerned else 0
        return in_use, max(owed, need), room + own

    def _spot(
        self,
        row: UUID,
        held: Collection[UUID | None],
        concerned: Collection[UUID],
        used: Counter[UUID],
    ) -> tuple[int, int]:
        """The most spot of a row and all below it, and what is used of it."""
        below = [
            self._spot(one, held, concerned, used)
            for one in self._below.get(row, ())
            if one in concerned
        ]
        in_use = used[row] + sum(its_use for _, its_use in below)
        asked = NO_BOUND if row in held else sum(most for most, _ in below)
        limit = self._rows[row].borrowing_limit
        return (asked if limit is None else min(asked, max(limit, in_use))), in_use


def wanted_limits(
    tables: Iterable[Sequence[QuotaRow]],
    uses: Sequence[Use],
    lineages: Lineages,
    tenants: Collection[UUID],
    place: Place,
    counted: Collection[str],
) -> dict[str, int]:
    """The limit by resource for an account that all of these tenants are charged to.

    `tables` are the rows as they hold at each moment that counts. A flavor whose GRES type is not
    `counted` there is held by a limit on GPUs of all kinds, which then is the sum of all flavors'.
    """
    most: dict[str, int] = {}
    for served in place.served:
        used = sum(
            use.gpus
            for use in uses
            if use.tenant in tenants
            and use.flavor == served.flavor
            and use.cluster == place.cluster
        )
        bound = max(
            (
                most_held(rows, uses, lineages, tenants, (served.flavor, place.cluster))
                for rows in tables
            ),
            default=0,
        )
        bounded = max(min(bound, served.gpus), used)
        most[served.device] = most.get(served.device, 0) + bounded  # flavors may share a resource
    typed = {resource_of(device): gpus for device, gpus in most.items()}
    if all(resource in counted for resource in typed) or ANY_GPU not in counted:
        return typed
    kept = {resource: gpus for resource, gpus in typed.items() if resource in counted}
    return {**kept, ANY_GPU: sum(most.values())}


def drift_of(account: str, wanted: Mapping[str, int], seen: LimitsSeen) -> list[MirrorLine]:
    """What is there for an account beside what is wanted, and the foreign limits in the way."""
    holder = seen.account(account)
    lines = []
    for resource, gpus in wanted.items():
        there = holder.gpus.get(resource) if holder else None
        if holder is None:
            drift = Drift.NO_ACCOUNT
        elif resource not in seen.counted:
            drift = Drift.NOT_COUNTED
        elif there is None:
            drift = Drift.MISSING
        else:
            drift = Drift.NONE if there == gpus else Drift.DIFFERS
        holds_back = there is not None and there < gpus
        fixed = holder.fixed if holder and drift in CHANGEABLE else ""
        lines.append(
            MirrorLine(
                account, "", resource, there, gpus, drift, holds_back=holds_back, fixed=fixed
            )
        )
    return lines + _foreign(account, wanted, seen)


def _foreign(account: str, wanted: Mapping[str, int], seen: LimitsSeen) -> list[MirrorLine]:
    """Limits on GPUs that also bound the account's jobs and that Muster does not manage."""
    chain = accounts_above(account, seen.holders)
    lines = []
    for holder in seen.holders:
        is_own = holder.account == account and not holder.user
        is_person = holder.account == account and bool(holder.user)
        if not (is_own or is_person or (holder.account in chain and not holder.user)):
            continue
        for resource, there in holder.gpus.items():
            if is_own and resource in wanted:
                continue
            least = wanted.get(resource, sum(wanted.values()) if resource == ANY_GPU else 0)
            lines.append(
                MirrorLine(
                    holder.account,
                    holder.user,
                    resource,
                    there,
                    None,
                    Drift.FOREIGN,
                    holds_back=there < least,
                )
            )
    return lines


def accounts_above(account: str, holders: Iterable[LimitHolder]) -> tuple[str, ...]:
    """The accounts above one, the nearest first."""
    parents = {one.account: one.parent for one in holders if not one.user}
    chain: list[str] = []
    here = parents.get(account, "")
    while here and here not in chain:
        chain.append(here)
        here = parents.get(here, "")
    return tuple(chain)


def mirror(
    *,
    tables: Sequence[Sequence[QuotaRow]],
    uses: Sequence[Use],
    lineages: Lineages,
    charges: Charges,
    place: Place,
    seen: LimitsSeen,
) -> tuple[MirrorLine, ...]:
    """Every limit of the cluster that concerns tenants, in order of accounts, each told once.

    An account's limit counts what is charged to accounts below it as well, as the member does.
    Limits of accounts that only stand above a named one are foreign.
    """
    lines: dict[tuple[str, str, str], MirrorLine] = {}
    for account in sorted(charges.named):
        below = {
            one.account
            for one in seen.holders
            if not one.user and account in accounts_above(one.account, seen.holders)
        }
        tenants, here = charges.of({account} | below), charges.taken(place, {account} | below)
        wanted = wanted_limits(tables, uses, lineages, tenants, here, seen.counted)
        for line in drift_of(account, wanted, seen):
            key = line.account, line.user, line.resource
            if line.drift is Drift.FOREIGN:
                known = lines.get(key)
                if known is None or (known.drift is Drift.FOREIGN and not known.holds_back):
                    lines[key] = line
            else:
                lines[key] = replace(line, tenants=tuple(sorted(tenants)))
    return tuple(lines[key] for key in sorted(lines))

"""Writes of quotas: how many GPUs of a flavor a tenant is owed, and may use as spot."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from clusters.models import Cluster, Flavor
from kit.errors import (
    ConflictError,
    FieldProblem,
    InvalidContentError,
    NotFoundError,
    PermissionDeniedError,
    StaleWriteError,
)
from kit.intervals import from_ms, to_ms
from quotas.core.cohort import QuotaRow
from quotas.core.grants import first_misfits
from quotas.core.table import NUMBERS
from quotas.models import Quota
from quotas.selectors import grants_from, rows_as_set
from tenancy.models import Tenant, User
from tenancy.services.records import ring, why_problems, write_audit

Place = tuple[UUID, str, UUID | None]  # tenant, flavor, cluster
MOST_GPUS = 1_000_000
MOST_WEIGHT = 1000


class ChildrenAboveParentError(ConflictError):
    """Tenants below one would be guaranteed more than itself."""

    code, status, title = "children_above_parent", 409, "The children's guarantees do not fit"


class GrantsCountError(ConflictError):
    """Grants count on a row that is to be taken away."""

    code, status, title = "grants_count", 409, "Grants count on the quota"


def whole_number(
    name: str, number: object, least: int, most: int, what: str
) -> FieldProblem | None:
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if is_whole and least <= number <= most:  # type: ignore[operator]
        return None
    return FieldProblem(f"/{name}", "invalid_number", f"Give {what} from {least} to {most}.")


def problems_of(values: Mapping[str, Any], *, is_for_one_cluster: bool) -> list[FieldProblem]:
    """Everything that one row cannot say: numbers out of range, more lent than owed."""
    problems = [
        whole_number(name, values[name], 0, MOST_GPUS, "GPUs")
        for name in ("guaranteed", "borrowing_limit", "lending_limit")
        if name == "guaranteed" or values[name] is not None
    ]
    problems.append(whole_number("weight", values["weight"], 1, MOST_WEIGHT, "a weight"))
    found = [problem for problem in problems if problem]
    if not found and (values["lending_limit"] or 0) > values["guaranteed"]:
        words = f"Lend at most the {values['guaranteed']} GPUs that are guaranteed."
        found.append(FieldProblem("/lending_limit", "more_than_guaranteed", words))
    if not found and is_for_one_cluster and values["weight"] != 1:
        words = "A weight belongs to the row for all clusters; leave it at 1 here."
        found.append(FieldProblem("/weight", "not_for_one_cluster", words))
    return found


def _check(values: Mapping[str, Any], cluster: Cluster | None, why: object) -> None:
    found = [*problems_of(values, is_for_one_cluster=cluster is not None), *why_problems(why)]
    if found:
        raise InvalidContentError("The quota is not valid.", errors=found)


def require_fit_in(tenant: Tenant, flavor_id: str, now: datetime) -> None:
    """Refuses what the tree of a tenant owes in a flavor, now or at a moment to come.

    Raises:
        ChildrenAboveParentError: naming the row, its children and the numbers.
    """
    tenants = _tree(tenant.lineage[0])
    rows = [row for row in rows_as_set() if row.flavor == flavor_id and row.tenant in tenants]
    require_fit(rows, tenants, now)


def require_fit_below(root: UUID, now: datetime) -> None:
    """Refuses what a whole tree owes in any flavor, now or at a moment to come.

    Raises:
        ChildrenAboveParentError: naming the row, its children and the numbers.
    """
    tenants = _tree(root)
    require_fit([row for row in rows_as_set() if row.tenant in tenants], tenants, now)


def _tree(root: UUID) -> dict[UUID, Tenant]:
    return {one.id: one for one in Tenant.objects.filter(lineage__0=root)}


def require_fit(rows: Sequence[QuotaRow], tenants: Mapping[UUID, Tenant], now: datetime) -> None:
    """Refuses rows (as they are to be set) of which some owe more than they are owed.

    The grants that hold now or will are counted, each in its time.

    Raises:
        ChildrenAboveParentError: naming the row, its children, the numbers, and when it would be.
    """
    lineages = {one.id: tuple(one.lineage) for one in tenants.values()}
    places = {(row.tenant, row.flavor) for row in rows}
    grants = [one for one in grants_from(now) if (one.tenant, one.flavor) in places]
    at_ms, found = first_misfits(rows, grants, lineages, to_ms(now))
    for misfit in found:
        where = tenants[misfit.row.tenant].path
        later = f"From {from_ms(at_ms):%Y-%m-%d %H:%M} UTC on, " if at_ms > to_ms(now) else ""
        parts = ", ".join(
            sorted(f"{tenants[claim.tenant].path} {claim.guaranteed}" for claim in misfit.claims)
        )
        raise ChildrenAboveParentError(
            f"{later}{where} is guaranteed {misfit.row.guaranteed} {misfit.row.flavor} GPUs, and "
            f"is to owe {misfit.claimed}: {parts}. Raise the first or lower the others.",
            pointer="/guaranteed",
        )


def require_share(actor: User | None, tenant: Tenant, flavor_id: str, cluster: Any = None) -> None:
    """Refuses an owner who would share out what no tenant above has: only admins set topmost rows.

    A row for one cluster is also bounded by its tenant's row for all clusters.

    Raises:
        PermissionDeniedError: there is no row of the flavor and place above the tenant.
    """
    if actor is None or actor.is_superuser:
        return
    above = Q(tenant__in=tenant.lineage[:-1], cluster=cluster)
    bounds = above if cluster is None else above | Q(tenant=tenant, cluster=None)
    if not Quota.objects.filter(bounds, flavor=flavor_id).exists():
        raise PermissionDeniedError(
            f"No tenant above {tenant.path} has a quota of {flavor_id} to share out; ask an admin."
        )


def require_no_grants(places: Iterable[Place], now: datetime) -> None:
    """Refuses to take away rows for all clusters on which a grant counts, now or later.

    Raises:
        GrantsCountError: naming the flavor.
    """
    whole = [(tenant, flavor) for tenant, flavor, cluster in places if cluster is None]
    granted = {(one.tenant, one.flavor) for one in grants_from(now)} if whole else set()
    for tenant, flavor in whole:
        if (tenant, flavor) in granted:
            raise GrantsCountError(
                f"Grants of {flavor} count on this quota; withdraw them first, or set it to 0."
            )


def _require_revision(held: Quota | None, expected: int | None) -> None:
    found = held.revision if held else 0
    if expected is not None and expected != found:
        seen = f"revision {found}" if held else "gone"
        raise StaleWriteError(f"The quota is {seen} now, not revision {expected}; read it again.")


def values_of(quota: Quota) -> dict[str, Any]:
    """What a row says."""
    return {name: getattr(quota, name) for name in NUMBERS}


def _record(
    *,
    actor: User | None,
    quota: Quota,
    action: str,
    before: dict[str, object] | None,
    after: dict[str, object] | None,
    why: str,
    now: datetime,
) -> None:
    place = {
        "flavor": quota.flavor_id,
        "cluster": quota.cluster.name if quota.cluster else None,
    }
    write_audit(
        actor=actor,
        action=action,
        object_type="quota",
        object_id=f"{quota.tenant.path} {quota.flavor_id}",
        before=None if before is None else {**place, **before},
        after=None if after is None else {**place, **after},
        why=why,
        now=now,
    )
    ring()


def lock_tree(tenant: Tenant) -> None:
    """One writer a tree: siblings' guarantees are summed, and two first writes must not collide.

    `tenant` is then as it stands in the tree now: it may have been moved since it was read. The lock
    of a root that it has left is given back first: two roots are locked in their order only.
    """
    is_locked = False
    while not is_locked:
        root = tenant.lineage[0]
        with transaction.atomic():
            list(Tenant.objects.select_for_update(no_key=True).filter(pk=root).values_list("id"))
            tenant.refresh_from_db(fields=["parent", "path", "lineage"])
            is_locked = tenant.lineage[0] == root
            transaction.set_rollback(not is_locked)


@transaction.atomic
def set_quota(
    *,
    actor: User | None,
    tenant: Tenant,
    flavor: Flavor,
    cluster: Cluster | None = None,
    guaranteed: int,
    borrowing_limit: int | None = None,
    lending_limit: int | None = None,
    weight: int = 1,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> Quota:
    """Sets what the tenant's subtree is owed, and the most it may use and lend as spot.

    Limits that are None do not limit. `expected_revision` is the one the caller saw (0 = saw none;
    None = whatever is there). The same values again change nothing. An edit may leave the tenant
    over its quota: what runs keeps its class and only shrinks.

    Raises:
        InvalidContentError: a number is out of its range.
        PermissionDeniedError: an owner may share out only what a tenant above has.
        StaleWriteError: somebody changed the quota since.
        ChildrenAboveParentError: the tenants below would be guaranteed more than one above, now or
            while some grant holds.
    """
    after: dict[str, object] = {
        "guaranteed": guaranteed,
        "borrowing_limit": borrowing_limit,
        "lending_limit": lending_limit,
        "weight": weight,
    }
    _check(after, cluster, why)
    lock_tree(tenant)
    require_share(actor, tenant, flavor.name, cluster)
    held = (
        Quota.objects.select_for_update(of=("self",))
        .select_related("tenant", "cluster")
        .filter(tenant=tenant, flavor=flavor, cluster=cluster)
        .first()
    )
    _require_revision(held, expected_revision)
    before = values_of(held) if held else None
    quota = held or Quota(tenant=tenant, flavor=flavor, cluster=cluster)
    if before == after:
        return quota
    for name, value in after.items():
        setattr(quota, name, value)
    quota.revision = held.revision + 1 if held else 1
    quota.save()
    require_fit_in(tenant, flavor.name, now)
    action = "update" if held else "create"
    _record(actor=actor, quota=quota, action=action, before=before, after=after, why=why, now=now)
    return quota


@transaction.atomic
def remove_quota(
    *,
    actor: User | None,
    quota: Quota,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> None:
    """Takes the row away: the tenant is owed nothing of it and has no limit of its own there.

    Raises:
        NotFoundError: it is gone already.
        StaleWriteError: somebody changed it since.
        GrantsCountError: a grant counts on it, now or later.
        ChildrenAboveParentError: the rows below it would claim too much of the row above.
    """
    lock_tree(quota.tenant)
    held = (
        Quota.objects.select_for_update(of=("self",))
        .select_related("tenant", "cluster")
        .filter(pk=quota.pk)
        .first()
    )
    if held is None:
        raise NotFoundError("The quota is gone already.")
    _require_revision(held, expected_revision)
    before = values_of(held)
    require_no_grants([(held.tenant_id, held.flavor_id, held.cluster_id)], now)
    Quota.objects.filter(pk=held.pk).delete()
    require_fit_in(held.tenant, held.flavor_id, now)
    _record(actor=actor, quota=held, action="remove", before=before, after=None, why=why, now=now)

"""Changes of quotas as people make them on a page: what they saw, what they want, and back again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from clusters.models import Cluster
from kit.errors import ConflictError, NotFoundError, StaleWriteError
from quotas.core.table import NUMBERS, TableRow
from quotas.models import Quota
from quotas.selectors import Act, act_of
from quotas.services.rows import Place, require_share, values_of
from quotas.services.tables import (
    TableChange,
    TablePlan,
    lock_trees,
    need_why,
    numbers_of,
    places_of,
    plan_changes,
    write_plan,
)
from tenancy.models import Tenant, User


class ChangedSinceError(ConflictError):
    """What is to be undone is not what is there any more."""

    code, status, title = "changed_since", 409, "It was changed since"


@dataclass(frozen=True, slots=True)
class Edit:
    """One row as somebody wants it. `revision` is what they saw (0 = none); `gone` takes it away."""

    row: TableRow
    revision: int
    gone: bool = False


def plan_edits(*, actor: User, edits: Sequence[Edit], now: datetime) -> TablePlan:
    """What the edits would change; nothing is written.

    Raises:
        InvalidContentError: naming rows (`/rows/1/guaranteed`, in the order given) and fields.
        StaleWriteError: somebody changed one of the rows since, naming them all.
        PermissionDeniedError: an owner may share out only what a tenant above has.
        ChildrenAboveParentError, GrantsCountError: as `plan_table`.
    """
    tenants = {tenant.id: tenant for tenant in Tenant.objects.all()}
    paths = {tenant.path: tenant.id for tenant in tenants.values()}
    places = places_of([edit.row for edit in edits], paths)
    held = _held(places)
    _refuse_stale(edits, places, held)
    changes = [
        TableChange(
            edit.row,
            place,
            values_of(held[place]) if place in held else None,
            None if edit.gone else numbers_of(edit.row),
        )
        for edit, place in zip(edits, places, strict=True)
    ]
    return _plan(actor, changes, tenants, now)


@transaction.atomic
def apply_edits(*, actor: User, edits: Sequence[Edit], why: str, now: datetime) -> TablePlan:
    """Writes all of the edits or none, an audit entry each, with why, which is needed.

    Raises:
        InvalidContentError: as `plan_edits`, or no reason is given; the others as `plan_edits`.
    """
    need_why(why)
    lock_trees()
    plan = plan_edits(actor=actor, edits=edits, now=now)
    write_plan(actor=actor, plan=plan, why=why, now=now)
    return plan


@transaction.atomic
def undo(*, actor: User, entry_id: int, why: str, now: datetime) -> TablePlan:
    """Sets all that one act changed back to what it was before: a new act, by the same rules.

    `entry_id` is any audit entry of the act.

    Raises:
        NotFoundError: there is no such act.
        ChangedSinceError: a row is not as the act left it, or its tenant or cluster is gone.
        InvalidContentError, PermissionDeniedError, ChildrenAboveParentError, GrantsCountError: as
            `apply_edits`: it does not fit any more.
    """
    need_why(why)
    lock_trees()
    act = act_of(entry_id)
    if act is None:
        raise NotFoundError("There is no such change.")
    tenants = {tenant.id: tenant for tenant in Tenant.objects.all()}
    plan = _plan(actor, _back(act, tenants.values()), tenants, now)
    write_plan(actor=actor, plan=plan, why=why, now=now)
    return plan


def _plan(
    actor: User, changes: Sequence[TableChange], tenants: Mapping[Any, Tenant], now: datetime
) -> TablePlan:
    for change in changes:
        tenant, flavor, cluster = change.place
        require_share(actor, tenants[tenant], flavor, cluster)
    return plan_changes(changes, tenants, now)


def _held(places: Iterable[Place]) -> dict[Place, Quota]:
    rows = Quota.objects.filter(tenant__in={tenant for tenant, _, _ in places})
    return {
        (row.tenant_id, row.flavor_id, row.cluster_id): row
        for row in rows.select_related("tenant", "cluster")
    }


def _refuse_stale(
    edits: Sequence[Edit], places: Sequence[Place], held: Mapping[Place, Quota]
) -> None:
    stale = [
        f"{edit.row.tenant} {edit.row.flavor}"
        for edit, place in zip(edits, places, strict=True)
        if (held[place].revision if place in held else 0) != edit.revision
    ]
    if stale:
        raise StaleWriteError(f"Somebody else changed this meanwhile: {', '.join(stale)}.")


def _back(act: Act, tenants: Iterable[Tenant]) -> list[TableChange]:
    """The changes of an act the other way round."""
    ids = {tenant.path: tenant.id for tenant in tenants}
    clusters = dict(Cluster.objects.values_list("name", "id"))
    changes = []
    for number, entry in enumerate(act.entries, start=1):
        path, flavor = entry.object_id.rsplit(" ", 1)
        name = (entry.after or entry.before or {}).get("cluster")
        if path not in ids or (name is not None and name not in clusters):
            raise ChangedSinceError(f"{path} or its cluster is not there any more.")
        place = (ids[path], flavor, clusters[name] if name else None)
        held = _held([place]).get(place)
        left, back = _numbers(entry.after), _numbers(entry.before)
        if (values_of(held) if held else None) != left:
            raise ChangedSinceError(f"{path} {flavor} was changed since; undo that first.")
        row = TableRow(number, path, flavor, name, **(back or left or {}))
        changes.append(TableChange(row, place, left, back))
    return changes


def _numbers(kept: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The numbers of an audit entry's before or after."""
    return None if kept is None else {name: kept[name] for name in NUMBERS if name in kept}

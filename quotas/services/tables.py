"""Many quotas at once, from a table: all of it is written, or nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from clusters.models import Cluster, ClusterFlavor
from kit.errors import FieldProblem, InvalidContentError
from quotas.core.cohort import QuotaRow
from quotas.core.table import NUMBERS, TableProblem, TableRow
from quotas.models import Quota
from quotas.selectors import rows_as_set
from quotas.services.rows import Place, problems_of, require_fit, require_no_grants, values_of
from tenancy.models import Tenant, User
from tenancy.services.records import ring, why_problems, write_audits


@dataclass(frozen=True, slots=True)
class TableChange:
    """One row that becomes another: `before` None = there was none, `after` None = it goes."""

    row: TableRow
    place: Place
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def action(self) -> str:
        """As the audit calls it."""
        if self.before is None:
            return "create"
        return "remove" if self.after is None else "update"


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What a table would change, and the quota rows that would then be."""

    changes: tuple[TableChange, ...]
    rows: tuple[QuotaRow, ...]


def refuse(problems: Iterable[TableProblem]) -> None:
    """Raises InvalidContentError with a pointer `/rows/{row}/{field}` for each problem, if any."""
    found = [
        FieldProblem("/rows" + (f"/{one.row}" if one.row else "") + (f"/{one.field}" if one.field else ""),
                     one.code, one.detail)
        for one in problems
    ]  # fmt: skip
    if found:
        raise InvalidContentError("The table is not valid; nothing was changed.", errors=found)


def plan_table(*, table: Sequence[TableRow], prune: bool, now: datetime) -> TablePlan:
    """What the table would change. With `prune` rows that it does not name are taken away.

    Raises:
        InvalidContentError: naming rows and fields.
        ChildrenAboveParentError: some tenants would be guaranteed more than the one above them.
        GrantsCountError: a grant counts on a row that would go.
    """
    tenants = {tenant.id: tenant for tenant in Tenant.objects.all()}
    places = places_of(table, {tenant.path: tenant.id for tenant in tenants.values()})
    held = {
        (quota.tenant_id, quota.flavor_id, quota.cluster_id): quota
        for quota in Quota.objects.select_related("tenant", "cluster")
    }
    changes = [
        TableChange(row, place, values_of(held[place]) if place in held else None, numbers_of(row))
        for row, place in zip(table, places, strict=True)
    ]
    if prune:
        named = set(places)
        changes += [_removal(held[place]) for place in sorted(held, key=str) if place not in named]
    return plan_changes(changes, tenants, now)


def plan_changes(
    changes: Iterable[TableChange], tenants: Mapping[UUID, Tenant], now: datetime
) -> TablePlan:
    """The changes that change something, and the rows after them.

    Raises:
        ChildrenAboveParentError: some tenants would be guaranteed more than the one above them.
        GrantsCountError: a grant counts on a row that would go.
    """
    real = tuple(change for change in changes if change.before != change.after)
    require_no_grants((change.place for change in real if change.after is None), now)
    rows = _rows_after(real)
    require_fit(rows, tenants, now)
    return TablePlan(real, rows)


@transaction.atomic
def apply_table(
    *, actor: User | None, table: Sequence[TableRow], prune: bool, why: str, now: datetime
) -> TablePlan:
    """Writes the table, an audit entry for each change; what it changed.

    Raises:
        InvalidContentError, ChildrenAboveParentError: as `plan_table`; nothing is changed.
    """
    refuse_wrong_why(why)
    lock_trees()
    plan = plan_table(table=table, prune=prune, now=now)
    write_plan(actor=actor, plan=plan, why=why, now=now)
    return plan


def refuse_wrong_why(why: object, field: str = "why") -> None:
    """Raises InvalidContentError for what is no reason; `field` is what it is called."""
    if wrong := why_problems(why, field):
        raise InvalidContentError("The reason is not valid.", errors=wrong)


def need_why(why: object, field: str = "why") -> None:
    """Raises InvalidContentError for what is no reason, and for none."""
    refuse_wrong_why(why, field)
    if not str(why).strip():
        raise InvalidContentError("Say why; it is kept with the change.", pointer=f"/{field}")


def lock_trees() -> None:
    """One writer of all trees: what a plan compares stays as it is until it is written.

    A tenant that was moved to the top while others were waited for is a root, too: all anew then.
    """
    roots = Tenant.objects.filter(parent=None).order_by("id")
    is_locked = False
    while not is_locked:
        with transaction.atomic():
            locked = set(roots.select_for_update(no_key=True).values_list("id", flat=True))
            is_locked = locked == set(roots.values_list("id", flat=True))
            transaction.set_rollback(not is_locked)


def write_plan(*, actor: User | None, plan: TablePlan, why: str, now: datetime) -> None:
    """Writes a plan that was made under the locks of `lock_trees`, an audit entry each change."""
    held = {
        (quota.tenant_id, quota.flavor_id, quota.cluster_id): quota
        for quota in Quota.objects.select_for_update()
    }
    new, changed, gone = [], [], []
    for change in plan.changes:
        if change.after is None:
            gone.append(held[change.place].pk)
        elif change.before is None:
            tenant, flavor, cluster = change.place
            new.append(
                Quota(tenant_id=tenant, flavor_id=flavor, cluster_id=cluster, **change.after)
            )
        else:
            quota = held[change.place]
            for name, value in {**change.after, "revision": quota.revision + 1}.items():
                setattr(quota, name, value)
            changed.append(quota)
    Quota.objects.filter(pk__in=gone).delete()
    Quota.objects.bulk_create(new)
    Quota.objects.bulk_update(changed, [*NUMBERS, "revision"], batch_size=1000)
    write_audits(
        actor=actor,
        entries=[_entry(change) for change in plan.changes],
        object_type="quota",
        why=why,
        now=now,
    )
    if plan.changes:
        ring()


def table_of(quotas: Iterable[Quota]) -> list[TableRow]:
    """Quotas (tenant and cluster at hand) as the rows of a table."""
    return [
        TableRow(
            number,
            quota.tenant.path,
            quota.flavor_id,
            quota.cluster.name if quota.cluster else None,
            **values_of(quota),
        )
        for number, quota in enumerate(quotas, start=1)
    ]


def places_of(table: Sequence[TableRow], tenants: Mapping[str, UUID]) -> list[Place]:
    """What each row speaks of, by ids.

    Raises:
        InvalidContentError: for all that is not known, or out of its range.
    """
    clusters = dict(Cluster.objects.values_list("name", "id"))
    served = set(ClusterFlavor.objects.values_list("flavor_id", "cluster_id"))
    flavors = {flavor for flavor, _ in served}
    problems: list[TableProblem] = []
    for row in table:
        if row.tenant not in tenants:
            words = f"There is no tenant {row.tenant}."
            problems.append(TableProblem(row.number, "tenant", "unknown", words))
        if row.flavor not in flavors:
            words = f"No cluster has {row.flavor}."
            problems.append(TableProblem(row.number, "flavor", "unknown", words))
        elif row.cluster is not None and (row.flavor, clusters.get(row.cluster)) not in served:
            is_known = row.cluster in clusters
            words = f"{row.cluster} has no {row.flavor}." if is_known else "No such cluster."
            problems.append(TableProblem(row.number, "cluster", "unknown", words))
        wrong = problems_of(numbers_of(row), is_for_one_cluster=row.cluster is not None)
        problems += [
            TableProblem(row.number, one.pointer.removeprefix("/"), one.code, one.detail)
            for one in wrong
        ]
    refuse(problems)
    return [
        (tenants[row.tenant], row.flavor, clusters[row.cluster] if row.cluster else None)
        for row in table
    ]


def numbers_of(row: TableRow) -> dict[str, Any]:
    """What a row says."""
    return {name: getattr(row, name) for name in NUMBERS}


def _removal(quota: Quota) -> TableChange:
    (row,) = table_of([quota])
    place = (quota.tenant_id, quota.flavor_id, quota.cluster_id)
    return TableChange(row, place, values_of(quota), None)


def _rows_after(changes: Iterable[TableChange]) -> tuple[QuotaRow, ...]:
    rows = {(row.tenant, row.flavor, row.cluster): row for row in rows_as_set()}
    for change in changes:
        if change.after is None:
            del rows[change.place]
        else:
            rows[change.place] = QuotaRow(*change.place, **change.after)
    return tuple(rows.values())


def _entry(change: TableChange) -> tuple[str, str, dict[str, Any] | None, dict[str, Any] | None]:
    place = {"flavor": change.row.flavor, "cluster": change.row.cluster}
    before, after = (
        None if values is None else {**place, **values} for values in (change.before, change.after)
    )
    return change.action, f"{change.row.tenant} {change.row.flavor}", before, after

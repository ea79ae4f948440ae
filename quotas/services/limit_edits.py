"""Changes of limits as people make them on a page: several at once, on what they saw."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import transaction

from kit.errors import FieldProblem, InvalidContentError, StaleWriteError
from quotas.core.limits import LimitRow, Scope
from quotas.models import Limit
from quotas.selectors import rows_by_id
from quotas.services.limits import (
    Whose,
    bounds_of,
    limit_problems,
    remove_limit,
    set_limit,
    whose_of,
)
from quotas.services.tables import need_why
from tenancy.models import Tenant, User

Place = tuple[Any, Whose]  # a tenant's id, and for whose jobs


@dataclass(frozen=True, slots=True)
class LimitEdit:
    """One limit as somebody wants it. `revision` is what they saw (0 = none); `gone` takes it away.

    `bounds` are what they typed: numbers, None = not bounded, and what is refused as no number.
    """

    tenant: Tenant
    whose: Whose
    bounds: Mapping[str, Any]
    revision: int
    gone: bool = False

    @property
    def place(self) -> Place:
        """Which limit it is."""
        return self.tenant.pk, self.whose

    @property
    def after(self) -> Mapping[str, Any] | None:
        """What it is to bound; None = it is to be taken away."""
        return None if self.gone else self.bounds


@dataclass(frozen=True, slots=True)
class LimitChange:
    """What becomes of one limit: its bounds before and after, None = there is none."""

    edit: LimitEdit
    before: Mapping[str, int | None] | None
    after: Mapping[str, int | None] | None


@dataclass(frozen=True)
class LimitPlan:
    """What edits would change, and all limits as they would be then."""

    changes: tuple[LimitChange, ...]
    rows: tuple[LimitRow, ...]


def plan_limits(*, edits: Sequence[LimitEdit]) -> LimitPlan:
    """What the edits would change; nothing is written.

    Raises:
        InvalidContentError: naming edits (`/rows/1/running_gpus`, in the order given) and fields;
            a new limit that is there already is one of them.
        StaleWriteError: somebody changed one of the limits since, naming them all.
    """
    held = {
        (limit.tenant_id, whose_of(limit)): limit for limit in Limit.objects.select_related("user")
    }
    problems = list(_problems(edits, held))
    if problems:
        raise InvalidContentError("The limits are not valid.", errors=problems)
    _refuse_stale(edits, held)
    rows = rows_by_id(Limit.objects.all())
    added: list[LimitRow] = []
    changes = []
    for edit in edits:
        limit = held.get(edit.place)
        before = bounds_of(limit) if limit else None
        if before == edit.after:
            continue
        changes.append(LimitChange(edit, before, edit.after))
        row = rows.pop(limit.pk) if limit else _row(edit)
        if edit.after is not None:
            added.append(replace(row, **edit.after))
    return LimitPlan(tuple(changes), (*rows.values(), *added))


@transaction.atomic
def apply_limits(*, actor: User, edits: Sequence[LimitEdit], why: str, now: datetime) -> LimitPlan:
    """Writes all of the edits or none, an audit entry each, with why, which is needed.

    Raises:
        InvalidContentError: as `plan_limits`, or no reason is given.
        StaleWriteError: as `plan_limits`.
    """
    need_why(why)
    ids = sorted({edit.tenant.pk for edit in edits})
    list(Tenant.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk"))
    plan = plan_limits(edits=edits)
    for change in plan.changes:
        edit = change.edit
        which: dict[str, Any] = {
            "tenant": edit.tenant,
            "whose": edit.whose,
            "expected_revision": edit.revision,
        }
        if edit.gone:
            remove_limit(actor=actor, **which, why=why, now=now)
        else:
            set_limit(actor=actor, **which, **edit.bounds, why=why, now=now)
    return plan


def _problems(edits: Sequence[LimitEdit], held: Mapping[Place, Limit]) -> Iterator[FieldProblem]:
    seen: set[Place] = set()
    for number, edit in enumerate(edits, start=1):
        found = [] if edit.gone else limit_problems(edit.whose, edit.bounds)
        if edit.place in seen or (not edit.revision and edit.place in held):
            words = f"{edit.tenant.path} has a limit for {edit.whose} already: change that one."
            found.append(FieldProblem("/tenant", "exists", words))
        seen.add(edit.place)
        for problem in found:
            yield replace(problem, pointer=f"/rows/{number}{problem.pointer}")


def _refuse_stale(edits: Sequence[LimitEdit], held: Mapping[Place, Limit]) -> None:
    stale = [
        f"{edit.tenant.path}, {edit.whose}"
        for edit in edits
        if (held[edit.place].revision if edit.place in held else 0) != edit.revision
    ]
    if stale:
        raise StaleWriteError(f"Somebody else changed this meanwhile: {'; '.join(stale)}.")


def _row(edit: LimitEdit) -> LimitRow:
    whose = edit.whose
    user = whose.user.pk if whose.user else None
    return LimitRow(edit.tenant.pk, Scope(whose.scope), user, whose.label, whose.text)

"""Writes on a tenant that is there: its title, closing and opening, taking it away."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, ProtectedError

from kit.errors import ConflictError, FieldProblem, InvalidContentError, StaleWriteError
from tenancy.models import Tenant, User
from tenancy.services.access import is_title
from tenancy.services.records import ring, why_problems, write_audit


class TenantHasHistoryError(ConflictError):
    """A tenant that others or the books point at stays; it can be closed."""

    code, status, title = "tenant_has_history", 409, "The tenant has a history"


def _check(changes: Mapping[str, Any], why: object) -> None:
    found = []
    if not is_title(changes.get("title", "")):
        found.append(FieldProblem("/title", "invalid_text", "Use at most 200 printable letters."))
    if not isinstance(changes.get("is_open", True), bool):
        found.append(FieldProblem("/is_open", "wrong_type", "Give true or false."))
    found += why_problems(why)
    if found:
        raise InvalidContentError("The tenant is not valid.", errors=found)


def _locked(tenant: Tenant, expected_revision: int | None) -> Tenant:
    held = Tenant.objects.select_for_update().get(pk=tenant.pk)
    if expected_revision not in (None, held.revision):
        raise StaleWriteError(
            f"The tenant is revision {held.revision} now, not {expected_revision}; read it again."
        )
    return held


@transaction.atomic
def update_tenant(
    *,
    actor: User | None,
    tenant: Tenant,
    changes: Mapping[str, Any],
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> Tenant:
    """Changes `title` (what people read) and `is_open`; what is as asked already stays as it is.

    A closed tenant, with all below it, finishes what runs and starts nothing. The name never
    changes: it is an address.

    Raises:
        InvalidContentError: a value is not one, naming the field.
        StaleWriteError: somebody changed the tenant since.
    """
    _check(changes, why)
    held = _locked(tenant, expected_revision)
    after = {name: value for name, value in changes.items() if getattr(held, name) != value}
    if not after:
        return held
    before = {name: getattr(held, name) for name in after}
    Tenant.objects.filter(pk=held.pk).update(**after, revision=F("revision") + 1)
    action = "update"
    if "is_open" in after:
        action = "open" if after["is_open"] else "close"
    write_audit(
        actor=actor,
        action=action,
        object_type="tenant",
        object_id=held.path,
        before=before,
        after=after,
        why=why,
        now=now,
    )
    ring()
    return Tenant.objects.get(pk=held.pk)


@transaction.atomic
def remove_tenant(
    *,
    actor: User | None,
    tenant: Tenant,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> None:
    """Takes a tenant away that never did anything, with its quotas and members.

    Raises:
        TenantHasHistoryError: it has tenants below it, jobs, prices or usage.
        StaleWriteError: somebody changed the tenant since.
    """
    _check({}, why)
    held = _locked(tenant, expected_revision)
    try:
        with transaction.atomic():
            held.delete()
    except ProtectedError as error:
        kinds = sorted({str(row._meta.verbose_name_plural) for row in error.protected_objects})
        raise TenantHasHistoryError(
            f"{held.path} has {', '.join(kinds)}; close it instead."
        ) from None
    write_audit(
        actor=actor,
        action="remove",
        object_type="tenant",
        object_id=held.path,
        before={"title": held.title, "is_open": held.is_open},
        why=why,
        now=now,
    )

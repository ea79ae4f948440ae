"""Reads of the tree and its members."""

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Q

from kit.errors import NotFoundError, PermissionDeniedError
from tenancy.models import Membership, Role, Tenant, User
from tenancy.selectors.access import visible_tenants


def visible_tenant(user: User, path: str) -> Tenant:
    """One tenant by its path.

    Raises:
        NotFoundError: there is none, or the user may not see it.
    """
    tenant = None if "\0" in path else visible_tenants(user).filter(path=path).first()
    if tenant is None:
        raise NotFoundError("There is no such tenant, or you may not see it.")
    return tenant


def managed_tenant(user: User, path: str) -> Tenant:
    """One tenant whose share the user may set: an admin's, or one below a tenant that they own.

    Raises:
        NotFoundError: there is none, or the user may not see it.
        PermissionDeniedError: the user may see it only.
    """
    tenant = visible_tenant(user, path)
    _require_owner(
        user, tenant.lineage[:-1], f"Only an admin, or an owner of a tenant above {path}"
    )
    return tenant


def owned_tenant(user: User, path: str) -> Tenant:
    """One tenant below which the user may make others: an admin, or its owner.

    Raises:
        NotFoundError: there is none, or the user may not see it.
        PermissionDeniedError: the user may see it only.
    """
    tenant = visible_tenant(user, path)
    _require_owner(user, tenant.lineage, f"Only an admin, or an owner of {path}")
    return tenant


def _require_owner(user: User, tenants: Sequence[UUID], who: str) -> None:
    owned = Membership.objects.filter(user=user, role=Role.OWNER, tenant__in=tenants)
    if not user.is_superuser and not owned.exists():
        raise PermissionDeniedError(f"{who} may.")


def tenant_page(user: User, *, under: Sequence[str], after: str | None, limit: int) -> list[Tenant]:
    """At most `limit` + 1 tenants that the user may see, in order of their paths."""
    rows = visible_tenants(user)
    if under:
        below = Q()
        for path in under:
            below |= Q(path=path) | Q(path__startswith=f"{path}/")
        rows = rows.filter(below)
    if after is not None:
        rows = rows.filter(path__gt=after)
    return list(rows.order_by("path")[: limit + 1])


def members_page(tenant: Tenant, *, after: int | None, limit: int) -> list[Membership]:
    """At most `limit` + 1 roles held in the tenant or above it, in the order they were given."""
    rows = Membership.objects.filter(tenant__in=tenant.lineage).select_related("user", "tenant")
    if after is not None:
        rows = rows.filter(id__gt=after)
    return list(rows.order_by("id")[: limit + 1])

"""Who is asking, and what of the tree they may see and do."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from kit.bulk import Row, Statement, columns_of, instance, run
from kit.crypto import digest
from tenancy.models import Membership, Role, Scope, Tenant, User

ROLE_RANK: Mapping[str, int] = {Role.VIEWER: 1, Role.SUBMITTER: 2, Role.OWNER: 3}
EVERY_SCOPE = frozenset(scope.value for scope in Scope)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks in this request: a user and the scopes of the way they came in."""

    user: User
    scopes: frozenset[str]
    token_id: UUID | None = None

    @property
    def is_admin(self) -> bool:
        """Whether the user has the global role admin."""
        return self.user.is_superuser


# Of who asks, what every request needs; the rest is read where it is asked for.
_PERSON = ("id", "username", "is_superuser", "is_staff", "is_active")
_PERSON_COLUMNS = ", ".join(f"person.{name}" for name in _PERSON)


def token_principal(token: str, now: datetime) -> Principal | None:
    """Who a bearer token stands for; None when it is unknown, expired, revoked or inactive."""
    (found,) = run(  # written out, as it stands in the way of every request
        Statement(
            f"SELECT token.id, token.scopes, {_PERSON_COLUMNS}"  # noqa: S608
            " FROM tenancy_apitoken token JOIN tenancy_user person ON person.id = token.user_id"
            " WHERE token.digest = %s AND token.revoked_at IS NULL AND token.expires_at > %s"
            " AND person.is_active",
            (digest(token), now),
            is_kept=True,
        )
    )
    for token_id, scopes, *person in found:
        return Principal(instance(User, person, _PERSON), frozenset(scopes), token_id)
    return None


def roles_of(user: User) -> dict[UUID, str]:
    """The user's own role by tenant id (not yet inherited), one query."""
    return dict(Membership.objects.filter(user=user).values_list("tenant_id", "role"))


def visible_tenants(user: User, at_least: str = Role.VIEWER) -> QuerySet[Tenant]:
    """Tenants where the user has the role or more, itself or by inheritance; all for admins."""
    if user.is_superuser:
        return Tenant.objects.all()
    granted = [
        tenant for tenant, role in roles_of(user).items() if ROLE_RANK[role] >= ROLE_RANK[at_least]
    ]
    return Tenant.objects.filter(lineage__overlap=granted) if granted else Tenant.objects.none()


def visible_tenant_ids(user: User) -> list[UUID] | None:
    """Ids of the tenants the user may see; None = all of them."""
    if user.is_superuser:
        return None
    return list(visible_tenants(user).values_list("id", flat=True))


def tenants_by_path(user: User, paths: set[str], at_least: str) -> dict[str, Tenant]:
    """Those of the paths that exist and where the user has the role. One query."""
    return tenants_found(run(tenants_statement(user, paths, at_least))[0])


def tenants_statement(user: User, paths: set[str], at_least: str) -> Statement:
    """What `tenants_by_path` runs, for one round trip with other statements.

    Written out, as it stands in the way of every submit: the ORM needs two and ten times the CPU.
    """
    roles = [str(role) for role, rank in ROLE_RANK.items() if rank >= ROLE_RANK[at_least]]
    return Statement(
        f"SELECT {columns_of(Tenant, 'tenant')} FROM tenancy_tenant tenant"  # noqa: S608
        f" WHERE path IN ({_places(paths)}) AND (%s OR EXISTS (SELECT FROM tenancy_membership held"
        f" WHERE held.user_id = %s AND held.role IN ({_places(roles)})"
        " AND held.tenant_id = ANY(tenant.lineage)))",
        (*paths, user.is_superuser, user.pk, *roles),
        is_kept=len(paths) == 1,
    )


def _places(values: Collection[str]) -> str:
    """A placeholder for each: psycopg takes far longer to write an array than its elements."""
    return ", ".join(["%s"] * len(values))


def tenants_found(rows: Iterable[Row]) -> dict[str, Tenant]:
    """The tenants of the rows of `tenants_statement` by path."""
    return {tenant.path: tenant for tenant in (instance(Tenant, row) for row in rows)}


def subtree(tenant: Tenant) -> Q:
    """The condition on Tenant rows: `tenant` and everything below it."""
    return Q(lineage__contains=[tenant.id])


def tenant_roles(user: User) -> list[tuple[str, str]]:
    """The user's own roles as (tenant's path, role), in order of the paths; not yet inherited."""
    held = Membership.objects.filter(user=user).order_by("tenant__path")
    return list(held.values_list("tenant__path", "role"))

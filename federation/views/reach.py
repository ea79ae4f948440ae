"""What of the tree of tenants a person sees and may change."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from tenancy.models import Role, Tenant, User
from tenancy.selectors.access import visible_tenants


@dataclass(frozen=True)
class Reach:
    """What of the tree a person sees and may change, by tenants' ids; the latter with their paths."""

    seen: frozenset[UUID]
    managed: Mapping[UUID, str]

    @classmethod
    def of(cls, user: User) -> "Reach":
        """Admins all; others change what is below a tenant that they own."""
        seen = frozenset(visible_tenants(user).values_list("id", flat=True))
        if user.is_superuser:
            return cls(seen, dict(Tenant.objects.order_by("path").values_list("id", "path")))
        owned = visible_tenants(user, Role.OWNER).order_by("path")
        rows = list(owned.values_list("id", "path", "lineage"))
        ids = {key for key, _, _ in rows}
        return cls(seen, {key: path for key, path, line in rows if ids & set(line[:-1])})


def is_below(path: str, top: str) -> bool:
    """Whether a tenant is this one or below it; no name means any."""
    return not top or path == top or path.startswith(f"{top}/")

"""What the intake of foreign job files asks: tenants by a short name, flavors of a quota, GPU names."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from django.db.models import Q

from clusters.models import Cluster, ClusterFlavor, Flavor
from kit.errors import PermissionDeniedError
from kit.intervals import to_ms
from quotas.models import Quota
from quotas.selectors import grants_from
from tenancy.models import Role, Tenant, User
from tenancy.selectors.access import tenants_by_path, visible_tenants

MOST_FOUND = 50


def submit_tenant(user: User, path: str) -> Tenant | None:
    """The tenant of a path, where the user may submit; None = there is none that they may see.

    Raises:
        PermissionDeniedError: the user sees it, but may not submit there.
    """
    if "\0" in path:
        return None
    found = tenants_by_path(user, {path}, Role.SUBMITTER).get(path)
    if found is None and tenants_by_path(user, {path}, Role.VIEWER):
        raise PermissionDeniedError(f"You may not submit to {path}.")
    return found


def tenants_called(user: User, name: str) -> list[str]:
    """Paths of the tenants where the user may submit, that are `name` or end in it; at most 50."""
    called = Q(path=name) | Q(path__endswith=f"/{name}")
    rows = visible_tenants(user, Role.SUBMITTER).filter(called)
    return list(rows.order_by("path").values_list("path", flat=True)[:MOST_FOUND])


def submit_paths(user: User) -> list[str]:
    """Paths of the first fifty tenants where the user may submit."""
    rows = visible_tenants(user, Role.SUBMITTER).order_by("path")
    return list(rows.values_list("path", flat=True)[:MOST_FOUND])


def entitled_flavors(tenant: Tenant, now: datetime) -> tuple[str, ...]:
    """The flavors for which the tenant, or one above it, has a row of quota or a grant.

    Most guaranteed GPUs first, then by name. A row of nothing (no guarantee and no borrowing) is
    none.
    """
    gpus: dict[str, int] = {}
    rows = Quota.objects.filter(tenant__in=tenant.lineage).exclude(guaranteed=0, borrowing_limit=0)
    for flavor, guaranteed in rows.values_list("flavor_id", "guaranteed"):
        gpus[flavor] = max(gpus.get(flavor, 0), guaranteed)
    for grant in grants_from(now):
        if grant.tenant in tenant.lineage and grant.holds(to_ms(now)):
            gpus[grant.flavor] = max(gpus.get(grant.flavor, 0), grant.gpus)
    return tuple(sorted(gpus, key=lambda flavor: (-gpus[flavor], flavor)))


def gpu_models() -> Mapping[str, tuple[str, ...]]:
    """Flavors by what a GPU is called, in lower case: on a cluster in service, or here. 2 queries."""
    called: dict[str, set[str]] = defaultdict(set)
    devices = ClusterFlavor.objects.exclude(cluster__state=Cluster.State.GONE)
    for device, flavor in devices.values_list("device", "flavor_id"):
        called[device.lower()].add(flavor)
    for flavor in Flavor.objects.values_list("name", flat=True):
        called[flavor].add(flavor)
    return {name: tuple(sorted(flavors)) for name, flavors in called.items()}

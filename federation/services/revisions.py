"""Whether the quotas that a plan was made on are still what they were."""

from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from federation.core.plan import Plan
from quotas.models import Quota

Revisions = Mapping[tuple[UUID, str, UUID | None], int]


def lock_quotas(tenants: Collection[UUID]) -> Revisions:
    """The revisions of the tenants' quotas by tenant, flavor and cluster; the rows are locked."""
    rows = (
        Quota.objects.filter(tenant__in=tenants)
        .order_by("id")
        .select_for_update(no_key=True)
        .values_list("tenant_id", "flavor_id", "cluster_id", "revision")
    )
    return {(tenant, flavor, place): revision for tenant, flavor, place, revision in rows}


def quotas_as_seen(plan: Plan, locked: Revisions) -> Callable[[UUID, str, UUID], bool]:
    """A function that tells whether all quotas of a tenant, flavor and cluster are as planned on.

    These are the tenant's own and those of all above it, for the cluster and for all clusters.
    """
    lineages = {tenant.id: tenant.lineage for tenant in plan.basis.tenants}
    seen = {(row.tenant, row.flavor, row.cluster): row.revision for row in plan.basis.quotas}

    def are_as_seen(tenant: UUID, flavor: str, cluster: UUID) -> bool:
        return all(
            locked.get((above, flavor, place)) == seen.get((above, flavor, place))
            for above in lineages[tenant]
            for place in (cluster, None)
        )

    return are_as_seen

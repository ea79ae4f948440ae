"""Reads of quota."""

from quotas.core.cohort import QuotaRow
from quotas.core.policy import Policy
from quotas.models import Quota, QuotaPolicy
from tenancy.models import Tenant


def quota_rows() -> tuple[QuotaRow, ...]:
    """Every quota, as the core's values, in a fixed order."""
    rows = Quota.objects.order_by("id").values_list(
        "tenant_id",
        "flavor_id",
        "cluster_id",
        "guaranteed",
        "borrowing_limit",
        "revision",
        "lending_limit",
        "weight",
    )
    return tuple(QuotaRow(*row) for row in rows)


def quota_policy() -> Policy:
    """What holds for all tenants: what an admin set, else the defaults."""
    found = QuotaPolicy.objects.values_list("half_life_ms", "aging_ms").first()
    return Policy(*found) if found else Policy()


def quotas_of(tenant: Tenant) -> list[Quota]:
    """The tenant's own rows, flavors in order, clusters at hand."""
    rows = Quota.objects.filter(tenant=tenant).select_related("cluster")
    return list(rows.order_by("flavor_id", "cluster__name"))

"""Reads of quota."""

from quotas.core.cohort import QuotaRow
from quotas.models import Quota


def quota_rows() -> tuple[QuotaRow, ...]:
    """Every quota, as the core's values, in a fixed order."""
    rows = Quota.objects.order_by("id").values_list(
        "tenant_id", "flavor_id", "cluster_id", "guaranteed", "borrowing_limit", "revision"
    )
    return tuple(QuotaRow(*row) for row in rows)

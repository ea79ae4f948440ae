"""What tenants use of their quotas now."""

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from federation.selectors.fleet import OPEN_ATTEMPTS
from quotas.core.cohort import GUARANTEED, SPOT
from quotas.models import Quota
from tenancy.models import Tenant


@dataclass(frozen=True)
class QuotaUse:
    """GPUs of open attempts of a tenant's subtree by flavor, cluster and class."""

    gpus: Counter[tuple[str, UUID, str]]

    def of(self, quota: Quota) -> tuple[int, int]:
        """What counts in a row of quota: guaranteed and spot GPUs."""
        used = {GUARANTEED: 0, SPOT: 0}
        for (flavor, cluster, service_class), gpus in self.gpus.items():
            if flavor == quota.flavor_id and quota.cluster_id in (None, cluster):
                used[service_class] += gpus
        return used[GUARANTEED], used[SPOT]


def quota_use(tenant: Tenant) -> QuotaUse:
    """What a tenant and all below it hold, or were promised, now. One query."""
    rows = OPEN_ATTEMPTS.filter(job__tenant__lineage__contains=[tenant.id]).values_list(
        "flavor_id", "cluster_id", "service_class", "nodes", "gpus_per_node"
    )
    gpus: Counter[tuple[str, UUID, str]] = Counter()
    for flavor, cluster, service_class, nodes, per_node in rows:
        gpus[flavor, cluster, service_class] += len(nodes) * per_node
    return QuotaUse(gpus)

"""Who may have how much: one row a tenant and flavor, and if set a cluster."""

from typing import ClassVar

from django.db import models

from clusters.models import Cluster, Flavor
from tenancy.models import Tenant


class Quota(models.Model):
    """GPUs owed to a tenant's subtree (`guaranteed`) and the most it may use as spot.

    `borrowing_limit` None = no limit of its own. `revision` is compared when a plan commits.
    """

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="quotas")
    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="quotas")
    cluster = models.ForeignKey(Cluster, models.PROTECT, null=True, blank=True)
    guaranteed = models.PositiveIntegerField(default=0, help_text="GPUs owed on demand.")
    borrowing_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most GPUs as spot; empty = no limit."
    )
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering: ClassVar = ["tenant", "flavor"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "flavor", "cluster"], name="quota_once", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.flavor_id} {self.guaranteed}"

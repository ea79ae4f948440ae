"""Who may have how much: one row a tenant and flavor, and if set a cluster; and the policy."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from clusters.models import Cluster, Flavor
from quotas.core.policy import Policy
from tenancy.models import Tenant


class Quota(models.Model):
    """GPUs owed to a tenant's subtree (`guaranteed`), and the most it may use and lend as spot.

    `borrowing_limit` None = no limit of its own; `lending_limit` None = all that is idle. `weight`
    is the tenant's part of spot against its siblings'; only a row for all clusters has another
    than 1. `revision` is compared when a plan commits. Rules: `quotas.core.cohort`.
    """

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="quotas")
    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="quotas")
    cluster = models.ForeignKey(Cluster, models.PROTECT, null=True, blank=True)
    guaranteed = models.PositiveIntegerField(default=0, help_text="GPUs owed on demand.")
    borrowing_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most GPUs as spot; empty = no limit."
    )
    lending_limit = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most of the guarantee that others may use; empty = all."
    )
    weight = models.PositiveIntegerField(
        default=1, db_default=1, help_text="Part of spot against its siblings: 1 to 1000."
    )
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering: ClassVar = ["tenant", "flavor"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "flavor", "cluster"], name="quota_once", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(lending_limit=None) | Q(lending_limit__lte=F("guaranteed")),
                name="quota_lends_its_own",
            ),
            models.CheckConstraint(
                condition=Q(weight=1) | (Q(weight__gt=0) & Q(cluster=None)), name="quota_weight"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.flavor_id} {self.guaranteed}"


class QuotaPolicy(models.Model):
    """One row: what holds for all tenants. Meanings and defaults: `quotas.core.policy.Policy`."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    half_life_ms = models.PositiveBigIntegerField(
        default=Policy.half_life_ms,
        help_text="Spot use counts half after so many milliseconds (604800000 = 7 days).",
    )
    aging_ms = models.PositiveBigIntegerField(
        default=Policy.aging_ms,
        help_text="So many milliseconds of waiting are worth a point of priority; 0 = none.",
    )

    class Meta:
        verbose_name_plural = "quota policy"
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(id=1), name="one_quota_policy"),
            models.CheckConstraint(condition=Q(half_life_ms__gt=0), name="half_life_positive"),
        ]

    def __str__(self) -> str:
        return "the policy"

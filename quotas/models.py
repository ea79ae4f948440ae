"""Who may have how much: rows by tenant and flavor, and if set cluster; requests; limits; the policy."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from clusters.models import Cluster, Flavor
from kit.ids import new_id
from quotas.core.limits import Scope
from quotas.core.policy import RANGES, Policy
from tenancy.models import Tenant, User


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


class QuotaRequest(models.Model):
    """A tenant's ask for more guaranteed GPUs, and once it is approved, the grant.

    A grant holds in [granted_from, granted_until) (None = for good) by itself: see
    `quotas.core.grants`. That it has ended is read from its times and is no state of the row.
    `revision` is compared when it is decided.
    """

    class State(models.TextChoices):
        """Where the request stands."""

        OPEN = "open"
        APPROVED = "approved"
        REJECTED = "rejected"
        WITHDRAWN = "withdrawn"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="quota_requests")
    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="+")
    gpus = models.PositiveIntegerField()
    borrowing_limit = models.PositiveIntegerField(null=True)
    wanted_from = models.DateTimeField()
    wanted_until = models.DateTimeField(null=True)
    why = models.TextField()
    asked_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    comment = models.TextField(blank=True)
    granted_gpus = models.PositiveIntegerField(null=True)
    granted_borrowing_limit = models.PositiveIntegerField(null=True)
    granted_from = models.DateTimeField(null=True)
    granted_until = models.DateTimeField(null=True)
    revision = models.PositiveIntegerField(default=1)

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "-id"], name="quota_request_tenant"),
            models.Index(
                fields=["granted_until"], name="quota_granted", condition=Q(state="approved")
            ),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~Q(state="approved")
                | Q(granted_gpus__gt=0, granted_from__isnull=False, decided_at__isnull=False),
                name="quota_grant_says_what",
            ),
            models.CheckConstraint(
                condition=Q(granted_until=None) | Q(granted_until__gte=F("granted_from")),
                name="quota_grant_ends_after_it_began",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.state}"


class Limit(models.Model):
    """The most that jobs of a tenant's subtree may do at once; empty = not bounded.

    Meanings: `quotas.core.limits.LimitRow`. Setting one raises the tenant's revision, which is
    compared when a plan commits.
    """

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="limits")
    scope = models.CharField(
        max_length=8,
        choices=[(scope.value, scope.value) for scope in Scope],
        default=Scope.TENANT.value,
        help_text="All jobs together; each person's, or one's; those with a label.",
    )
    user = models.ForeignKey(
        User, models.PROTECT, null=True, blank=True, related_name="+", help_text="Empty = each."
    )
    label = models.CharField(max_length=63, blank=True, help_text="A label's name.")
    text = models.CharField(max_length=255, blank=True, help_text="And what it says.")
    running_gpus = models.PositiveIntegerField(null=True, blank=True)
    running_jobs = models.PositiveIntegerField(null=True, blank=True)
    waiting_jobs = models.PositiveIntegerField(null=True, blank=True)
    longest_ms = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The longest time limit of a job, in milliseconds."
    )
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering: ClassVar = ["tenant", "scope", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "scope", "user", "label", "text"],
                name="limit_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(scope="tenant", user=None, label="", text="")
                | Q(scope="user", label="", text="")
                | Q(scope="label", user=None, label__gt=""),
                name="limit_says_whose",
            ),
            models.CheckConstraint(
                condition=Q(running_gpus__isnull=False)
                | Q(running_jobs__isnull=False)
                | Q(waiting_jobs__isnull=False)
                | Q(longest_ms__isnull=False),
                name="limit_bounds_something",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.scope} {self.label}"


def _in_range(name: str) -> models.CheckConstraint:
    least, most = RANGES[name]
    within = Q(**{f"{name}__gte": least, f"{name}__lte": most})
    return models.CheckConstraint(condition=within, name=f"policy_{name}")


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
    min_run_ms = models.PositiveBigIntegerField(
        default=Policy.min_run_ms,
        db_default=Policy.min_run_ms,
        help_text="A gang that ran less is spared by its own tenant (600000 = 10 minutes); 0 = none.",
    )
    most_evictions = models.PositiveIntegerField(
        default=Policy.most_evictions,
        db_default=Policy.most_evictions,
        help_text="A job evicted so often within a day is spared by its own tenant; 0 = always.",
    )
    cool_down_ms = models.PositiveBigIntegerField(
        default=Policy.cool_down_ms,
        db_default=Policy.cool_down_ms,
        help_text="A job evicted so shortly before is spared by its own tenant (3600000 = 1 hour).",
    )
    claim_ms = models.PositiveBigIntegerField(
        default=Policy.claim_ms,
        db_default=Policy.claim_ms,
        help_text="So long after the longest grace freed nodes are kept for whom they were freed"
        " (600000 = 10 minutes).",
    )

    class Meta:
        verbose_name_plural = "quota policy"
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(id=1), name="one_quota_policy"),
            models.CheckConstraint(condition=Q(half_life_ms__gt=0), name="half_life_positive"),
            *map(_in_range, ("min_run_ms", "most_evictions", "cool_down_ms", "claim_ms")),
        ]

    def __str__(self) -> str:
        return "the policy"

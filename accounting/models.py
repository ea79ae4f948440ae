"""Who used how much and what it cost: intervals, dated prices, and the append-only ledger.

`UsageRecord`, `Transfer` and `Batch` refuse UPDATE and DELETE (migration `append_only`).
"""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from accounting.core.metering import ServiceClass
from accounting.core.posting import Adjusting, Posting
from clusters.models import Cluster, Flavor
from tenancy.models import Tenant, User

CLASSES = [(word.value, word.value) for word in ServiceClass]


def _known_class(name: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=Q(service_class__in=[word.value for word in ServiceClass]), name=name
    )


class Price(models.Model):
    """What a GPU-hour costs from a moment on, until the next price of the same scope.

    Scope: flavor and class, and if set one cluster, one tenant (and all below it). Which of several
    wins is told in `accounting.core.rating`.
    """

    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="prices")
    service_class = models.CharField("class", max_length=16, choices=CLASSES)
    cluster = models.ForeignKey(Cluster, models.PROTECT, null=True, blank=True, related_name="+")
    tenant = models.ForeignKey(Tenant, models.PROTECT, null=True, blank=True, related_name="+")
    nano_per_gpu_hour = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    effective_from = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["flavor", "service_class", "-effective_from", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["flavor", "service_class", "cluster", "tenant", "effective_from"],
                name="price_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(nano_per_gpu_hour__gte=0), name="price_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(currency__regex="^[A-Z]{3}$"), name="price_currency"
            ),
            _known_class("price_class_known"),
        ]

    def __str__(self) -> str:
        return f"{self.flavor_id} {self.service_class} from {self.effective_from}"


class UsageInterval(models.Model):
    """A stay of an attempt on GPUs in one class: [started_ms, ended_ms) on the cluster's clock.

    A run with a change of class is several intervals with one `run_start_ms`. `started_at` and
    `ended_at` are our clock: when we were told, or decided. `skew_ms` (cluster's clock minus ours,
    as measured at the start) maps our moments onto the cluster's clock. [started_ms, metered_ms)
    is posted. `reported_end_ms` is the run's end as last reported; an `ended_ms` beyond it was
    posted before the report and awaits a counter-transfer. While the run lasts, `confirmed_ms` is the
    last midnight that its cluster was seen to have it beyond: up to there it may be posted.
    `price_missing` sets it aside until
    prices change. `lineage` is set when the tenant is moved: what was used before keeps the prices of
    the tenants that were above it then. Job, person and labels are plain values: they outlive what
    they name.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    attempt_id = models.UUIDField()
    job_id = models.UUIDField(db_index=True)
    job_name = models.CharField(max_length=200, blank=True)
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="usage", db_index=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="usage")
    user_name = models.CharField(max_length=150)
    labels = models.JSONField(default=dict)
    flavor = models.ForeignKey(Flavor, models.PROTECT, related_name="+")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    service_class = models.CharField(max_length=16, choices=CLASSES)
    gpus = models.PositiveIntegerField()
    run_start_ms = models.BigIntegerField()
    started_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(null=True)
    reported_end_ms = models.BigIntegerField(null=True)
    metered_ms = models.BigIntegerField()
    confirmed_ms = models.BigIntegerField(default=0, db_default=0)
    skew_ms = models.BigIntegerField(default=0)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    price_missing = models.BooleanField(default=False)
    lineage = ArrayField(models.UUIDField(), null=True)

    class Meta:
        ordering: ClassVar = ["started_ms", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["attempt_id"], name="usage_one_open", condition=Q(ended_ms=None)
            ),
            models.UniqueConstraint(
                fields=["attempt_id", "run_start_ms", "started_ms"], name="usage_once"
            ),
            models.CheckConstraint(
                condition=Q(ended_ms=None) | Q(ended_ms__gte=F("started_ms")),
                name="usage_ends_after_start",
            ),
            models.CheckConstraint(
                condition=Q(metered_ms__gte=F("started_ms"))
                & (Q(ended_ms=None) | Q(metered_ms__lte=F("ended_ms"))),
                name="usage_metered_inside",
            ),
            models.CheckConstraint(
                condition=Q(started_ms__gte=F("run_start_ms")), name="usage_inside_run"
            ),
            models.CheckConstraint(condition=Q(gpus__gt=0), name="usage_has_gpus"),
            _known_class("usage_class_known"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "started_ms"], name="usage_tenant"),
            models.Index(
                fields=["id"],
                name="usage_to_meter",
                condition=Q(ended_ms=None) | Q(metered_ms__lt=F("ended_ms")),
            ),
            models.Index(fields=["ended_ms"], name="usage_spot", condition=Q(service_class="spot")),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id} {self.service_class} {self.started_ms}"


class SpotUse(models.Model):
    """A tenant's decayed spot use of a flavor, GPU-milliseconds, as it stood at `at_ms`.

    Derived: `accounting.services.spot_use` works all rows out anew, at one moment.
    """

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+", db_index=False)
    flavor = models.ForeignKey(Flavor, models.CASCADE, related_name="+", db_index=False)
    gpu_ms = models.BigIntegerField()
    at_ms = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "flavor"], name="spot_use_once"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.flavor_id} {self.gpu_ms}"


class UsageRecord(models.Model):
    """A metered and rated piece of an interval, within one UTC day and under one price."""

    id = models.UUIDField(primary_key=True, editable=False)
    interval = models.ForeignKey(UsageInterval, models.PROTECT, related_name="records")
    start_ms = models.BigIntegerField()
    end_ms = models.BigIntegerField()
    service_class = models.CharField(max_length=16, choices=CLASSES)
    gpus = models.PositiveIntegerField()
    gpu_ms = models.BigIntegerField()
    price = models.ForeignKey(Price, models.PROTECT, related_name="records")
    amount_nano = models.BigIntegerField()
    currency = models.CharField(max_length=3)

    class Meta:
        ordering: ClassVar = ["interval", "start_ms"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["interval", "start_ms"], name="record_once"),
            models.CheckConstraint(condition=Q(end_ms__gt=F("start_ms")), name="record_not_empty"),
            models.CheckConstraint(
                condition=Q(gpu_ms=F("gpus") * (F("end_ms") - F("start_ms"))), name="record_gpu_ms"
            ),
            models.CheckConstraint(condition=Q(amount_nano__gte=0), name="record_not_negative"),
            _known_class("record_class_known"),
        ]

    def __str__(self) -> str:
        return f"{self.interval_id} {self.start_ms} {self.amount_nano}"


class Batch(models.Model):
    """A sealed batch of transfers; `hash` covers `previous_hash` and every row."""

    seq = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)
    rows = models.PositiveIntegerField()
    total_nano = models.DecimalField(max_digits=30, decimal_places=0)

    class Meta:
        ordering: ClassVar = ["seq"]
        verbose_name_plural = "batches"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["previous_hash"], name="batch_chain_is_a_line"),
            models.CheckConstraint(condition=Q(seq__gt=0), name="batch_seq_positive"),
        ]

    def __str__(self) -> str:
        return f"batch {self.seq}"


class Adjustment(models.Model):
    """What is owed or given back beside metered usage: a counter-entry with its cause and why.

    `cause`: `recovery` (usage of a time that a restore lost), `correction` or `refund`. `gpu_ms` is
    the GPU time it is for, 0 = none. `job_id`, where known, is a job's public id.
    """

    class Cause(models.TextChoices):
        """Why there is one."""

        RECOVERY = "recovery"
        CORRECTION = "correction"
        REFUND = "refund"

    id = models.UUIDField(primary_key=True, editable=False)
    at = models.DateTimeField()
    actor = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="adjustments")
    cluster = models.ForeignKey(Cluster, models.PROTECT, null=True, related_name="+")
    job_id = models.UUIDField(null=True)
    cause = models.CharField(max_length=16, choices=Cause)
    why = models.TextField()
    gpu_ms = models.BigIntegerField(default=0)

    class Meta:
        ordering: ClassVar = ["-at", "id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(why__gt=""), name="adjustment_says_why"),
            models.CheckConstraint(condition=Q(gpu_ms__gte=0), name="adjustment_gpu_ms"),
        ]

    def __str__(self) -> str:
        return f"{self.cause} {self.id}"


class Transfer(models.Model):
    """One amount from one account to another, for one record or one adjustment.

    Balanced by construction. Its id is made of what it is for, so that has one transfer only.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    batch = models.ForeignKey(Batch, models.PROTECT, related_name="transfers")
    record = models.OneToOneField(UsageRecord, models.PROTECT, null=True, related_name="transfer")
    adjustment = models.ForeignKey(
        Adjustment, models.PROTECT, null=True, db_index=False, related_name="transfers"
    )
    debit = models.CharField(max_length=127)
    credit = models.CharField(max_length=127)
    amount_nano = models.BigIntegerField()
    currency = models.CharField(max_length=3)

    class Meta:
        ordering: ClassVar = ["batch", "id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(amount_nano__gte=0), name="transfer_not_negative"),
            models.CheckConstraint(condition=~Q(debit=F("credit")), name="transfer_two_accounts"),
            models.CheckConstraint(
                condition=Q(record=None) ^ Q(adjustment=None), name="transfer_for_one_thing"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["debit", "batch"], name="transfer_debit"),
            models.Index(
                fields=["adjustment"],
                name="transfer_adjustment",
                condition=Q(adjustment__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.debit} > {self.credit} {self.amount_nano}"

    @property
    def posting(self) -> Posting | Adjusting:
        """The transfer with what it is for as the core sees them; both are to be at hand."""
        if self.adjustment is not None:
            return self._adjusting(self.adjustment)
        record = self.record
        assert record is not None  # noqa: S101 - a constraint holds that
        return Posting(
            record_id=record.id,
            interval_id=record.interval_id,
            start_ms=record.start_ms,
            end_ms=record.end_ms,
            service_class=record.service_class,
            gpus=record.gpus,
            gpu_ms=record.gpu_ms,
            price_id=record.price_id,
            debit=self.debit,
            credit=self.credit,
            amount_nano=self.amount_nano,
            currency=self.currency,
        )

    def _adjusting(self, adjustment: Adjustment) -> Adjusting:
        return Adjusting(
            adjustment_id=adjustment.id,
            tenant=adjustment.tenant_id,
            cause=adjustment.cause,
            why=adjustment.why,
            gpu_ms=adjustment.gpu_ms,
            debit=self.debit,
            credit=self.credit,
            amount_nano=self.amount_nano,
            currency=self.currency,
        )

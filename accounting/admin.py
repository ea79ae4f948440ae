"""Django admin: prices are set here, all else of accounting is looked at."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from accounting.models import Adjustment, Batch, Price, Transfer, UsageInterval, UsageRecord
from accounting.selectors.prices import DEFAULT_CURRENCY
from accounting.services.prices import PriceScope, set_price
from kit.admin import ReadOnlyAdmin, ServiceAdmin, ServiceForm
from kit.money import decimal_string, to_nano

SCOPE = ("flavor", "service_class", "cluster", "tenant", "effective_from", "amount")


class PriceForm(ServiceForm):
    """A new price: its amount as a decimal, its moment as UTC."""

    amount = forms.DecimalField(
        min_value=0, max_digits=16, decimal_places=9, help_text="Per GPU-hour, at most 9 decimals."
    )
    currency = forms.CharField(max_length=3, initial=DEFAULT_CURRENCY)
    why = forms.CharField(required=False, help_text="Kept with the audit entry.")

    class Meta:
        model = Price
        fields: ClassVar = ["flavor", "service_class", "cluster", "tenant", "effective_from"]


@admin.register(Price)
class PriceAdmin(ServiceAdmin):
    """Prices are added, never edited: a change is a price from a later moment."""

    form = PriceForm
    can_change = False
    list_display = ("flavor", "service_class", "cluster", "tenant", "amount", "effective_from")
    list_filter = ("flavor", "service_class", "cluster")
    list_select_related = ("cluster", "tenant")

    @admin.display(description="per GPU-hour")
    def amount(self, price: Price) -> str:
        """The price as people read it."""
        return f"{decimal_string(price.nano_per_gpu_hour)} {price.currency}"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The form's own fields when adding; the price as it is when looking."""
        return SCOPE if obj is not None else (*SCOPE, "currency", "why")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """`amount` is a form field when adding, a rendering when looking."""
        return [] if obj is None else ["amount"]

    def create(self, values: Mapping[str, Any], actor: Any, now: datetime) -> Price:
        """Sets the price."""
        cluster, tenant = values["cluster"], values["tenant"]
        return set_price(
            actor=actor,
            scope=PriceScope(
                flavor=values["flavor"].pk,
                service_class=values["service_class"],
                cluster_id=cluster.pk if cluster else None,
                tenant_id=tenant.pk if tenant else None,
            ),
            nano_per_gpu_hour=to_nano(values["amount"]),
            currency=values["currency"],
            effective_from=values["effective_from"],
            why=values["why"],
            now=now,
        )


@admin.register(UsageInterval)
class UsageIntervalAdmin(ReadOnlyAdmin):
    """What was used."""

    list_display = ("job_name", "tenant", "user_name", "flavor", "cluster", "service_class", "gpus")
    list_filter = ("flavor", "cluster", "service_class", "price_missing")
    search_fields = ("job_id", "attempt_id")
    list_select_related = ("tenant", "cluster")
    show_full_result_count = False


@admin.register(UsageRecord)
class UsageRecordAdmin(ReadOnlyAdmin):
    """What was metered and rated."""

    list_display = ("interval", "service_class", "gpus", "gpu_ms", "amount_nano", "currency")
    list_filter = ("service_class",)
    list_select_related = ("interval",)
    show_full_result_count = False


@admin.register(Adjustment)
class AdjustmentAdmin(ReadOnlyAdmin):
    """Counter-entries; the REST route makes them."""

    list_display = ("at", "tenant", "cause", "why")
    list_filter = ("cause",)
    list_select_related = ("tenant",)


@admin.register(Transfer)
class TransferAdmin(ReadOnlyAdmin):
    """The ledger's rows."""

    list_display = ("batch", "debit", "credit", "amount_nano", "currency")
    search_fields = ("debit", "credit")
    list_select_related = ("batch",)
    show_full_result_count = False


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """The chain."""

    list_display = ("seq", "at", "rows", "total_nano", "hash")

"""Django admin: prices are set here, all else of accounting is looked at."""

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from accounting.models import Batch, Price, Transfer, UsageInterval, UsageRecord
from accounting.selectors.prices import DEFAULT_CURRENCY
from accounting.services.prices import PriceScope, set_price
from kit.errors import MusterError
from kit.money import decimal_string, to_nano
from tenancy.models import User

if TYPE_CHECKING:  # generic for mypy only
    _ModelAdmin = admin.ModelAdmin[Any]
    _PriceForm = forms.ModelForm[Price]
else:
    _ModelAdmin, _PriceForm = admin.ModelAdmin, forms.ModelForm


class ReadOnlyAdmin(_ModelAdmin):
    """Rows that services write and nobody edits."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never; looking needs the view permission."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Never."""
        return False


class PriceForm(_PriceForm):
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
class PriceAdmin(ReadOnlyAdmin):
    """Prices are added, never edited: a change is a price from a later moment."""

    form = PriceForm
    list_display = ("flavor", "service_class", "cluster", "tenant", "amount", "effective_from")
    list_filter = ("flavor", "service_class", "cluster")
    list_select_related = ("cluster", "tenant")

    @admin.display(description="per GPU-hour")
    def amount(self, price: Price) -> str:
        """The price as people read it."""
        return f"{decimal_string(price.nano_per_gpu_hour)} {price.currency}"

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Admins, and staff with the permission to add prices."""
        return isinstance(request.user, User) and request.user.has_perm("accounting.add_price")

    def get_fields(self, request: HttpRequest, obj: Price | None = None) -> Any:
        """The form's own fields when adding; the price as it is when looking."""
        scope = ("flavor", "service_class", "cluster", "tenant", "effective_from", "amount")
        return scope if obj is not None else (*scope, "currency", "why")

    def get_readonly_fields(self, request: HttpRequest, obj: Price | None = None) -> list[str]:
        """`amount` is a form field when adding, a rendering when looking."""
        return [] if obj is None else ["amount"]

    def save_model(self, request: HttpRequest, obj: Price, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's signature
        """Saves through the service."""
        saved = set_price(
            actor=request.user if isinstance(request.user, User) else None,
            scope=PriceScope(obj.flavor_id, obj.service_class, obj.cluster_id, obj.tenant_id),
            nano_per_gpu_hour=to_nano(form.cleaned_data["amount"]),
            currency=form.cleaned_data["currency"],
            effective_from=obj.effective_from,
            why=form.cleaned_data["why"],
            now=timezone.now(),
        )
        obj.pk = saved.pk

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Shows what the service refuses as a message, in its own words."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except MusterError as error:
            for problem in error.errors or (error,):
                self.message_user(request, problem.detail, messages.ERROR)
            return redirect(request.path)


@admin.register(UsageInterval)
class UsageIntervalAdmin(ReadOnlyAdmin):
    """What was used."""

    list_display = ("job_name", "tenant", "user_name", "flavor", "cluster", "service_class", "gpus")
    list_filter = ("flavor", "cluster", "service_class", "price_missing")
    search_fields = ("job_id", "attempt_id")
    list_select_related = ("tenant", "cluster")


@admin.register(UsageRecord)
class UsageRecordAdmin(ReadOnlyAdmin):
    """What was metered and rated."""

    list_display = ("interval", "service_class", "gpus", "gpu_ms", "amount_nano", "currency")
    list_filter = ("service_class",)
    list_select_related = ("interval",)


@admin.register(Transfer)
class TransferAdmin(ReadOnlyAdmin):
    """The ledger's rows."""

    list_display = ("batch", "debit", "credit", "amount_nano", "currency")
    search_fields = ("debit", "credit")
    list_select_related = ("batch",)


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """The chain."""

    list_display = ("seq", "at", "rows", "total_nano", "hash")

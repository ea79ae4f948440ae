"""Reads of the price book."""

from datetime import datetime

from django.db.models import F, Q, Window
from django.db.models.functions import Lead, RowNumber

from accounting.core.rating import PriceBook, PriceEntry
from accounting.models import Price
from kit.intervals import from_ms, to_ms

DEFAULT_CURRENCY = "USD"
_SCOPE = ["flavor_id", "service_class", "cluster_id", "tenant_id"]


def whole_book() -> PriceBook:
    """Every price there was, is and will be."""
    return PriceBook(_entry(price) for price in Price.objects.all())


def price_book(at_ms: int) -> PriceBook:
    """The prices in force at a moment (our clock, ms) and every later one, for a snapshot."""
    at = from_ms(at_ms)
    dated = Price.objects.annotate(
        until=Window(
            Lead("effective_from"), partition_by=_SCOPE, order_by=F("effective_from").asc()
        )
    )
    return PriceBook(_entry(price) for price in dated.filter(Q(until=None) | Q(until__gt=at)))


def book_currency() -> str:
    """The one currency of the price book."""
    return Price.objects.values_list("currency", flat=True).first() or DEFAULT_CURRENCY


def prices_in_force(*, now: datetime) -> list[Price]:
    """The newest price of every scope that is in force now, with cluster and tenant at hand."""
    newest = Price.objects.filter(effective_from__lte=now).annotate(
        newness=Window(RowNumber(), partition_by=_SCOPE, order_by=F("effective_from").desc())
    )
    return list(newest.filter(newness=1).select_related("cluster", "tenant"))


def _entry(price: Price) -> PriceEntry:
    return PriceEntry(
        id=price.pk,
        flavor=price.flavor_id,
        service_class=price.service_class,
        cluster=price.cluster_id,
        tenant=price.tenant_id,
        nano_per_gpu_hour=price.nano_per_gpu_hour,
        currency=price.currency,
        effective_ms=to_ms(price.effective_from),
    )

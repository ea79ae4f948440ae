"""Reads of the price book."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from accounting.core.rating import PriceBook, PriceEntry
from accounting.models import Price
from kit.bulk import Row, Statement, milliseconds_of, run
from kit.intervals import from_ms
from tenancy.models import User
from tenancy.selectors.access import visible_tenants

DEFAULT_CURRENCY = "USD"
_SCOPE = ["flavor_id", "service_class", "cluster_id", "tenant_id"]


_PRICE = (
    "id, flavor_id, service_class, cluster_id, tenant_id, nano_per_gpu_hour, currency,"
    f" {milliseconds_of('effective_from')}"
)
# Every submit reads them, so the ORM is left out.
ALL_PRICES = Statement(
    f"SELECT {_PRICE} FROM accounting_price",  # noqa: S608
    is_kept=True,
)
# Those that a later one has not replaced.
_DATED = Statement(
    f"SELECT {_PRICE} FROM (SELECT *, lead(effective_from) OVER ("  # noqa: S608
    f" PARTITION BY {', '.join(_SCOPE)} ORDER BY effective_from) AS until"
    " FROM accounting_price) AS dated WHERE until IS NULL OR until > %s",
    is_kept=True,
)


def whole_book(rows: Iterable[Row] | None = None) -> PriceBook:
    """Every price there was, is and will be; of rows of ALL_PRICES, or read now."""
    if rows is None:
        (rows,) = run(ALL_PRICES)
    return PriceBook(PriceEntry(*row) for row in rows)


def price_book(at_ms: int) -> PriceBook:
    """The prices in force at a moment (our clock, ms) and every later one, for a snapshot."""
    (rows,) = run(replace(_DATED, params=(from_ms(at_ms),)))
    return PriceBook(PriceEntry(*row) for row in rows)


def book_currency() -> str:
    """The one currency of the price book."""
    return Price.objects.values_list("currency", flat=True).first() or DEFAULT_CURRENCY


def prices_in_force(*, now: datetime) -> list[Price]:
    """The newest price of every scope that is in force now, with cluster and tenant at hand."""
    newest = Price.objects.filter(effective_from__lte=now).annotate(
        newness=Window(RowNumber(), partition_by=_SCOPE, order_by=F("effective_from").desc())
    )
    return list(newest.filter(newness=1).select_related("cluster", "tenant"))


def price_page(
    user: User,
    *,
    flavors: Sequence[str],
    classes: Sequence[str],
    after: int | None,
    limit: int,
) -> list[Price]:
    """At most `limit` + 1 prices, newest first: general ones, and those of tenants the user may see.

    A price of a tenant above the user's own applies to the user and is shown too.
    """
    rows = Price.objects.select_related("cluster", "tenant")
    if not user.is_superuser:
        seen = list(visible_tenants(user).values_list("lineage", flat=True))
        ids = {tenant_id for lineage in seen for tenant_id in lineage}
        rows = rows.filter(Q(tenant=None) | Q(tenant__in=ids))
    if flavors:
        rows = rows.filter(flavor__in=flavors)
    if classes:
        rows = rows.filter(service_class__in=classes)
    if after is not None:
        rows = rows.filter(id__lt=after)
    return list(rows.order_by("-id")[: limit + 1])

"""Setting prices."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F, Min, Q

from accounting.core.metering import ServiceClass
from accounting.models import Price, UsageInterval, UsageRecord
from accounting.services.locks import take_poster_lock
from clusters.models import Cluster, Flavor
from kit.errors import ConflictError, FieldProblem, InvalidContentError
from kit.intervals import iso, to_ms
from tenancy.models import Tenant, User
from tenancy.services.records import write_audit

MAX_NANO_PER_GPU_HOUR = 10**15


class PriceInUseError(ConflictError):
    """Usage is posted for the time that the price would change."""

    code, status, title = "price_in_use", 409, "Usage of that time is posted already"


class CurrencyMismatchError(ConflictError):
    """The book has one currency."""

    code, status, title = "currency_mismatch", 409, "The price book has another currency"


@dataclass(frozen=True)
class PriceScope:
    """What a price is for; None = any cluster, any tenant."""

    flavor: str
    service_class: str
    cluster_id: UUID | None = None
    tenant_id: UUID | None = None


@transaction.atomic
def set_price(
    *,
    actor: User | None,
    scope: PriceScope,
    nano_per_gpu_hour: int,
    currency: str,
    effective_from: datetime,
    why: str = "",
    now: datetime,
) -> Price:
    """Sets the price of a scope from a moment on; again with the same content changes nothing.

    `effective_from` may lie in the past, to fill a gap or mend a mistake, as long as nothing is
    posted that the price would change. Whole milliseconds, as all time of Muster.

    Raises:
        InvalidContentError: a field is wrong; every wrong field is named.
        CurrencyMismatchError: other prices are in another currency.
        PriceInUseError: usage of that scope and time is posted.
    """
    _validate(scope, nano_per_gpu_hour, currency, effective_from)
    take_poster_lock()
    other = Price.objects.exclude(currency=currency).values_list("currency", flat=True).first()
    if other is not None:
        raise CurrencyMismatchError(f"Every price is in {other}; this one is in {currency}.")
    key = {
        "flavor_id": scope.flavor,
        "service_class": scope.service_class,
        "cluster_id": scope.cluster_id,
        "tenant_id": scope.tenant_id,
        "effective_from": effective_from,
    }
    price = Price.objects.filter(**key).first()
    before = None if price is None else _audited(price)
    if price is not None and price.nano_per_gpu_hour == nano_per_gpu_hour:
        return price
    _refuse_posted(scope, effective_from)
    price = price or Price(**key, currency=currency)
    price.nano_per_gpu_hour = nano_per_gpu_hour
    price.save()
    UsageInterval.objects.filter(
        price_missing=True, flavor=scope.flavor, service_class=scope.service_class
    ).update(price_missing=False)
    write_audit(
        actor=actor,
        action="price.set",
        object_type="price",
        object_id=price.pk,
        before=before,
        after=_audited(price),
        why=why,
        now=now,
    )
    return price


def _validate(
    scope: PriceScope, nano_per_gpu_hour: int, currency: str, effective_from: datetime
) -> None:
    """Everything that is wrong, at once."""
    known = {
        "flavor": Flavor.objects.filter(name=scope.flavor).exists(),
        "cluster": scope.cluster_id is None or Cluster.objects.filter(id=scope.cluster_id).exists(),
        "tenant": scope.tenant_id is None or Tenant.objects.filter(id=scope.tenant_id).exists(),
        "class": scope.service_class in set(ServiceClass),
    }
    problems = [
        FieldProblem(f"/{name}", "unknown", f"There is no such {name}.")
        for name, is_known in known.items()
        if not is_known
    ]
    if not 0 <= nano_per_gpu_hour <= MAX_NANO_PER_GPU_HOUR:
        detail = "A price per GPU-hour is from 0 to 1,000,000."
        problems.append(FieldProblem("/amount", "out_of_range", detail))
    if not (len(currency) == 3 and currency.isascii() and currency.isupper()):
        detail = "A currency is three capital letters, such as USD (ISO 4217)."
        problems.append(FieldProblem("/currency", "invalid", detail))
    is_moment = effective_from.tzinfo is not None and effective_from.microsecond % 1000 == 0
    if not (is_moment and 2000 <= effective_from.year < 2200):
        detail = "A moment has a time zone, whole milliseconds and a year from 2000 to 2199."
        problems.append(FieldProblem("/effective_from", "invalid", detail))
    if problems:
        raise InvalidContentError("The price is not valid.", errors=problems)


def _refuse_posted(scope: PriceScope, effective_from: datetime) -> None:
    """Refuses when a posted record lies in the time the price would rule, and would be priced by it.

    Records under a more specific price would not change; they are those whose price names a tenant
    or cluster where this scope names none. Anything less clear is refused, to be safe.
    """
    following = Price.objects.filter(
        flavor=scope.flavor,
        service_class=scope.service_class,
        cluster=scope.cluster_id,
        tenant=scope.tenant_id,
        effective_from__gt=effective_from,
    ).aggregate(first=Min("effective_from"))["first"]
    ruled = Q(end_ms__gt=to_ms(effective_from) + F("interval__skew_ms"))
    if following is not None:
        ruled &= Q(start_ms__lt=to_ms(following) + F("interval__skew_ms"))
    if scope.cluster_id is not None:
        ruled &= Q(interval__cluster=scope.cluster_id)
    if scope.tenant_id is not None:
        ruled &= Q(interval__tenant__lineage__contains=[scope.tenant_id])
    else:
        ruled &= Q(price__tenant=None)
        if scope.cluster_id is None:
            ruled &= Q(price__cluster=None)
    posted = UsageRecord.objects.filter(
        ruled, interval__flavor=scope.flavor, service_class=scope.service_class
    )
    if posted.exists():
        raise PriceInUseError(
            "Usage that this price would change is posted. Set it from a later moment; what is "
            "posted is corrected by counter-transfers.",
            pointer="/effective_from",
        )


def _audited(price: Price) -> dict[str, object]:
    return {
        "flavor": price.flavor_id,
        "class": price.service_class,
        "cluster": None if price.cluster_id is None else str(price.cluster_id),
        "tenant": None if price.tenant_id is None else str(price.tenant_id),
        "nano_per_gpu_hour": price.nano_per_gpu_hour,
        "currency": price.currency,
        "effective_from": iso(price.effective_from),
    }

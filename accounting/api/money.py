"""REST: prices and the ledger."""

import re
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from accounting.core.metering import ServiceClass
from accounting.models import Price, Transfer, UsageRecord
from accounting.selectors.ledger import transfer_page
from accounting.selectors.prices import price_page
from accounting.services.prices import PriceScope, set_price
from clusters.models import Cluster
from kit.errors import FieldProblem, InvalidContentError
from kit.intervals import from_ms, iso
from kit.money import gpu_time, money, to_nano
from tenancy.api.endpoint import (
    MOMENT,
    MONEY,
    NUMBER,
    PAGING,
    TEXT,
    UUID_TEXT,
    Endpoint,
    Query,
    answer_creating,
    clock,
    component,
    document,
    fields_of,
    many,
    operation,
    or_null,
    page_after,
    page_of,
    page_response,
    user_of,
    wrong_parameter,
)
from tenancy.models import Tenant
from tenancy.permissions import CanRead, IsAdmin
from tenancy.services.idempotency import Answer

CLASS = {"type": "string", "enum": [word.value for word in ServiceClass]}
FIELDS = ("flavor", "class", "cluster", "tenant", "amount", "currency", "effective_from", "why")
AMOUNT = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?")
OPTIONAL = ("cluster", "tenant", "why")
PRICE = component(
    "Price",
    document(
        id=NUMBER,
        flavor=TEXT,
        **{"class": CLASS},
        cluster=or_null(TEXT),
        tenant=or_null(TEXT),
        per_gpu_hour=MONEY,
        effective_from=MOMENT,
    ),
)
NEW_PRICE = component(
    "NewPrice",
    {
        "type": "object",
        "properties": {
            "flavor": TEXT,
            "class": CLASS,
            "cluster": or_null(TEXT),
            "tenant": or_null({**TEXT, "description": "The path; it holds below it too."}),
            "amount": {**TEXT, "description": "Per GPU-hour, a decimal string."},
            "currency": TEXT,
            "effective_from": MOMENT,
            "why": TEXT,
        },
        "required": [name for name in FIELDS if name not in OPTIONAL],
        "additionalProperties": False,
    },
)
TRANSFER = component(
    "Transfer",
    document(
        id=UUID_TEXT,
        batch=NUMBER,
        posted_at=MOMENT,
        debit=TEXT,
        credit=TEXT,
        amount=MONEY,
        tenant=TEXT,
        adjustment=or_null({**UUID_TEXT, "description": "Set: not usage, but a counter-entry."}),
        job=or_null(UUID_TEXT),
        cluster=or_null(TEXT),
        flavor=or_null(TEXT),
        **{"class": or_null(CLASS)},
        gpus=or_null(NUMBER),
        start=or_null(MOMENT),
        end=or_null(MOMENT),
        gpu_ms=NUMBER,
        gpu_hours=TEXT,
    ),
)


class Prices(Endpoint):
    """The price book."""

    @operation(
        CanRead,
        "The dated prices",
        gives=page_of(PRICE),
        query=(
            *PAGING,
            Query("flavor", "Only these GPU models.", many=True),
            Query("class", "Only these classes.", CLASS, many=True),
        ),
        name="list_prices",
    )
    def get(self, request: Request) -> Response:
        """As they were set, newest first; those of tenants that do not concern you are left out."""
        page = page_after(request, int)
        rows = price_page(
            user_of(request),
            flavors=many(request, "flavor"),
            classes=many(request, "class", [word.value for word in ServiceClass]),
            after=page.after if isinstance(page.after, int) else None,
            limit=page.limit,
        )
        return page_response(request, page, rows, price_document, lambda row: int(row.pk))

    @operation(
        IsAdmin,
        "Set a price from a moment on",
        takes=NEW_PRICE,
        gives=PRICE,
        status=201,
        creates=True,
        name="set_price",
    )
    def post(self, request: Request) -> Response:
        """A price holds until the next one of the same scope; posted usage is never changed."""
        wanted = _texts(fields_of(request, FIELDS))
        actor, now = user_of(request), clock()

        def act() -> Answer:
            price = set_price(
                actor=actor,
                scope=_scope(wanted),
                nano_per_gpu_hour=nano_of(wanted["amount"]),
                currency=wanted["currency"],
                effective_from=_moment(wanted["effective_from"]),
                why=wanted.get("why", ""),
                now=now,
            )
            return Answer(201, price_document(price))

        return answer_creating(request, "POST /prices", act)


class Ledger(Endpoint):
    """The transfers."""

    @operation(
        CanRead,
        "The ledger",
        gives=page_of(TRANSFER),
        query=(
            *PAGING,
            Query("tenant", "Only these tenants and what is below them, by path.", many=True),
            Query("job", "Only these jobs.", UUID_TEXT, many=True),
        ),
        name="list_ledger",
    )
    def get(self, request: Request) -> Response:
        """Newest batch first; only what tenants you may see owe."""
        page = page_after(request, str)
        rows = transfer_page(
            user_of(request),
            under=many(request, "tenant"),
            jobs=[uuid_of(text, "job") for text in many(request, "job")],
            after=_after(page.after),
            limit=page.limit,
        )
        return page_response(
            request, page, rows, transfer_document, lambda row: f"{row.batch_id}:{row.pk}"
        )


def price_document(price: Price) -> dict[str, Any]:
    """A price."""
    return {
        "id": price.pk,
        "flavor": price.flavor_id,
        "class": price.service_class,
        "cluster": price.cluster.name if price.cluster else None,
        "tenant": price.tenant.path if price.tenant else None,
        "per_gpu_hour": money(price.nano_per_gpu_hour, price.currency),
        "effective_from": iso(price.effective_from),
    }


def transfer_document(transfer: Transfer) -> dict[str, Any]:
    """A transfer with the piece of usage it is for (on the cluster's clock), or the adjustment."""
    return {
        "id": str(transfer.pk),
        "batch": transfer.batch_id,
        "posted_at": iso(transfer.batch.at),
        "debit": transfer.debit,
        "credit": transfer.credit,
        "amount": money(transfer.amount_nano, transfer.currency),
        **(_adjusted(transfer) if transfer.record is None else _used(transfer.record)),
    }


def _used(record: UsageRecord) -> dict[str, Any]:
    interval = record.interval
    return {
        "tenant": interval.tenant.path,
        "adjustment": None,
        "job": str(interval.job_id),
        "cluster": interval.cluster.name,
        "flavor": interval.flavor_id,
        "class": record.service_class,
        "gpus": record.gpus,
        "start": iso(from_ms(record.start_ms)),
        "end": iso(from_ms(record.end_ms)),
        **gpu_time(record.gpu_ms),
    }


def _adjusted(transfer: Transfer) -> dict[str, Any]:
    adjustment = transfer.adjustment
    assert adjustment is not None  # noqa: S101 - a transfer is for one of the two
    return {
        "tenant": adjustment.tenant.path,
        "adjustment": str(adjustment.pk),
        "job": None if adjustment.job_id is None else str(adjustment.job_id),
        "cluster": adjustment.cluster.name if adjustment.cluster else None,
        **dict.fromkeys(("flavor", "class", "gpus", "start", "end")),
        **gpu_time(adjustment.gpu_ms),
    }


def _texts(given: dict[str, Any]) -> dict[str, str]:
    """The body's fields, all texts; null is a field left out.

    Raises:
        InvalidContentError: every field that is missing or no text.
    """
    held = {name: value for name, value in given.items() if value is not None}
    problems = [
        FieldProblem(f"/{name}", "wrong_type", "Give a text.")
        for name, value in held.items()
        if not isinstance(value, str) or "\0" in value or len(value) > 1023
    ]
    problems += [
        FieldProblem(f"/{name}", "missing", "This field is needed.")
        for name in FIELDS
        if name not in held and name not in OPTIONAL
    ]
    if problems:
        raise InvalidContentError("The price is not valid.", errors=problems)
    return held


def _scope(wanted: dict[str, str]) -> PriceScope:
    """The scope with cluster and tenant looked up by name and path."""
    cluster = tenant = None
    if "cluster" in wanted:
        cluster = Cluster.objects.filter(name=wanted["cluster"]).first()
        if cluster is None:
            raise InvalidContentError("There is no such cluster.", pointer="/cluster")
    if "tenant" in wanted:
        tenant = Tenant.objects.filter(path=wanted["tenant"]).first()
        if tenant is None:
            raise InvalidContentError("There is no such tenant.", pointer="/tenant")
    return PriceScope(
        flavor=wanted["flavor"],
        service_class=wanted["class"],
        cluster_id=cluster.pk if cluster else None,
        tenant_id=tenant.pk if tenant else None,
    )


def nano_of(text: str) -> int:
    if AMOUNT.fullmatch(text) is None:
        detail = 'Give a decimal string with at most 9 decimals, such as "2.50".'
        raise InvalidContentError(detail, pointer="/amount")
    return to_nano(Decimal(text))


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        detail = 'Give an ISO 8601 time with its zone, such as "2026-12-01T08:00:00Z".'
        raise InvalidContentError(detail, pointer="/effective_from") from None


def uuid_of(text: str, name: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise wrong_parameter(name, f"{name} is a UUID.") from None


def _after(cursor: object) -> tuple[int, UUID] | None:
    """The (batch, transfer) that a cursor of the ledger names."""
    if not isinstance(cursor, str):
        return None
    seq, _, transfer_id = cursor.partition(":")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 19):
        raise wrong_parameter("cursor", "cursor must be one that a `next` address carried.")
    return int(seq), uuid_of(transfer_id, "cursor")

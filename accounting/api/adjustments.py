"""REST: adjustments, the ledger's counter-entries."""

from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from accounting.api.money import nano_of, uuid_of
from accounting.models import Adjustment
from accounting.selectors.ledger import adjustment_page
from accounting.services.adjust import Correction, adjust
from clusters.models import Cluster
from kit.errors import FieldProblem, InvalidContentError
from kit.ids import new_id
from kit.intervals import iso
from kit.money import gpu_time, money
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

# What a person may give as a cause; `recovery` is what a restore finds by itself as well.
CAUSE = {"type": "string", "enum": Adjustment.Cause.values}
FIELDS = ("tenant", "amount", "currency", "cause", "why", "cluster", "job", "gpu_ms")
OPTIONAL = ("cluster", "job", "gpu_ms")
ADJUSTMENT = component(
    "Adjustment",
    document(
        id=UUID_TEXT,
        at=MOMENT,
        by=or_null(TEXT),
        tenant=TEXT,
        cluster=or_null(TEXT),
        job=or_null(UUID_TEXT),
        amount=MONEY,
        cause=CAUSE,
        why=TEXT,
        gpu_ms=NUMBER,
        gpu_hours=TEXT,
    ),
)
NEW_ADJUSTMENT = component(
    "NewAdjustment",
    {
        "type": "object",
        "properties": {
            "tenant": {**TEXT, "description": "Its path."},
            "amount": {**TEXT, "description": "Owed by the tenant; below 0 it is given back."},
            "currency": TEXT,
            "cause": CAUSE,
            "why": TEXT,
            "cluster": or_null(TEXT),
            "job": or_null(UUID_TEXT),
            "gpu_ms": {**NUMBER, "description": "The GPU time it is for.", "minimum": 0},
        },
        "required": [name for name in FIELDS if name not in OPTIONAL],
        "additionalProperties": False,
    },
)


class Adjustments(Endpoint):
    """Counter-entries."""

    @operation(
        CanRead,
        "The ledger's adjustments",
        gives=page_of(ADJUSTMENT),
        query=(
            *PAGING,
            Query("tenant", "Only these tenants and what is below them, by path.", many=True),
        ),
        name="list_adjustments",
    )
    def get(self, request: Request) -> Response:
        """Newest first; only those of tenants you may see."""
        page = page_after(request, str)
        rows = adjustment_page(
            user_of(request),
            under=many(request, "tenant"),
            after=_after(page.after),
            limit=page.limit,
        )
        return page_response(
            request, page, rows, adjustment_document, lambda row: f"{row.at.isoformat()}_{row.pk}"
        )

    @operation(
        IsAdmin,
        "Book an adjustment",
        takes=NEW_ADJUSTMENT,
        gives=ADJUSTMENT,
        status=201,
        creates=True,
        name="book_adjustment",
    )
    def post(self, request: Request) -> Response:
        """A counter-entry with its cause and why; what is posted is never changed."""
        correction = _correction(fields_of(request, FIELDS))
        actor, now = user_of(request), clock()

        def act() -> Answer:
            made = adjust(actor=actor, correction=correction, adjustment_id=new_id(), now=now)
            return Answer(201, adjustment_document(made))

        return answer_creating(request, "POST /adjustments", act)


def adjustment_document(adjustment: Adjustment) -> dict[str, Any]:
    """An adjustment; its amount is below 0 where something was given back."""
    transfer = adjustment.transfers.all()[0]
    is_owed = transfer.debit.startswith("tenant:")
    actor = adjustment.actor
    return {
        "id": str(adjustment.pk),
        "at": iso(adjustment.at),
        "by": actor.username if actor else None,
        "tenant": adjustment.tenant.path,
        "cluster": adjustment.cluster.name if adjustment.cluster else None,
        "job": None if adjustment.job_id is None else str(adjustment.job_id),
        "amount": money(
            transfer.amount_nano if is_owed else -transfer.amount_nano, transfer.currency
        ),
        "cause": adjustment.cause,
        "why": adjustment.why,
        **gpu_time(adjustment.gpu_ms),
    }


def _correction(given: dict[str, Any]) -> Correction:
    """The body as a correction.

    Raises:
        InvalidContentError: names every field that is missing or wrong.
    """
    held = {name: value for name, value in given.items() if value is not None}
    _refuse(_problems(held))
    tenant = Tenant.objects.filter(path=held["tenant"]).first()
    cluster = Cluster.objects.filter(name=held.get("cluster", "")).first()
    problems = []
    if tenant is None:
        problems.append(FieldProblem("/tenant", "unknown_tenant", "There is no such tenant."))
    if cluster is None and "cluster" in held:
        problems.append(FieldProblem("/cluster", "unknown_cluster", "There is no such cluster."))
    _refuse(problems)
    assert tenant is not None  # noqa: S101 - refused above
    return Correction(
        tenant_id=tenant.pk,
        amount_nano=nano_of(held["amount"]),
        currency=held["currency"],
        cause=held["cause"],
        why=held["why"],
        cluster_id=cluster.pk if cluster else None,
        job_id=UUID(held["job"]) if "job" in held else None,
        gpu_ms=held.get("gpu_ms", 0),
    )


def _refuse(problems: list[FieldProblem]) -> None:
    if problems:
        raise InvalidContentError("The adjustment is not valid.", errors=problems)


def _problems(held: dict[str, Any]) -> list[FieldProblem]:
    problems = [
        FieldProblem(f"/{name}", "missing", "This field is needed.")
        for name in FIELDS
        if name not in held and name not in OPTIONAL
    ]
    for name, value in held.items():
        if name == "gpu_ms":
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
                problems.append(FieldProblem("/gpu_ms", "wrong_type", "Give milliseconds from 0."))
        elif not isinstance(value, str) or "\0" in value or len(value) > 1023:
            problems.append(FieldProblem(f"/{name}", "wrong_type", "Give a text."))
        elif name == "cause" and value not in CAUSE["enum"]:
            words = f"Give one of {', '.join(CAUSE['enum'])}."
            problems.append(FieldProblem("/cause", "unknown_cause", words))
        elif name == "job" and not _is_uuid(value):
            problems.append(FieldProblem("/job", "wrong_type", "Give a job's id, a UUID."))
    return problems


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _after(cursor: object) -> tuple[datetime, UUID] | None:
    """The (when, adjustment) that a cursor names."""
    if not isinstance(cursor, str):
        return None
    at, _, adjustment_id = cursor.partition("_")
    try:
        return datetime.fromisoformat(at), uuid_of(adjustment_id, "cursor")
    except ValueError:
        raise wrong_parameter(
            "cursor", "cursor must be one that a `next` address carried."
        ) from None

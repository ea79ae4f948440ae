"""REST: asking for more quota, and deciding about it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from kit.errors import FieldProblem, InvalidContentError
from kit.intervals import from_ms, iso, to_ms
from quotas.models import QuotaRequest
from quotas.selectors import (
    REQUEST_STATES,
    request_page,
    served_flavor,
    state_of,
    visible_request,
)
from quotas.services.requests import Wish, approve, ask, reject, shown, withdraw
from tenancy.api.endpoint import (
    MOMENT,
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
    etag,
    expected_version,
    fields_of,
    many,
    operation,
    or_null,
    page_after,
    page_of,
    page_response,
    user_of,
    uuid_after,
)
from tenancy.permissions import CanManage, CanRead
from tenancy.selectors.tenants import managed_tenant, owned_tenant
from tenancy.services.idempotency import Answer

Schema = dict[str, Any]
GPUS: Schema = {**NUMBER, "minimum": 1, "description": "Guaranteed GPUs, beside what there is."}
TIMES: Schema = {
    "from": {**MOMENT, "description": "Default: now."},
    "until": or_null({**MOMENT, "description": "Null = for good."}),
}
WISH = {"amount": GPUS, "borrowing_limit": or_null(NUMBER), **TIMES}
REQUEST = component(
    "QuotaRequest",
    document(
        id=UUID_TEXT,
        tenant=TEXT,
        flavor=TEXT,
        **WISH,
        why=TEXT,
        asked_by=TEXT,
        asked_at=MOMENT,
        state={"type": "string", "enum": list(REQUEST_STATES)},
        decided_by=or_null(TEXT),
        decided_at=or_null(MOMENT),
        comment=TEXT,
        granted=or_null(document(**WISH)),
        etag=TEXT,
    ),
)


def _body(needed: tuple[str, ...], **fields: Schema) -> Schema:
    return {
        "type": "object",
        "properties": fields,
        "required": list(needed),
        "additionalProperties": False,
    }


NEW = _body(("tenant", "flavor", "amount", "why"), tenant=TEXT, flavor=TEXT, **WISH, why=TEXT)
COMMENT = _body((), comment=TEXT)


class Requests(Endpoint):
    """Requests for more quota."""

    @operation(
        CanRead,
        "Requests for quota",
        gives=page_of(REQUEST),
        query=(
            *PAGING,
            Query("tenant", "Only these tenants and what is below them, by path.", many=True),
            Query(
                "state",
                "Only these states.",
                {"type": "string", "enum": list(REQUEST_STATES)},
                many=True,
            ),
        ),
        name="list_quota_requests",
    )
    def get(self, request: Request) -> Response:
        """Newest first; only those of tenants that you may see. `ended`: a grant that is over."""
        page, now = page_after(request, str), clock()
        rows = request_page(
            user_of(request),
            under=many(request, "tenant"),
            states=many(request, "state", REQUEST_STATES),
            after=uuid_after(page),
            limit=page.limit,
            now=now,
        )
        return page_response(
            request, page, rows, lambda row: request_document(row, now), lambda row: str(row.pk)
        )

    @operation(
        CanManage,
        "Ask for more quota",
        takes=NEW,
        gives=REQUEST,
        status=201,
        creates=True,
        name="ask_for_quota",
    )
    def post(self, request: Request) -> Response:
        """By an owner of the tenant. An admin, or an owner of a tenant above, decides."""
        body = fields_of(request, ("tenant", "flavor", *WISH, "why"))
        actor, now = user_of(request), clock()
        path = body.get("tenant")
        if not isinstance(path, str):
            raise InvalidContentError("Give the tenant's path.", pointer="/tenant")
        tenant = owned_tenant(actor, path)

        def act() -> Answer:
            made = ask(
                actor=actor,
                tenant=tenant,
                flavor=served_flavor(body.get("flavor")),
                wish=Wish(**{"gpus": None, "start": now, **wish_of(body)}),
                why=body.get("why", ""),
                now=now,
            )
            return Answer(201, request_document(made, now))

        return answer_creating(request, "POST /quotas/requests", act)


class OneRequest(Endpoint):
    """One request."""

    @operation(CanRead, "One request for quota", gives=REQUEST, name="get_quota_request")
    def get(self, request: Request, request_id: UUID) -> Response:
        """As it stands; the `ETag` goes with a decision as `If-Match`."""
        return _answer(visible_request(user_of(request), request_id), clock())


class Approve(Endpoint):
    """Granting."""

    @operation(
        CanManage,
        "Grant a request, or a part of it",
        takes=_body((), **WISH, comment=TEXT),
        gives=REQUEST,
        matches=True,
        name="approve_quota_request",
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """By an admin or an owner of a tenant above. What is not given is as asked.

        The tenant is guaranteed so much more from `from` until `until`; then the grant ends by
        itself, and nothing that runs is stopped. Children fit in their parent all the time,
        else 409.
        """
        body = fields_of(request, (*WISH, "comment"))
        changes = wish_of(body)
        comment = body.get("comment", "")
        return _decided(
            request, request_id, managed_tenant, approve, changes=changes, comment=comment
        )


class Reject(Endpoint):
    """Not granting."""

    @operation(
        CanManage,
        "Reject a request",
        takes=COMMENT,
        gives=REQUEST,
        matches=True,
        name="reject_quota_request",
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """By an admin or an owner of a tenant above."""
        comment = fields_of(request, ("comment",)).get("comment", "")
        return _decided(request, request_id, managed_tenant, reject, comment=comment)


class Withdraw(Endpoint):
    """Taking back."""

    @operation(
        CanManage,
        "Take a request back, or end a grant",
        takes=COMMENT,
        gives=REQUEST,
        matches=True,
        name="withdraw_quota_request",
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """By an owner of the tenant. What runs goes on."""
        comment = fields_of(request, ("comment",)).get("comment", "")
        return _decided(request, request_id, owned_tenant, withdraw, comment=comment)


def request_document(row: QuotaRequest, now: datetime) -> dict[str, Any]:
    """A request, what was decided, and what was granted."""
    wishes = shown(row)
    return {
        "id": str(row.pk),
        "tenant": row.tenant.path,
        "flavor": row.flavor_id,
        **wishes["asked"],
        "why": row.why,
        "asked_by": row.asked_by.username,
        "asked_at": iso(row.asked_at),
        "state": state_of(row, now),
        "decided_by": row.decided_by.username if row.decided_by else None,
        "decided_at": iso(row.decided_at),
        "comment": row.comment,
        "granted": wishes["granted"],
        "etag": etag(row.revision),
    }


def wish_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Wish` that a body names; a `from` of null is none. Numbers are checked later.

    Raises:
        InvalidContentError: a time is none.
    """
    wish: dict[str, Any] = {}
    problems = []
    for name, field in (("amount", "gpus"), ("borrowing_limit", "borrowing_limit")):
        if name in body:
            wish[field] = body[name]
    for name, field in (("from", "start"), ("until", "end")):
        if name in body and (name, body[name]) != ("from", None):
            try:
                wish[field] = None if body[name] is None else moment_of(body[name])
            except (ValueError, OverflowError):
                words = "Give a time such as 2026-12-24T00:00:00Z."
                problems.append(FieldProblem(f"/{name}", "invalid_time", words))
    if problems:
        raise InvalidContentError("The request is not valid.", errors=problems)
    return wish


def moment_of(given: object) -> datetime:
    """The moment of a text in ISO 8601 with its offset, in UTC, to the millisecond.

    Raises:
        ValueError, OverflowError: it is none.
    """
    moment = datetime.fromisoformat(given) if isinstance(given, str) else None
    if moment is None or moment.tzinfo is None:
        raise ValueError
    return from_ms(to_ms(moment.astimezone(UTC)))


def _decided(
    request: Request,
    request_id: UUID,
    allowed: Callable[..., object],
    act: Callable[..., QuotaRequest],
    **given: Any,
) -> Response:
    """Looks for the request, whether the caller may, does it, and answers with what came of it."""
    user, now = user_of(request), clock()
    found = visible_request(user, request_id)
    allowed(user, found.tenant.path)
    expected = expected_version(request)
    return _answer(
        act(actor=user, request=found, expected_revision=expected, now=now, **given), now
    )


def _answer(row: QuotaRequest, now: datetime) -> Response:
    return Response(request_document(row, now), headers={"ETag": etag(row.revision)})

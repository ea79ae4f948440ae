"""REST: who am I, my tokens, the audit trail."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from kit.errors import InvalidContentError, PermissionDeniedError
from kit.intervals import iso
from tenancy.api.endpoint import (
    MOMENT,
    NUMBER,
    PAGING,
    TEXT,
    TRUTH,
    UUID_TEXT,
    Endpoint,
    Query,
    answer_creating,
    clock,
    component,
    document,
    fields_of,
    list_of,
    many,
    operation,
    or_null,
    page_after,
    page_of,
    page_response,
    user_of,
)
from tenancy.models import ApiToken, AuditEntry, Scope
from tenancy.permissions import CanRead, IsAdmin, principal_of
from tenancy.selectors.access import tenant_roles
from tenancy.selectors.records import audit_page, tokens_of
from tenancy.services.access import create_token, revoke_token
from tenancy.services.idempotency import Answer

DEFAULT_LIFE = timedelta(days=90)

ME = component(
    "Me",
    document(
        id=UUID_TEXT,
        username=TEXT,
        name=TEXT,
        email=TEXT,
        is_admin=TRUTH,
        scopes=list_of({"type": "string", "enum": list(Scope.values)}),
        memberships=list_of(document(tenant=TEXT, role=TEXT)),
    ),
)
TOKEN = component(
    "Token",
    document(
        id=UUID_TEXT,
        name=TEXT,
        prefix=TEXT,
        scopes=list_of(TEXT),
        created_at=MOMENT,
        expires_at=MOMENT,
        revoked_at=or_null(MOMENT),
    ),
)
NEW_TOKEN = component(
    "NewToken",
    {
        "type": "object",
        "properties": {
            "name": TEXT,
            "scopes": list_of({"type": "string", "enum": list(Scope.values)}),
            "expires_at": {**MOMENT, "description": "Default: in 90 days; at most in 366."},
        },
        "required": ["name", "scopes"],
        "additionalProperties": False,
    },
)
AUDIT = component(
    "AuditEntry",
    document(
        id=NUMBER,
        at=MOMENT,
        actor=or_null(TEXT),
        action=TEXT,
        object_type=TEXT,
        object_id=TEXT,
        before=or_null({"type": "object"}),
        after=or_null({"type": "object"}),
        why=TEXT,
    ),
)


class Me(Endpoint):
    """The caller."""

    @operation(CanRead, "Who am I, and what may I do", gives=ME, name="me")
    def get(self, request: Request) -> Response:
        """The person, their roles by tenant (inherited below it), and the scopes of this way in."""
        principal = principal_of(request)
        user = principal.user
        return Response(
            {
                "id": str(user.pk),
                "username": user.username,
                "name": user.get_full_name(),
                "email": user.email,
                "is_admin": user.is_superuser,
                "scopes": sorted(principal.scopes),
                "memberships": [
                    {"tenant": path, "role": role} for path, role in tenant_roles(user)
                ],
            }
        )


class Tokens(Endpoint):
    """The caller's tokens."""

    @operation(CanRead, "My tokens", gives=page_of(TOKEN), query=PAGING, name="list_tokens")
    def get(self, request: Request) -> Response:
        """Newest first, also expired and revoked ones; never their texts."""
        page = page_after(request, str)
        rows = tokens_of(user_of(request), after=_uuid(page.after), limit=page.limit)
        return page_response(request, page, rows, token_document, lambda row: str(row.id))

    @operation(
        CanRead,
        "Make a token",
        takes=NEW_TOKEN,
        gives={"allOf": [TOKEN, document(token=or_null(TEXT))]},
        status=201,
        creates=True,
        name="create_token",
    )
    def post(self, request: Request) -> Response:
        """The text stands in this one answer; a replay has null in its place.

        A token never gives more than the way in that it was made through.
        """
        principal = principal_of(request)
        given = fields_of(request, ("name", "scopes", "expires_at"))
        name, scopes = given.get("name"), given.get("scopes")
        if not isinstance(name, str):
            raise InvalidContentError("Give the token a name.", pointer="/name")
        if not isinstance(scopes, list) or not all(isinstance(scope, str) for scope in scopes):
            raise InvalidContentError("Give a list of scopes.", pointer="/scopes")
        beyond = sorted(set(scopes) & set(Scope.values) - principal.scopes)
        if beyond:
            raise PermissionDeniedError(f"Your own way in lacks the scope {', '.join(beyond)}.")
        now = clock()
        expires_at = _moment(given.get("expires_at")) or now + DEFAULT_LIFE
        shown: list[str] = []

        def act() -> Answer:
            token, text = create_token(
                actor=principal.user,
                user=principal.user,
                name=name,
                scopes=scopes,
                expires_at=expires_at,
                now=now,
            )
            shown.append(text)
            return Answer(201, {**token_document(token), "token": None})

        response = answer_creating(request, "POST /tokens", act)
        if shown:
            response.data = {**response.data, "token": shown[0]}
        return response


class OneToken(Endpoint):
    """One of the caller's tokens."""

    @operation(CanRead, "Revoke a token", status=204, name="revoke_token")
    def delete(self, request: Request, token_id: UUID) -> Response:
        """It ends at once; revoking it twice is no error."""
        user = user_of(request)
        revoke_token(actor=user, user=user, token_id=token_id, now=clock())
        return Response(status=204)


class Audit(Endpoint):
    """What people did."""

    @operation(
        IsAdmin,
        "What people did, newest first",
        gives=page_of(AUDIT),
        query=(
            *PAGING,
            Query("object_type", "Only these kinds of object.", many=True),
            Query("object_id", "Only these objects.", many=True),
            Query("actor", "Only these people, by username.", many=True),
        ),
        name="list_audit",
    )
    def get(self, request: Request) -> Response:
        """Entries are never changed or pruned."""
        page = page_after(request, int)
        rows = audit_page(
            object_types=many(request, "object_type"),
            object_ids=many(request, "object_id"),
            actors=many(request, "actor"),
            after=page.after if isinstance(page.after, int) else None,
            limit=page.limit,
        )
        return page_response(request, page, rows, audit_document, lambda row: row.id)


def token_document(token: ApiToken) -> dict[str, Any]:
    """A token without its text."""
    return {
        "id": str(token.id),
        "name": token.name,
        "prefix": token.prefix,
        "scopes": list(token.scopes),
        "created_at": iso(token.created_at),
        "expires_at": iso(token.expires_at),
        "revoked_at": iso(token.revoked_at),
    }


def audit_document(entry: AuditEntry) -> dict[str, Any]:
    """One act."""
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "actor": entry.actor.username if entry.actor else None,
        "action": entry.action,
        "object_type": entry.object_type,
        "object_id": entry.object_id,
        "before": entry.before,
        "after": entry.after,
        "why": entry.why,
    }


def _uuid(cursor: object) -> UUID | None:
    try:
        return UUID(cursor) if isinstance(cursor, str) else None
    except ValueError:
        return None


def _moment(given: object) -> datetime | None:
    """An aware datetime of an ISO 8601 text; None stays None."""
    if given is None:
        return None
    detail = 'Give an ISO 8601 time with its zone, such as "2026-12-01T08:00:00Z".'
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidContentError(detail, pointer="/expires_at")
    return moment

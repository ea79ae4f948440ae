"""REST: the tree of tenants and its members, as the caller may see them."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from kit.errors import InvalidContentError, NotFoundError, PermissionDeniedError
from tenancy.api.endpoint import (
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
)
from tenancy.models import Membership, Tenant, User
from tenancy.permissions import CanManage, CanRead
from tenancy.selectors.tenants import (
    managed_tenant,
    members_page,
    owned_tenant,
    tenant_page,
    visible_tenant,
)
from tenancy.services.access import create_tenant
from tenancy.services.idempotency import Answer
from tenancy.services.tree import remove_tenant, update_tenant

TENANT = component(
    "Tenant",
    document(
        id=UUID_TEXT,
        path=TEXT,
        name=TEXT,
        title=TEXT,
        parent=or_null(TEXT),
        is_open=TRUTH,
    ),
)
NEW_TENANT: dict[str, Any] = {
    "type": "object",
    "properties": {"name": TEXT, "parent": or_null(TEXT), "title": TEXT},
    "required": ["name"],
    "additionalProperties": False,
}
TENANT_CHANGE: dict[str, Any] = {
    "type": "object",
    "properties": {"title": TEXT, "is_open": TRUTH, "why": TEXT},
    "additionalProperties": False,
}
MEMBER = component("Member", document(username=TEXT, name=TEXT, role=TEXT, tenant=TEXT))


class Tenants(Endpoint):
    """The tree."""

    @operation(
        CanRead,
        "The tenants I may see",
        gives=page_of(TENANT),
        query=(*PAGING, Query("under", "Only this tenant and what is below it.", many=True)),
        name="list_tenants",
    )
    def get(self, request: Request) -> Response:
        """In order of their paths."""
        page = page_after(request, str)
        after = page.after if isinstance(page.after, str) else None
        rows = tenant_page(
            user_of(request), under=many(request, "under"), after=after, limit=page.limit
        )
        return page_response(request, page, rows, tenant_document, lambda row: row.path)

    @operation(
        CanManage,
        "Add a tenant",
        takes=NEW_TENANT,
        gives=TENANT,
        status=201,
        creates=True,
        name="create_tenant",
    )
    def post(self, request: Request) -> Response:
        """Below one that the caller owns; at the top (`parent` null) by an admin."""
        body = fields_of(request, ("name", "parent", "title"))
        name, user = body.get("name"), user_of(request)

        def act() -> Answer:
            tenant = create_tenant(
                actor=user,
                name=name if isinstance(name, str) else "",
                parent=_parent(user, body.get("parent")),
                title=body.get("title", ""),
                now=clock(),
            )
            return Answer(201, tenant_document(tenant))

        return answer_creating(request, "create_tenant", act)


def _parent(user: User, path: object) -> Tenant | None:
    if path is None:
        if not user.is_superuser:
            raise PermissionDeniedError("Only an admin makes an organisation; name a parent.")
        return None
    if not isinstance(path, str):
        raise InvalidContentError("Give the path of a tenant, or null.", pointer="/parent")
    try:
        return owned_tenant(user, path)
    except NotFoundError as error:
        raise InvalidContentError(error.detail, pointer="/parent") from None


class OneTenant(Endpoint):
    """A node of the tree."""

    @operation(CanRead, "One tenant", gives=TENANT, name="get_tenant")
    def get(self, request: Request, path: str) -> Response:
        """By its path."""
        tenant = visible_tenant(user_of(request), path)
        return Response(tenant_document(tenant), headers={"ETag": etag(tenant.revision)})

    @operation(
        CanManage,
        "Change a tenant",
        takes=TENANT_CHANGE,
        gives=TENANT,
        matches=True,
        name="change_tenant",
    )
    def patch(self, request: Request, path: str) -> Response:
        """Its title; whether it is open. Closed, it finishes what runs and starts nothing.

        By an admin, or an owner of a tenant above.
        """
        user = user_of(request)
        tenant = managed_tenant(user, path)
        body = fields_of(request, ("title", "is_open", "why"))
        why = body.pop("why", "")
        changed = update_tenant(
            actor=user,
            tenant=tenant,
            changes=body,
            expected_revision=expected_version(request),
            why=why,
            now=clock(),
        )
        return Response(tenant_document(changed), headers={"ETag": etag(changed.revision)})

    @operation(CanManage, "Take a tenant away", status=204, matches=True, name="remove_tenant")
    def delete(self, request: Request, path: str) -> Response:
        """One that never did anything; what has a history is closed instead (409)."""
        user = user_of(request)
        tenant = managed_tenant(user, path)
        expected = expected_version(request)
        remove_tenant(actor=user, tenant=tenant, expected_revision=expected, now=clock())
        return Response(status=204)


class Members(Endpoint):
    """Who has a role in a tenant."""

    @operation(CanRead, "Its members", gives=page_of(MEMBER), query=PAGING, name="list_members")
    def get(self, request: Request, path: str) -> Response:
        """Roles held in the tenant itself or inherited from above (`tenant` says where)."""
        page = page_after(request, int)
        tenant = visible_tenant(user_of(request), path)
        after = page.after if isinstance(page.after, int) else None
        rows = members_page(tenant, after=after, limit=page.limit)
        return page_response(request, page, rows, member_document, lambda row: row.id)


def tenant_document(tenant: Tenant) -> dict[str, Any]:
    """A tenant."""
    return {
        "id": str(tenant.id),
        "path": tenant.path,
        "name": tenant.name,
        "title": tenant.title,
        "parent": tenant.path.rpartition("/")[0] or None,
        "is_open": tenant.is_open,
    }


def member_document(member: Membership) -> dict[str, Any]:
    """A role held."""
    return {
        "username": member.user.username,
        "name": member.user.get_full_name(),
        "role": member.role,
        "tenant": member.tenant.path,
    }

"""REST: the tree of tenants and its members, as the caller may see them."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from tenancy.api.endpoint import (
    PAGING,
    TEXT,
    TRUTH,
    UUID_TEXT,
    Endpoint,
    Query,
    component,
    document,
    etag,
    many,
    operation,
    or_null,
    page_after,
    page_of,
    page_response,
    user_of,
)
from tenancy.models import Membership, Tenant
from tenancy.permissions import CanRead
from tenancy.selectors.tenants import members_page, tenant_page, visible_tenant

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


class OneTenant(Endpoint):
    """A node of the tree."""

    @operation(CanRead, "One tenant", gives=TENANT, name="get_tenant")
    def get(self, request: Request, path: str) -> Response:
        """By its path."""
        tenant = visible_tenant(user_of(request), path)
        return Response(tenant_document(tenant), headers={"ETag": etag(tenant.revision)})


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

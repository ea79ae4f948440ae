"""REST: the most that jobs of a tenant, its people and its labels may do at once."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from federation.services.limits import read_time_limit
from quotas.core.limits import Scope
from quotas.models import Limit
from quotas.selectors import limits_of
from quotas.services.limits import read_whose, remove_limit, set_limit
from tenancy.api.endpoint import (
    NUMBER,
    TEXT,
    Endpoint,
    Query,
    clock,
    component,
    document,
    etag,
    expected_version,
    fields_of,
    operation,
    or_null,
    page_of,
    user_of,
)
from tenancy.permissions import CanManage, CanRead
from tenancy.selectors.tenants import managed_tenant, visible_tenant

COUNTED = ("running_gpus", "running_jobs", "waiting_jobs")
WHOSE = ("scope", "user", "label")
WHOSE_TYPES: dict[str, Any] = {
    "scope": {"type": "string", "enum": list(Scope)},
    "user": {**or_null(TEXT), "description": "With the scope user: whose; null = each person's."},
    "label": {**or_null(TEXT), "description": "With the scope label: name=text."},
}
LIMIT = component(
    "Limit",
    document(
        tenant={**TEXT, "description": "Whose limit it is: the tenant, or one above it."},
        **WHOSE_TYPES,
        **dict.fromkeys(COUNTED, or_null(NUMBER)),
        time_limit={**or_null(NUMBER), "description": "The longest of a job, in seconds."},
        etag=TEXT,
    ),
)
LIMIT_BODY: dict[str, Any] = {
    "type": "object",
    "properties": {
        **WHOSE_TYPES,
        **dict.fromkeys(COUNTED, or_null({**NUMBER, "minimum": 1})),
        "time_limit": {
            "oneOf": [{**NUMBER, "minimum": 1}, TEXT],
            "nullable": True,
            "description": "Seconds, or text such as 72:00:00, 3-00:00:00 or 90m.",
        },
        "why": TEXT,
    },
    "additionalProperties": False,
}


class Limits(Endpoint):
    """What keeps a tenant's jobs from starting, besides quotas."""

    @operation(CanRead, "Its limits", gives=page_of(LIMIT), name="list_tenant_limits")
    def get(self, request: Request, path: str) -> Response:
        """Its own and those of all tenants above it, which speak for its jobs too; on one page."""
        tenant = visible_tenant(user_of(request), path)
        items = [limit_document(limit) for limit in limits_of(tenant)]
        return Response({"items": items, "next": None})

    @operation(
        CanManage, "Set one limit", takes=LIMIT_BODY, gives=LIMIT, matches=True,
        name="set_tenant_limit",
    )  # fmt: skip
    def put(self, request: Request, path: str) -> Response:
        """By an admin, or an owner of a tenant above. `If-Match: "0"` if there is none yet.

        For all jobs of the tenant and below it together (`tenant`), for each person's or one's
        (`user`), or for those with a label (`label`). What runs or waits already goes on.
        """
        user = user_of(request)
        tenant = managed_tenant(user, path)
        body = fields_of(request, (*WHOSE, *COUNTED, "time_limit", "why"))
        limit = set_limit(
            actor=user,
            tenant=tenant,
            whose=read_whose(
                body.get("scope", Scope.TENANT.value), body.get("user"), body.get("label")
            ),
            **{name: body.get(name) for name in COUNTED},
            longest_ms=read_time_limit(body.get("time_limit")),
            expected_revision=expected_version(request),
            why=body.get("why", ""),
            now=clock(),
        )
        return Response(limit_document(limit), headers={"ETag": etag(limit.revision)})

    @operation(
        CanManage,
        "Take one limit away",
        status=204,
        query=(
            Query("scope", "tenant (the default), user or label."),
            Query("user", "With the scope user: whose; without it, each person's."),
            Query("label", "With the scope label: name=text."),
        ),
        matches=True,
        name="remove_tenant_limit",
    )
    def delete(self, request: Request, path: str) -> Response:
        """It keeps nobody back any more."""
        user = user_of(request)
        tenant, asked = managed_tenant(user, path), request.query_params
        whose = read_whose(
            asked.get("scope", Scope.TENANT.value), asked.get("user"), asked.get("label")
        )
        expected = expected_version(request)
        remove_limit(
            actor=user, tenant=tenant, whose=whose, expected_revision=expected, now=clock()
        )
        return Response(status=204)


def limit_document(limit: Limit) -> dict[str, Any]:
    """One limit."""
    return {
        "tenant": limit.tenant.path,
        "scope": limit.scope,
        "user": limit.user.username if limit.user else None,
        "label": f"{limit.label}={limit.text}" if limit.label else None,
        **{name: getattr(limit, name) for name in COUNTED},
        "time_limit": None if limit.longest_ms is None else limit.longest_ms // 1000,
        "etag": etag(limit.revision),
    }

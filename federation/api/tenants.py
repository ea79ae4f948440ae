"""REST: what a tenant is owed and what it used; moving it in the tree."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from accounting.core.costs import UsageSum
from accounting.selectors.costs import tenant_usage
from accounting.selectors.prices import book_currency
from clusters.models import Cluster
from federation.api.quotas import QUOTA_VALUES
from federation.selectors.quota_sums import Commitments, commitments_now
from federation.selectors.quota_use import QuotaUse, quota_use
from federation.services.move import move_tenant
from kit.errors import FieldProblem, InvalidContentError, NotFoundError
from kit.money import gpu_time, money
from quotas.core.table import NUMBERS
from quotas.models import Quota
from quotas.selectors import (
    granted_gpus,
    quota_of,
    quotas_of,
    rows_as_set,
    served_flavor,
    serving_cluster,
)
from quotas.services.rows import remove_quota, set_quota
from tenancy.api.endpoint import (
    MONEY,
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
    list_of,
    operation,
    or_null,
    page_of,
    user_of,
    wrong_parameter,
)
from tenancy.api.tenants import TENANT, tenant_document
from tenancy.models import Tenant, User
from tenancy.permissions import CanManage, CanRead, IsAdmin
from tenancy.selectors.access import subtree
from tenancy.selectors.tenants import managed_tenant, visible_tenant

LONGEST_DAYS = 400
DEFAULT_DAYS = 30
DATE: dict[str, Any] = {"type": "string", "format": "date"}
QUOTA = component(
    "Quota",
    document(
        flavor=TEXT,
        cluster=or_null(TEXT),
        **QUOTA_VALUES,
        granted={**NUMBER, "description": "Guaranteed besides, by grants that hold now."},
        overcommitted={**NUMBER, "description": "Promised in its place, and not there."},
        used=document(guaranteed=NUMBER, spot=NUMBER),
        etag=TEXT,
    ),
)
QUOTA_BODY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "flavor": TEXT,
        "cluster": or_null(TEXT),
        **QUOTA_VALUES,
        "why": TEXT,
    },
    "required": ["flavor", "guaranteed"],
    "additionalProperties": False,
}
MOVE_BODY: dict[str, Any] = {
    "type": "object",
    "properties": {"parent": or_null(TEXT), "why": TEXT},
    "required": ["parent"],
    "additionalProperties": False,
}
USAGE = component(
    "Usage",
    document(
        tenant=TEXT,
        **{"from": DATE, "to": DATE},
        gpu_ms=NUMBER,
        gpu_hours=TEXT,
        amount=MONEY,
        items=list_of(
            document(
                date=DATE,
                tenant=TEXT,
                **{"class": TEXT},
                flavor=TEXT,
                cluster=TEXT,
                gpu_ms=NUMBER,
                gpu_hours=TEXT,
                amount=MONEY,
            )
        ),
    ),
)


class Quotas(Endpoint):
    """What a tenant is owed."""

    @operation(CanRead, "Its quotas", gives=page_of(QUOTA), name="list_tenant_quotas")
    def get(self, request: Request, path: str) -> Response:
        """GPUs by flavor (and cluster, where one is named), all on one page."""
        tenant, now = visible_tenant(user_of(request), path), clock()
        around = Around.of(tenant, now)
        items = [quota_document(row, around) for row in quotas_of(tenant)]
        return Response({"items": items, "next": None})

    @operation(
        CanManage,
        "Set one quota",
        takes=QUOTA_BODY,
        gives=QUOTA,
        matches=True,
        name="set_tenant_quota",
    )
    def put(self, request: Request, path: str) -> Response:
        """By an admin, or an owner of a tenant above. `If-Match: "0"` if there is none yet.

        Children fit in their parent, else 409. Below what is in use nothing is stopped: what runs
        keeps its class and price, and only shrinks.
        """
        user = user_of(request)
        tenant, now = managed_tenant(user, path), clock()
        body = fields_of(request, ("flavor", "cluster", *NUMBERS, "why"))
        flavor = served_flavor(body.pop("flavor", None))
        cluster = serving_cluster(body.pop("cluster", None), flavor)
        quota = set_quota(
            actor=user,
            tenant=tenant,
            flavor=flavor,
            cluster=cluster,
            expected_revision=expected_version(request),
            now=now,
            **{"guaranteed": None, **body},
        )
        shown = quota_document(quota, Around.of(tenant, now))
        return Response(shown, headers={"ETag": etag(quota.revision)})

    @operation(
        CanManage,
        "Take one quota away",
        status=204,
        query=(
            Query("flavor", "The GPU model."),
            Query("cluster", "The cluster; without it, the row for all clusters."),
        ),
        matches=True,
        name="remove_tenant_quota",
    )
    def delete(self, request: Request, path: str) -> Response:
        """It is owed nothing of it any more; what runs goes on."""
        user = user_of(request)
        asked = request.query_params
        quota = quota_of(managed_tenant(user, path), asked.get("flavor", ""), asked.get("cluster"))
        expected = expected_version(request)
        remove_quota(actor=user, quota=quota, expected_revision=expected, now=clock())
        return Response(status=204)


class Usage(Endpoint):
    """What a tenant used."""

    @operation(
        CanRead,
        "Its usage and what it cost",
        gives=USAGE,
        query=(
            Query("from", "First UTC day; default: 30 days ago.", DATE),
            Query("to", "The day after the last; default: tomorrow.", DATE),
        ),
        name="get_tenant_usage",
    )
    def get(self, request: Request, path: str) -> Response:
        """By day, tenant, class, flavor and cluster, with all that is below the tenant."""
        now = clock()
        tenant = visible_tenant(user_of(request), path)
        first, end = _days(request, now)
        sums = tenant_usage(tenant_id=tenant.id, first_day=first, end_day=end, now=now)
        paths = dict(Tenant.objects.filter(subtree(tenant)).values_list("id", "path"))
        clusters = dict(Cluster.objects.values_list("id", "name"))
        currency = book_currency()

        def row(one: UsageSum) -> dict[str, Any]:
            return {
                "date": one.date.isoformat(),
                "tenant": paths[one.tenant_id],
                "class": one.service_class,
                "flavor": one.flavor,
                "cluster": clusters[one.cluster_id],
                **gpu_time(one.gpu_ms),
                "amount": money(one.amount_nano, currency),
            }

        return Response(
            {
                "tenant": tenant.path,
                "from": first.isoformat(),
                "to": end.isoformat(),
                **gpu_time(sum(one.gpu_ms for one in sums)),
                "amount": money(sum(one.amount_nano for one in sums), currency),
                "items": [row(one) for one in sums],
            }
        )


class Move(Endpoint):
    """Another place in the tree."""

    @operation(
        IsAdmin,
        "Move a tenant",
        takes=MOVE_BODY,
        gives=TENANT,
        matches=True,
        name="move_tenant",
    )
    def post(self, request: Request, path: str) -> Response:
        """With all below it under `parent`, or to the top (null). What runs goes on.

        Quotas have to fit there (409). What was used before stays as it was billed; prices, roles
        and limits are inherited from the new place for what comes.
        """
        user = user_of(request)
        tenant = visible_tenant(user, path)
        body = fields_of(request, ("parent", "why"))
        moved = move_tenant(
            actor=user,
            tenant=tenant,
            parent=_place(user, body),
            expected_revision=expected_version(request),
            why=body.get("why", ""),
            now=clock(),
        )
        return Response(tenant_document(moved), headers={"ETag": etag(moved.revision)})


def _place(user: User, body: Mapping[str, Any]) -> Tenant | None:
    """The tenant under which another is to go; None = the top."""
    if "parent" not in body:
        missing = FieldProblem("/parent", "missing", "Give the path of a tenant, or null.")
        raise InvalidContentError("Say where to.", errors=[missing])
    path = body["parent"]
    if path is None:
        return None
    if not isinstance(path, str):
        raise InvalidContentError("Give the path of a tenant, or null.", pointer="/parent")
    try:
        return visible_tenant(user, path)
    except NotFoundError as error:
        raise InvalidContentError(error.detail, pointer="/parent") from None


@dataclass(frozen=True, slots=True)
class Around:
    """What stands beside a tenant's rows: use, grants, and what all are promised of what there is."""

    used: QuotaUse
    granted: Mapping[str, int]
    commitments: Commitments

    @classmethod
    def of(cls, tenant: Tenant, now: datetime) -> "Around":
        """As it is now."""
        made = commitments_now(rows_as_set(), now)
        return cls(quota_use(tenant), granted_gpus(tenant, now), made)


def quota_document(quota: Quota, around: Around) -> dict[str, Any]:
    """One row of quota, what grants add, and what the tenant and all below it use of it now."""
    guaranteed, spot = around.used.of(quota)
    return {
        "flavor": quota.flavor_id,
        "cluster": quota.cluster.name if quota.cluster else None,
        **{name: getattr(quota, name) for name in NUMBERS},
        "granted": 0 if quota.cluster_id else around.granted.get(quota.flavor_id, 0),
        "overcommitted": around.commitments.overcommitted(quota.flavor_id, quota.cluster_id),
        "used": {"guaranteed": guaranteed, "spot": spot},
        "etag": etag(quota.revision),
    }


def _days(request: Request, now: datetime) -> tuple[date, date]:
    today = now.date()
    first = _day(request, "from", today - timedelta(days=DEFAULT_DAYS))
    end = _day(request, "to", today + timedelta(days=1))
    if not 0 < (end - first).days <= LONGEST_DAYS:
        raise wrong_parameter("to", f"to must be 1 to {LONGEST_DAYS} days after from.")
    return first, end


def _day(request: Request, name: str, default: date) -> date:
    given = request.query_params.get(name)
    if given is None:
        return default
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise wrong_parameter(name, f"{name} is a day such as 2026-12-01.") from None

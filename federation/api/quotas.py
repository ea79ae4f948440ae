"""REST: quotas as a whole: exported, planned (what would change) and applied, all or nothing."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from clusters.models import Cluster
from federation.selectors.quota_sums import commitments_now
from federation.selectors.whatif import Effect, effect_of
from kit.errors import InvalidContentError
from quotas.core.cohort import QuotaRow
from quotas.core.table import COLUMNS, MOST_ROWS, TableRow, parse_table
from quotas.selectors import all_quotas
from quotas.services.tables import TableChange, apply_table, plan_table, refuse, table_of
from tenancy.api.endpoint import (
    NUMBER,
    TEXT,
    TRUTH,
    UUID_TEXT,
    Endpoint,
    clock,
    component,
    document,
    fields_of,
    list_of,
    operation,
    or_null,
    page_of,
    user_of,
)
from tenancy.permissions import IsAdmin

QUOTA_VALUES = {
    "guaranteed": NUMBER,
    "borrowing_limit": or_null(NUMBER),
    "lending_limit": or_null(NUMBER),
    "weight": NUMBER,
}
ROW = component(
    "QuotaRow", document(tenant=TEXT, flavor=TEXT, cluster=or_null(TEXT), **QUOTA_VALUES)
)
CHANGE = document(
    action=TEXT,
    tenant=TEXT,
    flavor=TEXT,
    cluster=or_null(TEXT),
    before=or_null(document(**QUOTA_VALUES)),
    after=or_null(document(**QUOTA_VALUES)),
)
AFFECTED = list_of(document(id=UUID_TEXT, name=TEXT, tenant=TEXT, **{"class": TEXT}))
WARNINGS = {**list_of(TEXT), "description": "Where more is guaranteed than the clusters have."}
PLAN = component(
    "QuotaPlan",
    document(
        changes=list_of(CHANGE),
        warnings=WARNINGS,
        started=AFFECTED,
        promoted=AFFECTED,
        claimed=AFFECTED,
        reclaimed=AFFECTED,
        held_back=AFFECTED,
    ),
)
TABLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rows": {
            "type": "array",
            "maxItems": MOST_ROWS,
            "items": {
                "type": "object",
                "properties": {
                    "tenant": TEXT,
                    "flavor": TEXT,
                    "cluster": or_null(TEXT),
                    **QUOTA_VALUES,
                },
                "required": ["tenant", "flavor", "guaranteed"],
                "additionalProperties": False,
            },
        },
        "prune": TRUTH,
        "why": TEXT,
    },
    "required": ["rows"],
    "additionalProperties": False,
}


class Quotas(Endpoint):
    """All quotas."""

    @operation(IsAdmin, "All quotas", gives=page_of(ROW), name="list_quotas")
    def get(self, request: Request) -> Response:
        """As rows of a table, all on one page: what `/quotas/apply` takes."""
        rows = [row_document(row) for row in table_of(all_quotas())]
        return Response({"items": rows, "next": None})


class Plan(Endpoint):
    """What a table of quotas would change."""

    @operation(IsAdmin, "What a table would change", takes=TABLE, gives=PLAN, name="plan_quotas")
    def post(self, request: Request) -> Response:
        """Nothing is written. The jobs are those of the next cycle, were it decided now."""
        table, prune, _ = _asked(request)
        now = clock()
        plan = plan_table(table=table, prune=prune, now=now)
        warnings = _warnings(plan.rows, now)
        return Response(plan_document(plan.changes, effect_of(plan.rows, now), warnings))


class Apply(Endpoint):
    """Writing a table of quotas."""

    @operation(
        IsAdmin,
        "Write a table of quotas",
        takes=TABLE,
        gives=component("QuotaChanges", document(changes=list_of(CHANGE), warnings=WARNINGS)),
        name="apply_quotas",
    )
    def post(self, request: Request) -> Response:
        """All of it or nothing. Rows not named stay, or are taken away with `prune`. Again: no change."""
        table, prune, why = _asked(request)
        now: datetime = clock()
        plan = apply_table(actor=user_of(request), table=table, prune=prune, why=why, now=now)
        changes = [change_document(change) for change in plan.changes]
        return Response({"changes": changes, "warnings": _warnings(plan.rows, now)})


def _warnings(rows: Sequence[QuotaRow], now: datetime) -> list[str]:
    return commitments_now(rows, now).warnings(dict(Cluster.objects.values_list("id", "name")))


def _asked(request: Request) -> tuple[list[TableRow], bool, Any]:
    body = fields_of(request, ("rows", "prune", "why"))
    rows, prune = body.get("rows"), body.get("prune", False)
    if not isinstance(rows, list):
        raise InvalidContentError("Give a list of rows.", pointer="/rows")
    if not isinstance(prune, bool):
        raise InvalidContentError("Give true or false.", pointer="/prune")
    table, problems = parse_table(rows)
    refuse(problems)
    return table, prune, body.get("why", "")


def row_document(row: TableRow) -> dict[str, Any]:
    """A row of the table."""
    return {name: getattr(row, name) for name in COLUMNS}


def change_document(change: TableChange) -> dict[str, Any]:
    """A row that becomes another."""
    row = change.row
    return {
        "action": change.action,
        "tenant": row.tenant,
        "flavor": row.flavor,
        "cluster": row.cluster,
        "before": change.before,
        "after": change.after,
    }


def plan_document(
    changes: Sequence[TableChange], effect: Effect, warnings: list[str]
) -> dict[str, Any]:
    """What changes, and the jobs that feel it at once."""

    def job(key: int, service_class: str) -> dict[str, Any]:
        found = effect.jobs[key]
        return {
            "id": str(found["uuid"]),
            "name": found["name"],
            "tenant": found["tenant__path"],
            "class": service_class,
        }

    return {
        "changes": [change_document(change) for change in changes],
        "warnings": warnings,
        "started": [job(key, name) for key, name in effect.started.items()],
        "promoted": [job(key, "guaranteed") for key in effect.promoted],
        "claimed": [job(key, name) for key, name in effect.claimed.items()],
        "reclaimed": [job(key, "") for key in effect.reclaimed],
        "held_back": [job(key, "") for key in effect.held_back],
    }

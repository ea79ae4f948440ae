"""REST: setting back what one act changed of quotas."""

from rest_framework.request import Request
from rest_framework.response import Response

from kit.errors import NotFoundError
from quotas.selectors import act_of
from quotas.services.edits import undo
from tenancy.api.endpoint import (
    NUMBER,
    TEXT,
    Endpoint,
    clock,
    component,
    document,
    fields_of,
    list_of,
    operation,
    or_null,
    user_of,
)
from tenancy.permissions import CanManage
from tenancy.selectors.tenants import managed_tenant

NUMBERS = or_null(
    document(
        guaranteed=NUMBER,
        borrowing_limit=or_null(NUMBER),
        lending_limit=or_null(NUMBER),
        weight=NUMBER,
    )
)
UNDONE = component(
    "QuotaUndone",
    document(
        changes=list_of(
            document(
                action=TEXT,
                tenant=TEXT,
                flavor=TEXT,
                cluster=or_null(TEXT),
                before=NUMBERS,
                after=NUMBERS,
            )
        )
    ),
)


class Undo(Endpoint):
    """The way back."""

    @operation(
        CanManage,
        "Set back what one act changed",
        takes={
            "type": "object",
            "properties": {"why": TEXT},
            "required": ["why"],
            "additionalProperties": False,
        },
        gives=UNDONE,
        name="undo_quotas",
    )
    def post(self, request: Request, entry_id: int) -> Response:
        """By who manages all that it changed. `entry_id` is any audit entry of the act.

        A new change by the same rules: 409 if a row was changed since, or does not fit any more.
        """
        user, why = user_of(request), fields_of(request, ("why",)).get("why", "")
        act = act_of(entry_id)
        if act is None:
            raise NotFoundError("There is no such change.")
        for entry in act.entries:
            managed_tenant(user, entry.object_id.rsplit(" ", 1)[0])
        plan = undo(actor=user, entry_id=entry_id, why=why, now=clock())
        changes = [
            {
                "action": change.action,
                "tenant": change.row.tenant,
                "flavor": change.row.flavor,
                "cluster": change.row.cluster,
                "before": change.before,
                "after": change.after,
            }
            for change in plan.changes
        ]
        return Response({"changes": changes})

"""Moving a tenant, with what hangs on its place: quotas have to fit, what was used stays as it was."""

from datetime import datetime

from django.db import transaction

from accounting.services.cuts import keep_lineages
from kit.intervals import to_ms
from quotas.services.rows import require_fit_below
from tenancy.models import Tenant, User
from tenancy.services.moves import plan_move, write_move


@transaction.atomic
def move_tenant(
    *,
    actor: User | None,
    tenant: Tenant,
    parent: Tenant | None,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> Tenant:
    """Moves a tenant with all below it under `parent` (None = to the top), all or nothing.

    Jobs, quotas, members and the books keep their tenants. What runs goes on; from now on it counts
    in the new place, and has the prices, roles and limits that are inherited there. What was used
    before keeps the prices of the old place. Where it is already, nothing changes.

    Raises:
        InvalidContentError: the new place is the tenant itself or below it, or too deep.
        StaleWriteError: somebody changed the tenant since.
        ConflictError: another tenant has the name there.
        ChildrenAboveParentError: a tenant over the new place would owe more than it is owed.
    """
    move = plan_move(tenant=tenant, parent=parent, expected_revision=expected_revision, why=why)
    if move.is_none:
        return move.tenant
    # Before the tree is written: whoever holds usage may still need to look at its tenant.
    keep_lineages(lineages=move.lineages, at_ms=to_ms(now), now=now)
    moved = write_move(actor=actor, move=move, why=why, now=now)
    require_fit_below(moved.lineage[0], now)
    return moved

"""Writes of the policy that holds for all tenants."""

from datetime import datetime

from django.db import transaction

from kit.errors import FieldProblem, InvalidContentError
from kit.intervals import DAY_MS, HOUR_MS
from quotas.models import QuotaPolicy
from tenancy.models import User
from tenancy.services.records import ring, write_audit

RANGES = {"half_life_ms": (HOUR_MS, 365 * DAY_MS), "aging_ms": (0, 365 * DAY_MS)}


@transaction.atomic
def set_policy(
    *, actor: User | None, half_life_ms: int, aging_ms: int, now: datetime
) -> QuotaPolicy:
    """Sets how fast spot use is forgotten and how much waiting weighs (see `core.policy`).

    Raises:
        InvalidContentError: a duration is out of its range.
    """
    after = {"half_life_ms": half_life_ms, "aging_ms": aging_ms}
    wrong = [
        FieldProblem(f"/{name}", "invalid_number", f"Give milliseconds from {least} to {most}.")
        for name, (least, most) in RANGES.items()
        if not least <= after[name] <= most
    ]
    if wrong:
        raise InvalidContentError("The policy is not valid.", errors=wrong)
    held = QuotaPolicy.objects.select_for_update().first()
    before = {name: getattr(held, name) for name in after} if held else None
    policy, _ = QuotaPolicy.objects.update_or_create(id=1, defaults=after)
    if before != after:
        write_audit(
            actor=actor,
            action="update" if held else "create",
            object_type="quota_policy",
            object_id="1",
            before=before,
            after=after,
            now=now,
        )
        ring()
    return policy

"""Writes of the policy that holds for all tenants."""

from dataclasses import asdict
from datetime import datetime

from django.db import transaction

from kit.errors import FieldProblem, InvalidContentError
from quotas.core.policy import Policy
from quotas.models import QuotaPolicy
from tenancy.models import User
from tenancy.services.records import ring, write_audit


@transaction.atomic
def set_policy(*, actor: User | None, policy: Policy, now: datetime) -> QuotaPolicy:
    """Sets what holds for all tenants (see `quotas.core.policy`): from the next cycle on.

    Gangs that were told to go, and nodes that are kept, keep the deadlines they were told.

    Raises:
        InvalidContentError: something is out of its range.
    """
    wrong = [FieldProblem(f"/{name}", "invalid_number", words) for name, words in policy.faults()]
    if wrong:
        raise InvalidContentError("The policy is not valid.", errors=wrong)
    after = asdict(policy)
    held = QuotaPolicy.objects.select_for_update().first()
    before = {name: getattr(held, name) for name in after} if held else None
    row, _ = QuotaPolicy.objects.update_or_create(id=1, defaults=after)
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
    return row

"""Writes of quotas: how many GPUs of a flavor a tenant is owed, and may use as spot."""

from datetime import datetime

from django.db import transaction

from clusters.models import Cluster, Flavor
from kit.errors import FieldProblem, InvalidContentError, NotFoundError, StaleWriteError
from quotas.models import Quota
from tenancy.models import Tenant, User
from tenancy.services.records import ring, write_audit

MOST_GPUS = 1_000_000
LONGEST_WHY = 1000


def _gpu_problem(name: str, number: object) -> FieldProblem | None:
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if is_whole and 0 <= number <= MOST_GPUS:  # type: ignore[operator]
        return None
    return FieldProblem(f"/{name}", "invalid_number", f"Give GPUs from 0 to {MOST_GPUS}.")


def _check(guaranteed: object, borrowing_limit: object, why: str) -> None:
    problems = [_gpu_problem("guaranteed", guaranteed)]
    if borrowing_limit is not None:
        problems.append(_gpu_problem("borrowing_limit", borrowing_limit))
    if len(why) > LONGEST_WHY:
        problems.append(FieldProblem("/why", "too_long", f"At most {LONGEST_WHY} letters."))
    found = [problem for problem in problems if problem]
    if found:
        raise InvalidContentError("The quota is not valid.", errors=found)


def _require_revision(held: Quota | None, expected: int | None) -> None:
    found = held.revision if held else 0
    if expected is not None and expected != found:
        seen = f"revision {found}" if held else "gone"
        raise StaleWriteError(f"The quota is {seen} now, not revision {expected}; read it again.")


def _values(quota: Quota) -> dict[str, object]:
    return {"guaranteed": quota.guaranteed, "borrowing_limit": quota.borrowing_limit}


def _record(
    *,
    actor: User | None,
    quota: Quota,
    action: str,
    before: dict[str, object] | None,
    after: dict[str, object] | None,
    why: str,
    now: datetime,
) -> None:
    place = {
        "flavor": quota.flavor_id,
        "cluster": quota.cluster.name if quota.cluster else None,
    }
    write_audit(
        actor=actor,
        action=action,
        object_type="quota",
        object_id=f"{quota.tenant.path} {quota.flavor_id}",
        before=None if before is None else {**place, **before},
        after=None if after is None else {**place, **after},
        why=why,
        now=now,
    )
    ring()


@transaction.atomic
def set_quota(
    *,
    actor: User | None,
    tenant: Tenant,
    flavor: Flavor,
    cluster: Cluster | None = None,
    guaranteed: int,
    borrowing_limit: int | None = None,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> Quota:
    """Sets what the tenant's subtree is owed and the most it may use as spot (None = no limit).

    `expected_revision` is the one the caller saw (0 = saw none; None = whatever is there). The
    same values again change nothing. An edit may leave the tenant over its quota: what runs keeps
    its class and only shrinks.

    Raises:
        InvalidContentError: a number is not a whole number of GPUs.
        StaleWriteError: somebody changed the quota since.
    """
    _check(guaranteed, borrowing_limit, why)
    Tenant.objects.select_for_update().get(pk=tenant.pk)  # two first writes must not both insert
    held = (
        Quota.objects.select_for_update(of=("self",))
        .select_related("tenant", "cluster")
        .filter(tenant=tenant, flavor=flavor, cluster=cluster)
        .first()
    )
    _require_revision(held, expected_revision)
    before = _values(held) if held else None
    quota = held or Quota(tenant=tenant, flavor=flavor, cluster=cluster)
    quota.guaranteed, quota.borrowing_limit = guaranteed, borrowing_limit
    after = _values(quota)
    if before == after:
        return quota
    quota.revision = held.revision + 1 if held else 1
    quota.save()
    action = "update" if held else "create"
    _record(actor=actor, quota=quota, action=action, before=before, after=after, why=why, now=now)
    return quota


@transaction.atomic
def remove_quota(
    *,
    actor: User | None,
    quota: Quota,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> None:
    """Takes the row away: the tenant is owed nothing of it and has no limit of its own there.

    Raises:
        NotFoundError: it is gone already.
        StaleWriteError: somebody changed it since.
    """
    held = (
        Quota.objects.select_for_update(of=("self",))
        .select_related("tenant", "cluster")
        .filter(pk=quota.pk)
        .first()
    )
    if held is None:
        raise NotFoundError("The quota is gone already.")
    _require_revision(held, expected_revision)
    before = _values(held)
    Quota.objects.filter(pk=held.pk).delete()
    _record(actor=actor, quota=held, action="remove", before=before, after=None, why=why, now=now)

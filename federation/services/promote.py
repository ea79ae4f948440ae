"""Makes promotions true: gangs that run as spot go on as guaranteed, from now on and in the books."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from accounting.services.usage import change_class
from federation.core.plan import Plan, Promotion
from federation.models import Attempt, Job
from kit.intervals import to_ms
from quotas.core.cohort import GUARANTEED, SPOT
from quotas.models import Quota
from tenancy.services.records import Change, write_events


def promote(*, plan: Plan, now: datetime) -> int:
    """Promotes what the plan says and what is still as it saw it; how many.

    Inside the caller's transaction. Left alone is a gang that does not run any more, of whose job
    something was asked since, or whose quota changed; the next cycle decides anew. The number of
    statements does not depend on the number of gangs.
    """
    fresh = _with_quota_as_seen(plan)
    locked = {
        row["id"]: row
        for row in Job.objects.filter(
            id__in=[promotion.job for promotion in fresh],
            state="running",
            cancel_asked_at=None,
            hold_asked_by="",
        )
        .order_by("id")
        .select_for_update(no_key=True)
        .values("id", "uuid", "tenant_id")
    }
    running = Attempt.objects.filter(
        id__in=[promotion.attempt for promotion in fresh if promotion.job in locked],
        state=Attempt.State.RUNNING,
        service_class=SPOT,
        end_cause="",
    )
    ids = set(running.values_list("id", flat=True))
    done = [promotion for promotion in fresh if promotion.attempt in ids]
    if not done:
        return 0
    Attempt.objects.filter(id__in=ids).update(service_class=GUARANTEED)
    Job.objects.filter(id__in=[promotion.job for promotion in done]).update(
        class_now=GUARANTEED, version=F("version") + 1
    )
    change_class(attempt_ids=ids, service_class=GUARANTEED, at_ms=to_ms(now), now=now)
    names = {cluster.id: cluster.name for cluster in plan.basis.clusters}
    write_events(
        changes=[_event(one, locked[one.job], names[one.cluster]) for one in done], now=now
    )
    return len(done)


def _with_quota_as_seen(plan: Plan) -> Sequence[Promotion]:
    """The promotions whose tenants' quotas are those that the plan was made on; rows locked."""
    lineages = {tenant.id: tenant.lineage for tenant in plan.basis.tenants}
    tenants = {above for one in plan.promotions for above in lineages[one.tenant]}
    rows = (
        Quota.objects.filter(tenant__in=tenants)
        .order_by("id")
        .select_for_update(no_key=True)
        .values_list("tenant_id", "flavor_id", "cluster_id", "revision")
    )
    now: dict[tuple[UUID, str, UUID | None], int]
    now = {(tenant, flavor, place): revision for tenant, flavor, place, revision in rows}
    seen = {(row.tenant, row.flavor, row.cluster): row.revision for row in plan.basis.quotas}

    def is_as_seen(one: Promotion) -> bool:
        places: list[tuple[UUID, str, UUID | None]] = [
            (above, one.flavor, place)
            for above in lineages[one.tenant]
            for place in (one.cluster, None)
        ]
        return all(now.get(place) == seen.get(place) for place in places)

    return [one for one in plan.promotions if is_as_seen(one)]


def _event(promotion: Promotion, job: Mapping[str, Any], cluster: str) -> Change:
    return Change(
        kind="job.promoted",
        subject=str(job["uuid"]),
        tenant_id=job["tenant_id"],
        cause="inside_guarantee",
        data={
            "cluster": cluster,
            "flavor": promotion.flavor,
            "gpus": promotion.gpus,
            "class": GUARANTEED,
        },
    )

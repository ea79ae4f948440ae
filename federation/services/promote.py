"""Makes promotions true: gangs that run as spot go on as guaranteed, from now on and in the books."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import F

from accounting.services.usage import change_class
from federation.core.plan import Plan, Promotion
from federation.models import Attempt, Job
from federation.services.revisions import lock_quotas, quotas_as_seen
from kit.intervals import to_ms
from quotas.core.cohort import GUARANTEED, SPOT
from tenancy.services.records import Change, write_events


def promote(*, plan: Plan, now: datetime) -> int:
    """Promotes what the plan says and what is still as it saw it; how many.

    Inside the caller's transaction. Left alone is a gang that does not run any more, of whose job
    something was asked since, or whose quota changed; the next cycle decides anew. The number of
    statements does not depend on the number of gangs.
    """
    lineages = {tenant.id: tenant.lineage for tenant in plan.basis.tenants}
    tenants = {above for one in plan.promotions for above in lineages[one.tenant]}
    quotas_hold = quotas_as_seen(plan, lock_quotas(tenants))
    fresh = [one for one in plan.promotions if quotas_hold(one.tenant, one.flavor, one.cluster)]
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

"""Gangs that run as spot and may run inside their tenant's guarantee are promoted, in place.

Only `auto` jobs, and only after the waiting `guaranteed` gangs of everybody that shares the
guarantee: what those ask for within it is kept for them. Nothing is ever demoted.
"""

from federation.core.draft import Draft
from federation.core.lines import Waits
from federation.core.plan import Promotion
from federation.core.snapshot import Holding, Snapshot
from quotas.core.cohort import GUARANTEED, SPOT, Cohort, Use


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Promote what fits into guarantees: higher priority first, then the longest bound."""
    fixed = {cluster.id for cluster in snapshot.clusters if cluster.class_is_fixed}
    asking = [
        held
        for held in snapshot.holdings
        if held.wanted_class == "auto"
        and held.service_class == SPOT
        and held.is_running
        and not held.leaves
        and held.cluster not in fixed
        and held.attempt not in draft.victims
    ]
    if not asking:
        return draft
    cohort = _after_those_who_wait(snapshot, draft)
    for held in sorted(asking, key=_place):
        use = Use(held.tenant, held.flavor, held.cluster, GUARANTEED, held.gpus)
        limits = cohort.limits(held.tenant, held.flavor, held.cluster, GUARANTEED)
        if limits.hold(held.gpus) and _is_priced(draft, held):
            cohort.promote(use)
            draft.cohort.promote(use)
            draft.promotions.append(
                Promotion(held.job, held.attempt, held.tenant, held.cluster, held.flavor, held.gpus)
            )
    return draft


def _place(held: Holding) -> tuple[int, int, int]:
    return -held.priority, held.since_ms, held.job


def _after_those_who_wait(snapshot: Snapshot, draft: Draft) -> Cohort:
    """Quota as it is when every waiting guaranteed gang that is owed its GPUs has them."""
    bound = [
        Use(b.tenant, b.flavor, b.cluster, b.service_class, b.shape.gpus) for b in draft.promised
    ]
    cohort = Cohort(snapshot.quotas, draft.lineages, (*snapshot.uses, *bound))
    for waits in sorted(draft.ready.values(), key=_first):
        for job in waits:
            if job.wanted_class == GUARANTEED and not draft.is_served(job):
                open_sites = [site for site, code in draft.asker(job).place.sites if not code]
                for site in draft.within_limits(job, open_sites):
                    gpus = site.option.shape.gpus
                    place = (job.tenant, site.flavor.name, site.cluster.id, GUARANTEED)
                    if cohort.headroom(*place).holds(gpus):
                        cohort.take(Use(*place, gpus))
                        break
    return cohort


def _first(waits: Waits) -> int:
    """What orders tenants: the lowest number of a job of theirs."""
    return min((job.id for kind in waits.kinds for job in kind), default=0)


def _is_priced(draft: Draft, held: Holding) -> bool:
    return draft.book(held.tenant).price_at(held.flavor, held.cluster, GUARANTEED) is not None

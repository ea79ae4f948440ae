"""Nodes that are kept for a job: it starts there when they are free, and nobody else does before.

A reservation stands until its job is bound or waits no more, its deadline passes, its site takes the
job no longer, its nodes do not come free (one is gone, somebody stays after all, foreign load came,
the member reserved it), or its tenant's quota, limits or prices have not room for it any more.
"""

from clusters.core.domains import shared_tier
from clusters.core.topology import Block
from federation.core.departures import Departures
from federation.core.draft import Draft, use_of
from federation.core.plan import binding_of
from federation.core.snapshot import Reservation, Site, Snapshot, WaitingJob
from quotas.core.cohort import Cohort


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Bind the jobs whose kept nodes are free, keep the others' nodes, release what is over."""
    if not snapshot.reservations:
        return draft
    waiting = {job.id: job for jobs in draft.ready.values() for job in jobs}
    departures, quota = Departures(snapshot, draft), draft.quota_to_come()
    for kept in sorted(snapshot.reservations, key=lambda one: (one.claimed_ms, one.job)):
        job = waiting.get(kept.job)
        site = None if job is None else _site(snapshot, draft, job, kept)
        if job is None or site is None or not _stands(draft, departures, quota, job, site, kept):
            draft.released.append(kept.job)
            continue
        _hold(draft, quota, job, site, kept)
    return draft


def _hold(draft: Draft, quota: Cohort, job: WaitingJob, site: Site, kept: Reservation) -> None:
    """Bind the job to its nodes if it can start there now, else keep them."""
    paths = {node.name: node.path for node in site.flavor.nodes}
    tier = shared_tier([paths[name] for name in kept.nodes])
    binding = binding_of(job, site, kept.service_class, Block(kept.nodes, tier, 0))
    quota.take(use_of(binding))
    is_free = draft.room(site).holds(kept.nodes, kept.shape)
    if is_free and draft.book(job.tenant).allows(site, kept.service_class):
        draft.bind_to(site, binding)
    else:
        draft.keep(site, binding, kept.deadline_ms)


def _site(snapshot: Snapshot, draft: Draft, job: WaitingJob, kept: Reservation) -> Site | None:
    """Where the reservation is, while it is in time and its site takes the job."""
    if kept.deadline_ms <= snapshot.now_ms:
        return None
    for site, code in draft.asker(job).place.sites:
        if (site.cluster.id, site.flavor.name) == (kept.cluster, kept.flavor):
            return None if code or site.option.shape != kept.shape else site
    return None


def _stands(
    draft: Draft,
    departures: Departures,
    quota: Cohort,
    job: WaitingJob,
    site: Site,
    kept: Reservation,
) -> bool:
    """Whether nodes, quota, limits and prices let it start when those who leave are gone."""
    usable = {node.name for node in site.flavor.nodes if node.usable}
    reserved = site.cluster.promised(job.ask, draft.snapshot.now_ms)
    headroom = quota.headroom(job.tenant, kept.flavor, kept.cluster, kept.service_class)
    return (
        usable.issuperset(kept.nodes)
        and reserved.isdisjoint(kept.nodes)
        and departures.hold(site, kept.nodes, kept.shape)
        and headroom.holds(kept.shape.gpus)
        and draft.limit_hit(job, site) is None
        and draft.book(job.tenant).price(site, kept.service_class) is not None
    )

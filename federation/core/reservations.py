"""Nodes that are kept for a job: it starts there when they are free, and nobody else does before.

A reservation stands until its job is bound or waits no more, its deadline passes, its site takes the
job no longer, one of its nodes is gone, or its tenant's quota has not room for it any more.
"""

from clusters.core.domains import shared_tier
from clusters.core.topology import Block
from federation.core.draft import Draft
from federation.core.plan import binding_of
from federation.core.snapshot import Reservation, Site, Snapshot, WaitingJob


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Bind the jobs whose kept nodes are free, keep the others' nodes, release what is over."""
    if not snapshot.reservations:
        return draft
    waiting = {job.id: job for jobs in draft.ready.values() for job in jobs}
    for kept in sorted(snapshot.reservations, key=lambda one: (one.claimed_ms, one.job)):
        job = waiting.get(kept.job)
        site = None if job is None else _site(snapshot, draft, job, kept)
        if job is None or site is None:
            draft.released.append(kept.job)
            continue
        paths = {node.name: node.path for node in site.flavor.nodes}
        tier = shared_tier([paths[name] for name in kept.nodes])
        binding = binding_of(job, site, kept.service_class, Block(kept.nodes, tier, 0))
        if draft.room(site).holds(kept.nodes, kept.shape):
            draft.bind_to(binding)
        else:
            draft.keep(binding, kept.deadline_ms)
    return draft


def _site(snapshot: Snapshot, draft: Draft, job: WaitingJob, kept: Reservation) -> Site | None:
    """Where the reservation is, while it stands."""
    if kept.deadline_ms <= snapshot.now_ms:
        return None
    for site, code in draft.asker(job).place.sites:
        if (site.cluster.id, site.flavor.name) == (kept.cluster, kept.flavor):
            usable = {node.name for node in site.flavor.nodes if node.usable}
            stands = (
                not code
                and site.option.shape == kept.shape
                and usable.issuperset(kept.nodes)
                and draft.book(job.tenant).allows(site, kept.service_class)
            )
            return site if stands else None
    return None

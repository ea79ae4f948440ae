"""Nodes that are kept for a job: it starts there when they are free, and nobody else does before.

A reservation stands until its job is bound or waits no more, its deadline passes, its site takes the
job no longer, its nodes do not come free (one is gone, somebody stays after all, foreign load came,
the member reserved it), or its tenant's quota, limits or prices have not room for it any more. One
for a job that will run as spot yields to owners, so that these never wait for it.
"""

from clusters.core.domains import shared_tier
from clusters.core.topology import Block
from federation.core.departures import Departures, QuotaToCome
from federation.core.draft import Draft
from federation.core.plan import binding_of
from federation.core.snapshot import Reservation, Site, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT


def owners(snapshot: Snapshot, draft: Draft) -> Draft:
    """Bind the guaranteed jobs whose kept nodes are free, keep the others' nodes."""
    return _extend(snapshot, draft, GUARANTEED)


def borrowers(snapshot: Snapshot, draft: Draft) -> Draft:
    """The same for spot, where owners took nothing of it."""
    return _extend(snapshot, draft, SPOT)


def _extend(snapshot: Snapshot, draft: Draft, service_class: str) -> Draft:
    """Bind the jobs whose kept nodes are free, keep the others' nodes, release what is over."""
    found = [kept for kept in snapshot.reservations if kept.service_class == service_class]
    if not found:
        return draft
    waiting = {
        job.id: job for jobs in draft.ready.values() for job in jobs if not draft.is_served(job)
    }
    desk = _Desk(snapshot, draft, service_class)
    for kept in sorted(found, key=lambda one: (one.claimed_ms, one.job)):
        job = waiting.get(kept.job)
        site = None if job is None else _site(snapshot, draft, job, kept)
        if job is None or site is None or not desk.stands(job, site, kept):
            draft.released.append(kept.job)
        else:
            desk.hold(job, site, kept)
    return draft


def _site(snapshot: Snapshot, draft: Draft, job: WaitingJob, kept: Reservation) -> Site | None:
    """Where the reservation is, while it is in time and its site takes the job."""
    if kept.deadline_ms <= snapshot.now_ms:
        return None
    for site, code in draft.asker(job).place.sites:
        if (site.cluster.id, site.flavor.name) == (kept.cluster, kept.flavor):
            return None if code or site.option.shape != kept.shape else site
    return None


class _Desk:
    """One class's reservations in a cycle, looked at one after the other."""

    def __init__(self, snapshot: Snapshot, draft: Draft, service_class: str) -> None:
        self._draft = draft
        self._departures = Departures(snapshot, draft)
        self._quota = QuotaToCome(snapshot, draft, service_class)

    def stands(self, job: WaitingJob, site: Site, kept: Reservation) -> bool:
        """Whether nodes, quota, limits and prices let it start when those who leave are gone."""
        draft = self._draft
        usable = {node.name for node in site.flavor.nodes if node.usable}
        reserved = site.cluster.promised(job.ask, draft.snapshot.now_ms)
        headroom = self._quota.headroom(job.tenant, kept.flavor, kept.cluster)
        return (
            usable.issuperset(kept.nodes)
            and reserved.isdisjoint(kept.nodes)
            and self._departures.hold(site, kept.nodes, kept.shape)
            and headroom.holds(kept.shape.gpus)
            and draft.limit_hit(job, site) is None
            and draft.book(job.tenant).price(site, kept.service_class) is not None
        )

    def hold(self, job: WaitingJob, site: Site, kept: Reservation) -> None:
        """Bind the job to its nodes if it can start there now, else keep them."""
        paths = {node.name: node.path for node in site.flavor.nodes}
        tier = shared_tier([paths[name] for name in kept.nodes])
        binding = binding_of(job, site, kept.service_class, Block(kept.nodes, tier, 0))
        self._quota.take(binding)
        self._departures.promise(binding)
        is_free = self._draft.room(site).holds(kept.nodes, kept.shape)
        if is_free and self._draft.book(job.tenant).allows(site, kept.service_class):
            self._draft.bind_to(site, binding)
        else:
            self._draft.keep(site, binding, kept.deadline_ms)

"""Within a tenant what is more urgent goes first, also as spot.

A job that would run as spot and finds no room may have spot gangs of its own tenant evicted that it
outranks, as `federation.core.reclaim` does it for owners: nobody else's, none that is to be spared,
and nobody unless it fits then. So that no two evict each other in turn, one that asks for nothing
but spot evicts none that may come to run inside the guarantee: such a gang may evict it from there.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from federation.core.draft import Draft, Place
from federation.core.ordering import Turns
from federation.core.reclaim import Reclaim
from federation.core.snapshot import Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Claim nodes for jobs that would run as spot, of less urgent ones of their own tenants.

    Tenants take turns as in `arbitration.borrowers`, whose shares these are.
    """
    lowest = _lowest(snapshot)
    lines = {
        tenant: [job for job in draft.ready[tenant] if _may_outrank(draft, job, lowest[tenant])]
        for tenant in draft.ready.keys() & lowest.keys()
    }
    lines = {tenant: jobs for tenant, jobs in lines.items() if jobs}
    if not lines:
        return draft
    reclaim, claimed = Reclaim(snapshot, draft, SPOT, _owed(draft, lines)), -1
    while len(draft.claims) > claimed:
        claimed = len(draft.claims)
        left = {
            tenant: [job for job in jobs if not draft.is_served(job)]
            for tenant, jobs in lines.items()
        }
        for line in Turns(left, draft.lineages, draft.borrowers):
            for job in line:
                site = reclaim.claim(job)
                if site is not None:
                    option = site.option
                    draft.borrowers.grant(job.tenant, option.flavor, option.shape.gpus)
                    break
    return draft


def _lowest(snapshot: Snapshot) -> Mapping[UUID, int]:
    """The lowest priority of each tenant's spot gangs that may be evicted."""
    lowest: dict[UUID, int] = {}
    for held in snapshot.holdings:
        if held.service_class == SPOT and held.is_evictable:
            lowest[held.tenant] = min(held.priority, lowest.get(held.tenant, held.priority))
    return lowest


def _may_outrank(draft: Draft, job: WaitingJob, lowest: int) -> bool:
    """Whether a job that would run as spot waits, and is more urgent than some spot gang."""
    return job.priority > lowest and job.wanted_class != GUARANTEED and not draft.is_served(job)


def _owed(draft: Draft, tenants: Iterable[UUID]) -> Mapping[UUID, int]:
    """The lowest priority of each tenant's jobs that wait inside its guarantee, if any do.

    Only room is missing to them, and who outranks them is not evicted for them: nor for anybody
    else then, who would lose the nodes to them.
    """
    quota, lowest = draft.quota_to_come(), dict[UUID, int]()
    known: dict[tuple[UUID, Place], bool] = {}
    for tenant in tenants:
        for job in draft.ready[tenant]:
            if job.wanted_class == SPOT or draft.is_served(job):
                continue
            place = draft.asker(job).place
            is_owed = known.get((tenant, place))
            if is_owed is None:
                is_owed = known[tenant, place] = any(
                    not code
                    and quota.headroom(tenant, site.flavor.name, site.cluster.id, GUARANTEED).holds(
                        site.option.shape.gpus
                    )
                    for site, code in place.sites
                )
            if is_owed:
                lowest[tenant] = min(job.priority, lowest.get(tenant, job.priority))
    return lowest

"""Within a tenant what is more urgent goes first, also as spot.

A job that would run as spot and finds no room may have spot gangs of its own tenant evicted that it
outranks, as `federation.core.reclaim` does it for owners: nobody else's, none that is to be spared,
and nobody unless it fits then. So that no two evict each other in turn, one that asks for nothing
but spot evicts none that may come to run inside the guarantee: such a gang may evict it from there.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from federation.core.draft import Draft, Place
from federation.core.lines import Line
from federation.core.ordering import in_turn
from federation.core.reclaim import Reclaim
from federation.core.snapshot import Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Claim nodes for jobs that would run as spot, of less urgent ones of their own tenants.

    Tenants take turns as in `arbitration.borrowers`, whose shares these are.
    """
    lowest = _lowest(snapshot)
    lines = _lines(draft, lowest)
    if not lines:
        return draft
    owed = _owed(draft, [line.tenant for line in lines])
    reclaim, claimed = Reclaim(snapshot, draft, SPOT, owed), -1
    while len(draft.claims) > claimed:
        claimed = len(draft.claims)
        in_turn(draft, lines, draft.borrowers, reclaim)
        lines = _lines(draft, lowest)
    return draft


def _lowest(snapshot: Snapshot) -> Mapping[UUID, int]:
    """The lowest priority of each tenant's spot gangs that may be evicted."""
    lowest: dict[UUID, int] = {}
    for held in snapshot.holdings:
        if held.service_class == SPOT and held.is_evictable:
            lowest[held.tenant] = min(held.priority, lowest.get(held.tenant, held.priority))
    return lowest


def _lines(draft: Draft, lowest: Mapping[UUID, int]) -> list[Line]:
    """The jobs that would run as spot, wait, and are more urgent than some spot gang."""

    def may_outrank(job: WaitingJob) -> bool:
        return job.priority > lowest[job.tenant] and job.wanted_class != GUARANTEED

    lines = [
        Line(tenant, draft.ready[tenant].where(may_outrank), draft.is_served)
        for tenant in draft.ready.keys() & lowest.keys()
    ]
    return [line for line in lines if line.head is not None]


def _owed(draft: Draft, tenants: Iterable[UUID]) -> Mapping[UUID, int]:
    """The lowest priority of each tenant's jobs that wait inside its guarantee, if any do.

    Only room is missing to them, and who outranks them is not evicted for them: nor for anybody
    else then, who would lose the nodes to them.
    """
    quota, lowest = draft.quota_to_come(), dict[UUID, int]()
    known: dict[tuple[UUID, Place], bool] = {}
    for tenant in tenants:
        for job in draft.ready[tenant].firsts(draft.is_served):
            if job.wanted_class == SPOT:
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

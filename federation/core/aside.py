"""Jobs that may not start yet whatever is free: their tenant is closed, or it is not time."""

from collections.abc import Mapping
from uuid import UUID

from federation.core.draft import Draft
from federation.core.lines import Waits
from federation.core.plan import Reason
from federation.core.snapshot import Snapshot, TenantView, WaitingJob
from kit.intervals import from_ms, iso


def extend(snapshot: Snapshot, draft: Draft, lines: Mapping[UUID, Waits]) -> Draft:
    """Tell the jobs that may not start yet whatever is free; the others are ready."""
    closed = {
        tenant.id: draft.tenants[ancestor]
        for tenant in snapshot.tenants
        for ancestor in reversed(tenant.lineage)  # the widest that is closed is told
        if not draft.tenants[ancestor].is_open
    }
    for tenant, waits in lines.items():
        shut = closed.get(tenant)
        early = waits if shut else _early(waits, snapshot.now_ms)
        draft.aside.update({job.id: (_held_back(shut, job),) for job in early})
        draft.ready[tenant] = waits.without(early) if early else waits
    return draft


def _early(waits: Waits, now_ms: int) -> list[WaitingJob]:
    early = (kind for kind in waits.kinds if (kind[0].not_before_ms or 0) > now_ms)
    return [job for kind in early for job in kind]  # jobs of a kind have the same moment


def _held_back(closed: TenantView | None, job: WaitingJob) -> Reason:
    if closed is not None:
        return Reason("tenant_closed", f"The tenant {closed.path} is closed; nothing starts.")
    assert job.not_before_ms is not None, "it is early"
    moment = iso(from_ms(job.not_before_ms))
    return Reason("not_before", f"It is not to start before {moment}.", until_ms=job.not_before_ms)

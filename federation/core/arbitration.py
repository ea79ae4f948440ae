"""Who gets what is free: guaranteed before spot, each tenant within its quota, tenants in turn."""

from federation.core.ordering import Lines, Turns, held
from federation.core.placement import choose
from federation.core.plan import Draft
from federation.core.snapshot import Snapshot
from quotas.core.cohort import GUARANTEED, SPOT


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Bind what fits: `guaranteed` and `auto` jobs inside guarantees, then `spot` and `auto`."""
    draft = _pass(snapshot, draft, GUARANTEED)
    return _pass(snapshot, draft, SPOT)


def _pass(snapshot: Snapshot, draft: Draft, service_class: str) -> Draft:
    turns = Turns(_asking(draft, service_class), held(snapshot.uses, service_class))
    for job in turns:
        site = choose(draft, job, service_class)
        if site is not None:
            draft.bind(job, site, service_class)
            turns.grant(site.option.shape.gpus)
    return draft


def _asking(draft: Draft, service_class: str) -> Lines:
    """The jobs that may run in the class and were not bound in an earlier pass."""
    wanted = (service_class, "auto")
    return {
        tenant: [job for job in jobs if job.wanted_class in wanted and job.id not in draft.bindings]
        for tenant, jobs in draft.ready.items()
    }

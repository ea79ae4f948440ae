"""Who gets what is free: guaranteed before spot, each tenant within its quota, tenants in turn."""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from federation.core.ordering import Lines, Turns
from federation.core.placement import choose
from federation.core.plan import Draft
from federation.core.snapshot import Snapshot
from quotas.core.cohort import GUARANTEED, SPOT, Cohort
from quotas.core.fair_share import GRANTED, Shares, window_ms


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Bind what fits: `guaranteed` and `auto` jobs inside guarantees, then `spot` and `auto`.

    Owners take turns by the guaranteed GPUs that they hold, borrowers by their fair share.
    """
    owners = Shares(draft.lineages, _held(snapshot, draft, GUARANTEED))
    draft = _pass(draft, GUARANTEED, owners)
    draft.borrowers = _borrowers(snapshot, draft)
    return _pass(draft, SPOT, draft.borrowers)


def _pass(draft: Draft, service_class: str, shares: Shares) -> Draft:
    for line in Turns(_asking(draft, service_class), draft.lineages, shares):
        for job in line:
            site = choose(draft, job, service_class)
            if site is not None:
                draft.bind(job, site, service_class)
                shares.grant(job.tenant, site.flavor.name, site.option.shape.gpus)
                break  # a turn ends with what it got
    return draft


def _asking(draft: Draft, service_class: str) -> Lines:
    """The jobs that may run in the class and were not bound in an earlier pass."""
    wanted = (service_class, "auto")
    return {
        tenant: [job for job in jobs if job.wanted_class in wanted and job.id not in draft.bindings]
        for tenant, jobs in draft.ready.items()
    }


def _borrowers(snapshot: Snapshot, draft: Draft) -> Shares:
    """The tenants' shares of spot.

    What is held now counts in advance for a part of the window, so that a cycle with much to
    give does not give all of it to the one that was lowest before.
    """
    window = window_ms(snapshot.policy.half_life_ms)
    grant_ms = window // GRANTED
    used = Counter(snapshot.spot_use)
    for place, gpus in _held(snapshot, draft, SPOT).items():
        used[place] += gpus * grant_ms
    return Shares(
        draft.lineages,
        used,
        lendable={flavor: gpus * window for flavor, gpus in _lendable(snapshot, draft).items()},
        weights={
            (row.tenant, row.flavor): row.weight for row in snapshot.quotas if row.cluster is None
        },
        a_gpu=grant_ms,
    )


def _held(snapshot: Snapshot, draft: Draft, service_class: str) -> Mapping[tuple[UUID, str], int]:
    """GPUs of a class that each tenant's own jobs hold or were bound to, by flavor."""
    gpus: Counter[tuple[UUID, str]] = Counter()
    for use in snapshot.uses:
        if use.service_class == service_class:
            gpus[use.tenant, use.flavor] += use.gpus
    for binding in draft.bindings.values():
        if binding.service_class == service_class:
            gpus[binding.tenant, binding.flavor] += binding.shape.gpus
    return gpus


def _lendable(snapshot: Snapshot, draft: Draft) -> Mapping[str, int]:
    """GPUs by flavor that are there for spot when owners use nothing."""
    gpus: Counter[str] = Counter()
    for cluster in snapshot.clusters:
        for flavor in cluster.flavors:
            gpus[flavor.name] += sum(node.total.gpus for node in flavor.nodes if node.usable)
    unused = Cohort(snapshot.quotas, draft.lineages)
    return {flavor: max(total - unused.kept(flavor), 0) for flavor, total in gpus.items()}

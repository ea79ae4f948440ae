"""Who gets what: guaranteed before spot, each tenant within its quota, tenants in turn."""

from collections import Counter
from collections.abc import Mapping

from federation.core.departures import may_stay
from federation.core.draft import Book, Draft, Place
from federation.core.ordering import asking, held, in_turn, owned
from federation.core.placement import choose
from federation.core.reclaim import Reclaim
from federation.core.snapshot import Site, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT, Cohort
from quotas.core.fair_share import GRANTED, Shares, window_ms


def owners(snapshot: Snapshot, draft: Draft) -> Draft:
    """Give `guaranteed` and `auto` jobs inside guarantees what is free, else what borrowers hold.

    Owners take turns by the guaranteed GPUs that they hold. Each job gets both at its turn: if all
    that is free were given first, a wide job that has to reclaim would find its quota taken by
    narrow ones behind it, and wait because of borrowers.
    """
    clerk = _Owner(snapshot, draft) if snapshot.holdings else _Binder(draft, GUARANTEED)
    in_turn(draft, asking(draft, GUARANTEED), owned(snapshot, draft), clerk)
    return draft


def borrowers(snapshot: Snapshot, draft: Draft) -> Draft:
    """Bind what fits of `spot` and `auto` jobs; borrowers take turns by their fair share."""
    draft.borrowers = _borrowers(snapshot, draft)
    in_turn(draft, asking(draft, SPOT), draft.borrowers, _Binder(draft, SPOT))
    return draft


class _Binder:
    """Binds jobs in one class where they fit.

    Room, quota and prices never grow within a pass: where no site was left to one job of a tenant,
    none is left to the others with equal asks, however many wait.
    """

    changes = 0

    def __init__(self, draft: Draft, service_class: str) -> None:
        self._draft = draft
        self._class = service_class
        self._hopeless: set[tuple[Place, Book]] = set()

    def gives_up(self, job: WaitingJob) -> bool:
        """Whether no site is left to jobs with its ask."""
        asker = self._draft.asker(job)
        return (asker.place, asker.book) in self._hopeless

    def serve(self, job: WaitingJob) -> Site | None:
        """Bind the job to the best site where it can start now; None when there is none."""
        asker = self._draft.asker(job)
        key = asker.place, asker.book
        if key in self._hopeless:
            return None
        live, allows = asker.place.live, asker.book.allows
        allowed = [site for site in live if allows(site, self._class)]
        site = choose(self._draft, job, self._class, allowed) if allowed else None
        if site is not None:
            self._draft.bind(job, site, self._class)
        elif not any(site in live for site in allowed):
            self._hopeless.add(key)
        return site


class _Owner:
    """Binds jobs inside guarantees where they fit, else claims nodes for them."""

    def __init__(self, snapshot: Snapshot, draft: Draft) -> None:
        self._draft = draft
        self._binder = _Binder(draft, GUARANTEED)
        self._reclaim = Reclaim(snapshot, draft, GUARANTEED)

    @property
    def changes(self) -> int:
        """How often nodes were claimed: what victims leave over may do for others."""
        return self._reclaim.changes

    def gives_up(self, job: WaitingJob) -> bool:
        """Whether neither what is free nor a claim is left to jobs with its ask."""
        return self._binder.gives_up(job) and (self._reclaim.gives_up(job) or may_stay(self._draft))

    def serve(self, job: WaitingJob) -> Site | None:
        """Bind the job, or claim nodes for it; None when neither can be."""
        site = self._binder.serve(job)
        if site is None and not may_stay(self._draft):
            site = self._reclaim.serve(job)
        return site


def _borrowers(snapshot: Snapshot, draft: Draft) -> Shares:
    """The tenants' shares of spot.

    What is held now counts in advance for a part of the window, so that a cycle with much to
    give does not give all of it to the one that was lowest before.
    """
    window = window_ms(snapshot.policy.half_life_ms)
    grant_ms = window // GRANTED
    used = Counter(snapshot.spot_use)
    for place, gpus in held(snapshot, draft, SPOT).items():
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


def _lendable(snapshot: Snapshot, draft: Draft) -> Mapping[str, int]:
    """GPUs by flavor that are there for spot when owners use nothing."""
    gpus: Counter[str] = Counter()
    for cluster in snapshot.clusters:
        for flavor in cluster.flavors:
            gpus[flavor.name] += sum(node.total.gpus for node in flavor.nodes if node.usable)
    unused = Cohort(snapshot.quotas, draft.lineages)
    return {flavor: max(total - unused.kept(flavor), 0) for flavor, total in gpus.items()}

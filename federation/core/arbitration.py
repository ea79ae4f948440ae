"""Who gets what is free: guaranteed before spot, each tenant within its quota, tenants in turn."""

from collections import Counter
from collections.abc import Mapping

from federation.core.draft import Book, Draft, Place
from federation.core.ordering import asking, held, in_turn, owned
from federation.core.placement import choose
from federation.core.snapshot import Site, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT, Cohort
from quotas.core.fair_share import GRANTED, Shares, window_ms


def owners(snapshot: Snapshot, draft: Draft) -> Draft:
    """Bind what fits of `guaranteed` and `auto` jobs inside guarantees.

    Owners take turns by the guaranteed GPUs that they hold.
    """
    lines, shares = asking(draft, GUARANTEED), owned(snapshot, draft)
    in_turn(draft, lines, shares, _Binder(draft, GUARANTEED))
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

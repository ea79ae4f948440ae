"""Where a job goes: a whole gang on one block of one cluster.

Flavors in the job's own order (`prefer: order`, and `start`, as whatever can start now is equally
soon), or cheapest first (`price`). Among the clusters of a flavor: the lowest tier, then the
tightest block, then the name.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from clusters.core.topology import Fit
from federation.core.draft import Book, Draft
from federation.core.snapshot import Site, WaitingJob


def choose(draft: Draft, job: WaitingJob, service_class: str, allowed: list[Site]) -> Site | None:
    """The best site where the job can start now in the class, or None.

    `allowed` are those of its live sites where quota and price let it run.
    """
    asker = draft.asker(job)
    live, book = asker.place.live, asker.book
    allowed = draft.within_limits(job, allowed)
    if not allowed:
        return None
    allowed = [site for site in allowed if not job.ask.shuns(site.cluster.name)] or allowed
    for equal in preferred(book, job, service_class, allowed):
        fits = [(fit, site.cluster.name, site) for site, fit in _fitting(draft, job, equal, live)]
        if fits:
            return min(fits, key=lambda found: found[:2])[2]
    return None


def preferred(
    book: Book, job: WaitingJob, service_class: str, allowed: list[Site]
) -> Iterator[list[Site]]:
    """The sites in groups, the most preferred first; within a group the blocks decide."""
    if job.ask.prefer == "price":
        order = job.ask.options.index

        def price(site: Site) -> tuple[int, int]:
            return book.price(site, service_class) or 0, order(site.option)

        for _, group in groupby(sorted(allowed, key=price), key=price):
            yield list(group)
        return
    for _, group in groupby(allowed, key=lambda site: site.option):  # sites come in option order
        yield list(group)


def _fitting(
    draft: Draft, job: WaitingJob, equal: Iterable[Site], live: list[Site]
) -> Iterator[tuple[Site, Fit]]:
    """The sites with room now. Room only shrinks, so the others are out for this cycle."""
    for site in equal:
        fit = draft.fit(job, site)
        if fit is None:
            live.remove(site)
        else:
            yield site, fit

"""Why a job waits and why it can never run: in codes, numbers and plain words."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from clusters.core.capabilities import LACK_WORDS
from clusters.core.resources import GangShape
from clusters.core.topology import Room
from federation.core.bounded import limit_reason
from federation.core.draft import Book, Draft, Place
from federation.core.plan import FleetView, Reason
from federation.core.snapshot import (
    LASTING,
    ClusterState,
    Site,
    Snapshot,
    WaitingJob,
    missing,
    obstacle,
    sites,
)
from kit.lazy import LazyMapping
from quotas.core.cohort import GUARANTEED, SPOT, Bound, Headroom
from quotas.core.limits import Hit


def reasons(snapshot: Snapshot, draft: Draft) -> LazyMapping[int, tuple[Reason, ...]]:
    """For every job that was not bound a reason for each site it could have gone to.

    They are worked out when somebody asks for them, once for jobs that are alike; the draft has to
    stay as it is.
    """
    words = _Words(snapshot, draft)
    if draft.limits:  # which may differ by a job's labels
        sources = {job.id: job for job in snapshot.jobs if job.id not in draft.bindings}
    else:
        sources = _alike(snapshot, draft)

    def told(job: WaitingJob) -> tuple[Reason, ...]:
        if job.id in draft.aside:
            return draft.aside[job.id]
        found = words.reasons(job)
        return _kept(draft, job, found) if job.id in draft.kept else found

    return LazyMapping(sources, told)


def _alike(snapshot: Snapshot, draft: Draft) -> dict[int, WaitingJob]:
    """For each job that was not bound, the one whose reasons are its own as well."""
    alone = draft.aside.keys() | draft.kept.keys()
    sources = {job.id: job for job in snapshot.jobs if job.id in alone} if alone else {}
    served = draft.bindings.keys() | draft.kept.keys()
    for waits in draft.ready.values():
        for kind in waits.kinds:
            first: WaitingJob | None = None
            for job in kind:
                if job.id not in served:
                    first = first or job
                    sources[job.id] = first
    return sources


def _kept(draft: Draft, job: WaitingJob, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """The reasons of a job whose nodes are kept for it: there it waits for them alone."""
    kept = draft.kept[job.id]
    name, flavor, gpus = kept.binding.cluster_name, kept.binding.flavor, kept.binding.shape.gpus
    waits = Reason(
        "waiting_for_reclaim",
        f"{_members(kept.binding.shape)} are kept for it on {name}; what runs there leaves.",
        name,
        flavor,
        needed=gpus,
        available=kept.free_gpus,
        unit="gpus",
        until_ms=kept.until_ms,
    )
    place = (name, flavor)
    return tuple(waits if (r.cluster, r.flavor) == place else r for r in reasons)


# What the quota of a place is asked: GPUs, cluster, flavor.
_Need = tuple[int, str, str]


class _View(NamedTuple):
    """A site of a place, and what is wrong there for anybody. `need` is None if quota is moot."""

    site: Site
    reason: Reason | None
    need: _Need | None


class _Words:
    """Reasons on the state after the cycle's bindings, each worked out once."""

    def __init__(self, snapshot: Snapshot, draft: Draft) -> None:
        self._snapshot = snapshot
        self._draft = draft
        self._views: dict[Place, list[_View]] = {}
        self._granted: dict[Place, tuple[Reason, ...]] = {}
        self._shared: dict[tuple[object, ...], Reason] = {}
        self._limits: dict[tuple[Hit, str], Reason] = {}
        # By tenant and class; no quota is needed where none is asked for.
        self._quota: defaultdict[tuple[Book, str], dict[_Need | None, Reason | None]]
        self._quota = defaultdict(lambda: {None: None})

    def reasons(self, job: WaitingJob) -> tuple[Reason, ...]:
        asker = self._draft.asker(job)
        views = self._views.get(asker.place)
        if views is None:
            views = self._views[asker.place] = self._look(job, asker.place)
            self._granted[asker.place] = tuple(v.reason or _behind(v.site) for v in views) or (
                nowhere(job),
            )
        quota = self._quota[asker.book, job.wanted_class]
        for view in views:
            if view.need not in quota:
                quota[view.need] = self._denied(job, asker.book, view.site)
        denied = [quota[view.need] for view in views]
        told = self._granted[asker.place]  # most are denied nothing and share one answer
        if any(denied):
            told = tuple([no or reason for no, reason in zip(denied, told, strict=True)])
        is_free = not self._draft.limits or job.id in self._draft.kept  # the kept count already
        return told if is_free else self._limited(job, views, told)

    def _limited(
        self, job: WaitingJob, views: Sequence[_View], told: tuple[Reason, ...]
    ) -> tuple[Reason, ...]:
        """The reasons, with limits before quotas and room; what holds everywhere is told once."""
        hits = [
            None if view.need is None else self._draft.limit_hit(job, view.site) for view in views
        ]
        if not any(hits):
            return told
        reasons = zip(hits, views, told, strict=True)
        return tuple(
            dict.fromkeys(self._limit(hit, view.site) if hit else why for hit, view, why in reasons)
        )

    def _limit(self, hit: Hit, site: Site) -> Reason:
        key = (hit, f"{site.flavor.name} {site.cluster.name}")
        reason = self._limits.get(key)
        if reason is None:
            path = self._draft.tenants[hit.row.tenant].path
            reason = self._limits[key] = limit_reason(hit, path, site)
        return reason

    def _look(self, job: WaitingJob, place: Place) -> list[_View]:
        views = []
        for site, code in place.sites:
            reason = standing(job, site, code) if code else self._site(job, site)
            is_moot = reason is not None and reason.code in _BEFORE_QUOTA
            need = (site.option.shape.gpus, site.cluster.name, site.flavor.name)
            views.append(_View(site, reason, None if is_moot else need))
        return views

    def _site(self, job: WaitingJob, site: Site) -> Reason | None:
        """What is wrong at the site for anybody with this ask; None when it would fit."""
        room, shape = self._draft.room(site), site.option.shape
        required = job.ask.required_tier
        together, anywhere = room.widest(shape, required, self._draft.excluded(job, site))
        if together >= shape.nodes:
            return None
        most, _ = room.at_rest.widest(shape, required)
        reason = self._maintenance(job, site, room) if most >= shape.nodes else None
        if reason is not None:
            return reason
        # Asks that differ in CPUs or memory alone are mostly told the same.
        size = (shape.nodes, shape.per_node.gpus, shape.exclusive, required)
        key = (site.cluster.name, site.flavor.name, size, most, together, anywhere)
        reason = self._shared.get(key)
        if reason is None:
            reason = self._shared[key] = too_large(site, room.at_rest, shape, required) or _no_room(
                site, shape, required, anywhere=anywhere, together=together
            )
        return reason

    def _maintenance(self, job: WaitingJob, site: Site, room: Room) -> Reason | None:
        now_ms = self._snapshot.now_ms
        blocking = list(site.cluster.blocking(now_ms, now_ms + job.ask.time_limit_ms))
        if not blocking or room.fit(site.option.shape, job.ask.required_tier) is None:
            return None
        until_ms = max(reserved.end_ms for reserved in blocking)
        names = ", ".join(sorted(reserved.name for reserved in blocking))
        return _at(
            site,
            "maintenance",
            f"Nodes of {site.cluster.name} are reserved there ({names}) before it would end.",
            until_ms=until_ms,
        )

    def _denied(self, job: WaitingJob, book: Book, site: Site) -> Reason | None:
        """Why neither quota nor prices let the job run at the site, None when they do."""
        gpus = site.option.shape.gpus
        classes = (GUARANTEED, SPOT) if job.wanted_class == "auto" else (job.wanted_class,)
        headrooms = [(book.headroom(site, name), name) for name in classes]
        held = [name for headroom, name in headrooms if headroom.holds(gpus)]
        if not held:
            headroom, name = max(headrooms, key=lambda pair: pair[0].gpus or 0)
            return self._over_quota(job, site, headroom, name)
        if all(book.price(site, name) is None for name in held):
            return _at(
                site,
                "price_missing",
                f"No price is in force for {' or '.join(held)} {site.flavor.name} "
                f"on {site.cluster.name}.",
            )
        return None

    def _over_quota(
        self, job: WaitingJob, site: Site, headroom: Headroom, service_class: str
    ) -> Reason:
        gpus, left, flavor = site.option.shape.gpus, max(headroom.gpus or 0, 0), site.flavor.name
        if headroom.bound is Bound.KEPT:
            code = "reserved_for_other"
            words = f"Of the idle {flavor} GPUs owners lend only {left} more"
        elif headroom.row is None:
            code = "borrowing_limit" if job.wanted_class == SPOT else "quota_exhausted"
            words = f"{self._draft.tenants[job.tenant].path} has no quota of {flavor}"
        else:
            code = "borrowing_limit" if job.wanted_class == SPOT else "quota_exhausted"
            path = self._draft.tenants[headroom.row.tenant].path
            most = _most(headroom)
            words = f"{path} has {left} {service_class} {flavor} GPUs left, with {most}"
        return _at(
            site,
            code,
            f"{words}; it needs {gpus}.",
            needed=gpus,
            available=left,
            unit="gpus",
        )


def _most(headroom: Headroom) -> str:
    """What the row that bounds allows in all."""
    assert headroom.row is not None, "a row bounds"
    if headroom.bound is Bound.BORROWING:
        return f"a borrowing limit of {headroom.row.borrowing_limit}"
    return f"{headroom.row.guaranteed} guaranteed"


_BEFORE_QUOTA = LASTING | {
    "gang_too_large",
    "cluster_unreachable",
    "cluster_draining",
    "queue_closed",
}


def never_reasons(job: WaitingJob, fleet: Sequence[FleetView]) -> tuple[Reason, ...]:
    """Why the job can never run anywhere, however long it waits; () when it could.

    Quotas, prices and what is down now do not count: they change without the job. A cluster that
    was never seen may be able to run anything.
    """
    rooms = {(view.cluster.id, name): room for view in fleet for name, room in view.rooms.items()}
    told = []
    for site in sites(job.ask, tuple(view.cluster for view in fleet)):
        code = obstacle(job.ask, job.user, site)
        if code in LASTING:
            reason = standing(job, site, code)
        elif not site.cluster.seen:
            return ()
        else:
            room = rooms[site.cluster.id, site.flavor.name]
            never = too_large(site, room, site.option.shape, job.ask.required_tier)
            if never is None:
                return ()
            reason = never
        told.append(reason)
    return tuple(told) or (nowhere(job),)


def nowhere(job: WaitingJob) -> Reason:
    """No cluster that the job's owner lets it go to has any of its flavors."""
    flavors = ", ".join(option.flavor for option in job.ask.options)
    return Reason("flavor_not_accepted", f"No cluster that it may go to has {flavors}.")


def standing(job: WaitingJob, site: Site, code: str) -> Reason:
    """An obstacle that has nothing to do with what is free. `unit` names a lacking capability."""
    cluster, flavor, ask = site.cluster, site.flavor, job.ask
    stores = ", ".join(store for store in ask.stores if store not in cluster.stores)
    lack = missing(ask, cluster) if job.user in cluster.people else ""
    limit_s, longest_s = ask.time_limit_ms // 1000, (flavor.longest_ms or 0) // 1000
    words = {
        "store_unavailable": f"{cluster.name} does not have {stores}.",
        "checkpoint_unreachable": f"{cluster.name} does not have {ask.saved_in}, which holds the "
        "checkpoint to resume from.",
        "backend_cannot_run": f"{cluster.name} {LACK_WORDS[lack]}."
        if lack
        else f"You have no account on {cluster.name} to run as.",
        "limit_reached": f"Its time limit is {limit_s} s; the queue {flavor.queue} of "
        f"{cluster.name} takes at most {longest_s} s.",
        "cluster_unreachable": f"{cluster.name} does not answer.",
        "cluster_draining": f"{cluster.name} is cut off: nothing new goes there."
        if cluster.state is ClusterState.CUT_OFF
        else f"{cluster.name} takes no new work.",
        "queue_closed": f"The queue {flavor.queue} of {cluster.name} is closed.",
    }
    if code == "limit_reached":
        return _at(site, code, words[code], needed=limit_s, available=longest_s, unit="seconds")
    return _at(site, code, words[code], unit=lack or None)


def too_large(site: Site, at_rest: Room, shape: GangShape, required: str) -> Reason | None:
    """That the gang would not fit at the site even if it were empty, else None."""
    most, _ = at_rest.widest(shape, required)
    if most >= shape.nodes:
        return None
    where = f"one {required} of {site.cluster.name}" if required else site.cluster.name
    return _at(
        site,
        "gang_too_large",
        f"It needs {_members(shape)}; {where} has {most} such nodes.",
        needed=shape.nodes,
        available=most,
        unit="nodes",
    )


def _no_room(
    site: Site, shape: GangShape, required: str, *, anywhere: int, together: int
) -> Reason:
    name = site.cluster.name
    if anywhere >= shape.nodes:
        return _at(
            site,
            "topology_unavailable",
            f"It needs {_members(shape)} in one {required}; {name} has {anywhere} free, "
            f"at most {together} of them in one {required}.",
            needed=shape.nodes,
            available=together,
            unit="nodes",
        )
    return _at(
        site,
        "no_capacity",
        f"It needs {_members(shape)}; {name} has {anywhere} free.",
        needed=shape.nodes,
        available=anywhere,
        unit="nodes",
    )


def _behind(site: Site) -> Reason:
    """It would fit now: another job took its turn, or its binding was stale when committed."""
    return _at(site, "behind_in_queue", f"It waits for its turn on {site.cluster.name}.")


def _members(shape: GangShape) -> str:
    nodes = "1 node" if shape.nodes == 1 else f"{shape.nodes} nodes"
    whole = "whole " if shape.exclusive else ""
    return f"{whole}{nodes} with {shape.per_node.gpus} GPUs each"


def _at(
    site: Site,
    code: str,
    message: str,
    *,
    needed: int | None = None,
    available: int | None = None,
    unit: str | None = None,
    until_ms: int | None = None,
) -> Reason:
    return Reason(
        code, message, site.cluster.name, site.flavor.name, needed, available, unit, until_ms
    )

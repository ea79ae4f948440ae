"""Owners take back what is theirs; within a tenant what is more urgent goes first.

A job inside its tenant's guarantee that finds no room may have whole spot gangs evicted, of anybody,
and gangs of its own tenant that it outranks (by the priority they were given: waiting does not
count, so that no two evict each other in turn; nor does it evict one as spot that would outrank it
inside the guarantee). What would run as spot evicts less: see `federation.core.preemption`.

Victims are chosen by the least lost work, and are minimal by inclusion. Nobody is evicted unless
all of the job fits then: its nodes are kept for it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from uuid import UUID

from clusters.core.resources import GangShape
from clusters.core.topology import Block, Room
from federation.core.departures import Departures, QuotaToCome
from federation.core.draft import Asker, Book, Draft, Place
from federation.core.ordering import asking, in_turn, owned
from federation.core.placement import preferred
from federation.core.plan import Claim, binding_of
from federation.core.snapshot import Holding, Site, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT, Headroom
from quotas.core.policy import Policy

Victims = Sequence[Holding]
_Rank = tuple[int, str]


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Claim nodes for jobs that are owed their GPUs and found none free, owners in turn."""
    if not snapshot.holdings:
        return draft
    reclaim, claimed = Reclaim(snapshot, draft, GUARANTEED), -1
    while len(draft.claims) > claimed:  # what victims leave over may be enough for one before
        claimed = len(draft.claims)
        in_turn(draft, asking(draft, GUARANTEED), owned(snapshot, draft), reclaim)
    return draft


def place_of(held: Holding, policy: Policy, now_ms: int) -> tuple[bool, int, int, int]:
    """Who is evicted first: those that need not be spared, lose least, matter least, are older."""
    return is_spared(held, policy, now_ms), held.lost_work(now_ms), held.priority, held.job


def is_spared(held: Holding, policy: Policy, now_ms: int) -> bool:
    """Whether it has just begun, was just evicted, or was evicted often enough for a day."""
    young = held.started_ms is not None and now_ms - held.started_ms < policy.min_run_ms
    cooling = held.evicted_ms is not None and now_ms - held.evicted_ms < policy.cool_down_ms
    return young or cooling or held.evictions >= policy.most_evictions


@dataclass(frozen=True, slots=True)
class _Reach:
    """What jobs of one tenant and priority could have at a site; victims in their order.

    `now` and `then` are the tenant's headroom in the class as it is (without those who leave anyway)
    and when those whom they outrank are gone.
    """

    spot: Victims
    outranked: Victims
    now: Headroom
    then: Headroom


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to claim: whom to evict, at which site, for which nodes; the work lost by it."""

    lost: int
    site: Site
    victims: Victims
    block: Block

    @property
    def place(self) -> tuple[int, int, str]:
        """The best way first: it loses least, evicts fewest; then by the cluster's name."""
        return self.lost, len(self.victims), self.site.cluster.name


class Reclaim:
    """One cycle's claims of jobs that would run in a class.

    What is remembered of jobs and sites holds until the next claim (`changes`); what was bound since
    is counted as soon as it could matter.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        draft: Draft,
        service_class: str,
        owed: Mapping[UUID, int] = MappingProxyType({}),
    ) -> None:
        """`owed`: by tenant the lowest priority of jobs that its gangs as spot keep nodes from."""
        self._now_ms = snapshot.now_ms
        self._policy = snapshot.policy
        self._class = service_class
        self._draft = draft
        self._quota = QuotaToCome(snapshot, draft, service_class)
        self._departures = Departures(snapshot, draft)
        self._leavers = [held for held in snapshot.holdings if held.goes and held.grace_ms]
        kept = snapshot.reservations  # for spot: its job waits for that, and for nothing else
        self._kept = {one.job for one in kept if one.service_class == SPOT}
        self._order = [held for held in snapshot.holdings if held.is_evictable]
        if service_class == SPOT:
            self._order = [held for held in self._order if not _shields(held, owed)]
        self._order.sort(key=lambda held: (*self._place(held), held.attempt))
        self._own: dict[UUID, list[Holding]] = {}
        self._spot: dict[tuple[str, str], Victims] = {}
        self._reaches: dict[tuple[Book, _Rank, str, str], _Reach] = {}
        self._rooms: dict[tuple[Book | None, _Rank | None, str, str], Room] = {}
        self._most: dict[tuple[str, str], Room] = {}
        self._hopeless: set[tuple[Place, Book, _Rank]] = set()
        self._seen = len(draft.bindings)
        self.changes = 0
        self._begin()

    def _begin(self) -> None:
        """Look anew at who may be evicted and at what comes free."""
        self.changes += 1
        self._order = [held for held in self._order if held.attempt not in self._draft.victims]
        self._own = defaultdict(list)
        for held in self._order:
            if held.service_class == self._class and not self._is_safe(held):
                self._own[held.tenant].append(held)
        self._hopeless.clear()
        self._forget()

    def _forget(self) -> None:
        self._departures.begin()
        for known in (self._spot, self._reaches, self._rooms, self._most):
            known.clear()

    def _catch_up(self) -> None:
        """Count what others bound since. There is less then: what was in vain stays so."""
        for binding in islice(self._draft.bindings.values(), self._seen, None):
            self._quota.take(binding)
        self._seen = len(self._draft.bindings)
        self._forget()

    def gives_up(self, job: WaitingJob) -> bool:
        """Whether nothing can be claimed for jobs with its ask that outrank the same gangs."""
        asker = self._draft.asker(job)
        return (asker.place, asker.book, self._rank(job)) in self._hopeless

    def serve(self, job: WaitingJob) -> Site | None:
        """Claim nodes for the job where least work is lost, in the flavor it likes best."""
        asker = self._draft.asker(job)
        key = (asker.place, asker.book, self._rank(job))
        if job.id in self._kept or key in self._hopeless:
            return None
        allowed = self._allowed(job, asker) if self._may_fit(job, asker) else []
        if not allowed:
            self._hopeless.add(key)
            return None
        if self._seen < len(self._draft.bindings):
            self._catch_up()
            return self.serve(job)
        startable = self._draft.within_limits(job, allowed)
        for equal in preferred(asker.book, job, self._class, startable):
            ways = [way for site in equal if (way := self._way(job, site)) is not None]
            if ways:
                best = min(ways, key=lambda way: way.place)
                if self._class == SPOT and not best.victims:
                    break  # what leaves anyway is whose turn it is then
                self._make(job, best)
                return best.site
        if len(startable) == len(allowed):  # limits are not the same for all that share the key
            self._hopeless.add(key)
        return None

    def _make(self, job: WaitingJob, way: _Way) -> None:
        binding = binding_of(job, way.site, self._class, way.block)
        claim = Claim(binding, tuple(way.victims), self._deadline_ms(way))
        self._draft.claim(way.site, claim)
        for held in way.victims:
            self._quota.give_back(held)
        self._quota.take(binding)
        self._begin()

    def _deadline_ms(self, way: _Way) -> int:
        """When it has to have started: some time after the last grace of those who go is over."""
        nodes, cluster = set(way.block.nodes), way.site.cluster.id
        gone = [held for held in way.victims if held.started_ms is not None]
        gone += [
            held
            for held in self._leavers
            if held.cluster == cluster and not nodes.isdisjoint(held.nodes)
        ]
        grace_ms = max((held.grace_ms or 0 for held in gone), default=0)
        return self._now_ms + grace_ms + self._policy.claim_ms

    def _may_fit(self, job: WaitingJob, asker: Asker) -> bool:
        """Whether it has room somewhere when all are gone who may be evicted by anybody."""
        return any(
            not code and self._fits(job, site, self._emptied(site))
            for site, code in asker.place.sites
        )

    def _allowed(self, job: WaitingJob, asker: Asker) -> list[Site]:
        """Where quota and prices would let the job run when those whom it outranks are gone."""
        allowed = [
            site
            for site, code in asker.place.sites
            if not code
            and self._reach(job, site).then.holds(site.option.shape.gpus)
            and asker.book.price(site, self._class) is not None
        ]
        return [site for site in allowed if not job.ask.shuns(site.cluster.name)] or allowed

    def _way(self, job: WaitingJob, site: Site) -> _Way | None:
        """The best claim at the site, None when the job would not fit whoever is evicted."""
        reach = self._reach(job, site)
        if not self._fits(job, site, self._room(job, site, reach)):
            return None
        is_owed = reach.now.holds(site.option.shape.gpus)
        first, last = (reach.spot, reach.outranked) if is_owed else (reach.outranked, reach.spot)
        victims = self._first(job, site, [*first, *last])
        if is_owed:  # who holds none of the nodes is not in the way
            block = self._block(job, site, victims)
            victims = [held for held in victims if not set(block.nodes).isdisjoint(held.nodes)]
        victims = self._needed(job, site, victims)
        lost = sum(held.lost_work(self._now_ms) for held in victims)
        return _Way(lost, site, victims, self._block(job, site, victims))

    def _first(self, job: WaitingJob, site: Site, order: Victims) -> Victims:
        """The shortest beginning of the order that suffices; all of it does."""
        few, enough = 0, len(order)  # more gone is more room: what suffices, suffices with more
        while few < enough:
            middle = (few + enough) // 2
            if self._suffices(job, site, order[:middle]):
                enough = middle
            else:
                few = middle + 1
        return order[:enough]

    def _needed(self, job: WaitingJob, site: Site, victims: Victims) -> Victims:
        """The victims less all that are not needed, the last ones tried first."""
        for held in reversed(victims):
            fewer = [other for other in victims if other is not held]
            if self._suffices(job, site, fewer):
                victims = fewer
        return victims

    def _suffices(self, job: WaitingJob, site: Site, victims: Victims) -> bool:
        """Whether the job may have its GPUs and finds room when the victims are gone."""
        if not self._headroom(job.tenant, site, victims).holds(site.option.shape.gpus):
            return False
        return self._fits(job, site, self._departures.room(site, victims))

    def _fits(self, job: WaitingJob, site: Site, room: Room) -> bool:
        return room.fit(*self._gang(job, site)) is not None

    def _block(self, job: WaitingJob, site: Site, victims: Victims) -> Block:
        """The nodes that the job takes when the victims are gone."""
        block = self._departures.room(site, victims).best_block(*self._gang(job, site))
        assert block is not None, "the victims suffice"
        return block

    def _gang(self, job: WaitingJob, site: Site) -> tuple[GangShape, str, frozenset[str]]:
        return site.option.shape, job.ask.required_tier, self._draft.excluded(job, site)

    def _reach(self, job: WaitingJob, site: Site) -> _Reach:
        """What the job could have at the site."""
        book = self._draft.asker(job).book
        key = (book, self._rank(job), site.cluster.name, site.flavor.name)
        reach = self._reaches.get(key)
        if reach is None:
            own = [
                held
                for held in self._own.get(job.tenant, ())
                if self._outranks(job, held)
                and (held.flavor == site.flavor.name or held.cluster == site.cluster.id)
            ]
            now = self._headroom(job.tenant, site, ())
            then = self._headroom(job.tenant, site, own) if own else now
            spot = [held for held in self._spot_at(site) if not _is_ahead(held, job)]
            reach = self._reaches[key] = _Reach(spot, own, now, then)
        return reach

    def _outranks(self, job: WaitingJob, held: Holding) -> bool:
        """Whether a gang of its tenant that runs in the class may be evicted for the job."""
        is_below = held.priority < job.priority
        return is_below and (
            self._class == GUARANTEED or job.wanted_class in ("auto", held.wanted_class)
        )

    def _rank(self, job: WaitingJob) -> _Rank:
        """What decides which gangs of its tenant it outranks."""
        return job.priority, job.wanted_class if self._class == SPOT else ""

    def _room(self, job: WaitingJob, site: Site, reach: _Reach) -> Room:
        """The site when all are gone whom the job may evict there."""
        everybody = not reach.outranked and len(reach.spot) == len(self._spot_at(site))
        book = None if everybody else self._draft.asker(job).book  # most share one room
        rank = None if everybody else self._rank(job)
        key = (book, rank, site.cluster.name, site.flavor.name)
        room = self._rooms.get(key)
        if room is None:
            victims = [*reach.spot, *reach.outranked]
            room = self._rooms[key] = self._departures.room(site, victims)
        return room

    def _emptied(self, site: Site) -> Room:
        """The site when all are gone who may be evicted by anybody."""
        key = (site.cluster.name, site.flavor.name)
        room = self._most.get(key)
        if room is None:
            room = self._most[key] = self._departures.room(site, self._order)
        return room

    def _spot_at(self, site: Site) -> Victims:
        """The spot gangs there that an owner may evict, whosever they are."""
        if self._class == SPOT:
            return ()
        key = (site.cluster.name, site.flavor.name)
        spot = self._spot.get(key)
        if spot is None:
            is_at = self._departures.is_at
            spot = [h for h in self._order if h.service_class == SPOT and is_at(site, h)]
            self._spot[key] = spot
        return spot

    def _headroom(self, tenant: UUID, site: Site, victims: Victims) -> Headroom:
        """The tenant's headroom at the site when the victims are gone."""
        return self._quota.headroom(tenant, site.flavor.name, site.cluster.id, victims)

    def _place(self, held: Holding) -> tuple[bool, int, int, int]:
        return place_of(held, self._policy, self._now_ms)

    def _is_safe(self, held: Holding) -> bool:
        """Whether its own tenant lets it be; also what was just bound, it is about to start."""
        age_ms = self._now_ms - held.since_ms
        is_new = held.started_ms is None and age_ms <= self._policy.min_run_ms
        return is_new or is_spared(held, self._policy, self._now_ms)


def _shields(held: Holding, owed: Mapping[UUID, int]) -> bool:
    """Whether a spot gang outranks, inside the guarantee, one that waits for its nodes."""
    return held.wanted_class == "auto" and held.priority > owed.get(held.tenant, held.priority)


def _is_ahead(held: Holding, job: WaitingJob) -> bool:
    """Whether a spot gang of the job's own tenant would outrank it inside the guarantee."""
    is_own = held.tenant == job.tenant and held.wanted_class == "auto"
    return is_own and held.priority > job.priority

"""Owners take back what is theirs; within a tenant what is more urgent goes first.

A job inside its tenant's guarantee that finds no room may have whole spot gangs evicted, of anybody,
and gangs of its own tenant that it outranks (by the priority they were given: waiting does not
count, so that no two evict each other in turn). Victims are chosen by the least lost work, and are
minimal by inclusion. Nobody is evicted unless all of the job fits then: its nodes are kept for it.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from uuid import UUID

from clusters.core.resources import GangShape, NodeShape, left_of
from clusters.core.topology import Block, Room
from federation.core.draft import Draft
from federation.core.ordering import in_turn, owned
from federation.core.plan import Claim, binding_of
from federation.core.snapshot import Holding, Site, Snapshot, WaitingJob
from quotas.core.cohort import GUARANTEED, SPOT, Use
from quotas.core.policy import Policy

Victims = Sequence[Holding]


def extend(snapshot: Snapshot, draft: Draft) -> Draft:
    """Claim nodes for jobs that are owed their GPUs and found none free, owners in turn."""
    if snapshot.holdings:
        shares = owned(snapshot, draft)
        in_turn(draft, GUARANTEED, shares, _Reclaim(snapshot, draft).claim)
    return draft


def place_of(held: Holding, policy: Policy, now_ms: int) -> tuple[bool, int, int, int]:
    """Who is evicted first: those that need not be spared, lose least, matter least, are older."""
    return is_spared(held, policy, now_ms), held.lost_work(now_ms), held.priority, held.job


def is_spared(held: Holding, policy: Policy, now_ms: int) -> bool:
    """Whether it has just begun, was just evicted, or was evicted often enough for a day."""
    young = held.started_ms is not None and now_ms - held.started_ms < policy.min_run_ms
    cooling = held.evicted_ms is not None and now_ms - held.evicted_ms < policy.cool_down_ms
    return young or cooling or held.evictions >= policy.most_evictions


class _Reclaim:
    """One cycle's claims."""

    def __init__(self, snapshot: Snapshot, draft: Draft) -> None:
        self._now_ms = snapshot.now_ms
        self._policy = snapshot.policy
        self._draft = draft
        self._fields: dict[tuple[str, str], _Field] = {}
        self._by_cluster: dict[UUID, list[Holding]] = defaultdict(list)
        for holding in snapshot.holdings:
            self._by_cluster[holding.cluster].append(holding)

    def claim(self, job: WaitingJob) -> Site | None:
        """Claim nodes for the job where least work is lost, in the flavor it likes best."""
        sites = (site for site, code in self._draft.asker(job).place.sites if not code)
        for _, equal in groupby(sites, key=lambda site: site.option):
            ways = [way for site in equal if (way := self._way(job, site)) is not None]
            if ways:
                _, _, site, victims, block = min(ways, key=lambda way: way[:2])
                self._make(job, site, victims, block)
                return site
        return None

    def _make(self, job: WaitingJob, site: Site, victims: Victims, block: Block) -> None:
        draft = self._draft
        grace_ms = max(
            (held.grace_ms or 0 for held in victims if held.started_ms is not None), default=0
        )
        binding = binding_of(job, site, GUARANTEED, block)
        claim = Claim(binding, tuple(victims), self._now_ms + grace_ms + self._policy.claim_ms)
        draft.claims.append(claim)
        draft.victims.update(held.attempt for held in victims)
        draft.keep(binding, claim.deadline_ms)
        self._field(site).change()

    def _way(self, job: WaitingJob, site: Site) -> tuple[int, str, Site, Victims, Block] | None:
        """Lost work, cluster, site, victims and nodes of the best claim there; None = there is none."""
        field = self._field(site)
        if self._draft.book(job.tenant).price(site, GUARANTEED) is None:
            return None
        outranked = [held for held in field.owned[job.tenant] if self._outranks(job, held)]
        is_owed = self._is_owed(job, site, ())
        if not outranked and not (is_owed and field.may_hold(job, site)):
            return None
        order = [*field.spot, *outranked] if is_owed else [*outranked, *field.spot]
        if not self._suffices(job, site, order):
            return None
        victims = self._fewest(job, site, order)
        block = field.block(job, site, victims)
        assert block is not None, "the victims suffice"
        lost = sum(held.lost_work(self._now_ms) for held in victims)
        return lost, site.cluster.name, site, victims, block

    def _field(self, site: Site) -> "_Field":
        key = (site.cluster.name, site.flavor.name)
        field = self._fields.get(key)
        if field is None:
            holdings = sorted(self._by_cluster[site.cluster.id], key=self._place)
            field = self._fields[key] = _Field(self._draft, site, holdings)
        return field

    def _place(self, held: Holding) -> tuple[bool, int, int, int]:
        return place_of(held, self._policy, self._now_ms)

    def _is_spared(self, held: Holding) -> bool:
        return is_spared(held, self._policy, self._now_ms)

    def _outranks(self, job: WaitingJob, held: Holding) -> bool:
        return held.priority < job.priority and not self._is_spared(held)

    def _fewest(self, job: WaitingJob, site: Site, order: list[Holding]) -> Victims:
        """The shortest beginning of the order that suffices, less all that it does not need."""
        few, enough = 0, len(order)  # more gone is more room: what suffices, suffices with more
        while few < enough:
            middle = (few + enough) // 2
            if self._suffices(job, site, order[:middle]):
                enough = middle
            else:
                few = middle + 1
        victims = order[:enough]
        if self._is_owed(job, site, ()):  # who holds none of the nodes is not in the way
            block = self._field(site).block(job, site, victims)
            assert block is not None, "they suffice"
            victims = [held for held in victims if not set(block.nodes).isdisjoint(held.nodes)]
        for held in reversed(tuple(victims)):
            fewer = [other for other in victims if other is not held]
            if self._suffices(job, site, fewer):
                victims = fewer
        return victims

    def _suffices(self, job: WaitingJob, site: Site, victims: Victims) -> bool:
        """Whether the job is owed its GPUs and finds room when the victims are gone."""
        return (
            self._is_owed(job, site, victims)
            and self._field(site).block(job, site, victims) is not None
        )

    def _is_owed(self, job: WaitingJob, site: Site, victims: Victims) -> bool:
        """Whether the job is inside its tenant's guarantee when the victims are gone."""
        cohort, flavor = self._draft.cohort, site.flavor.name
        gone = [
            Use(held.tenant, held.flavor, held.cluster, GUARANTEED, held.gpus)
            for held in victims
            if held.service_class == GUARANTEED
        ]
        for use in gone:
            cohort.give_back(use)
        headroom = cohort.headroom(job.tenant, flavor, site.cluster.id, GUARANTEED)
        for use in gone:
            cohort.take(use, idle=0)
        return headroom.holds(site.option.shape.gpus)


class _Field:
    """What could come free at a site in this cycle; `holdings` in the order of eviction.

    `spot` are the spot gangs there that may be evicted, `owned` each tenant's guaranteed ones.
    """

    def __init__(self, draft: Draft, site: Site, holdings: Victims) -> None:
        self._draft = draft
        self._site = site
        self._nodes = {node.name: node for node in site.flavor.nodes}
        self._as_it_is = Room(site.flavor.nodes)
        self._on: dict[str, list[Holding]] = defaultdict(list)
        self._here = [held for held in holdings if not self._nodes.keys().isdisjoint(held.nodes)]
        for held in self._here:
            for name in self._nodes.keys() & set(held.nodes):
                self._on[name].append(held)
        self._hopeless: set[tuple[GangShape, str, frozenset[str]]] = set()
        self.spot: Victims = ()
        self.owned: dict[UUID, list[Holding]] = {}
        self.change()

    def change(self) -> None:
        """Something was claimed here: less can come free."""
        stay = [held for held in self._here if held.is_evictable]
        stay = [held for held in stay if held.attempt not in self._draft.victims]
        self.spot = [held for held in stay if held.service_class == SPOT]
        self.owned = defaultdict(list)
        for held in stay:
            if held.service_class == GUARANTEED:
                self.owned[held.tenant].append(held)
        self._full = self._room(self.spot)

    def may_hold(self, job: WaitingJob, site: Site) -> bool:
        """Whether the job's gang fits when all spot is gone."""
        key = self._key(job, site)
        if key not in self._hopeless and self._full.fit(*key) is None:
            self._hopeless.add(key)
        return key not in self._hopeless

    def block(self, job: WaitingJob, site: Site, victims: Victims) -> Block | None:
        """The block that the job takes when the victims are gone."""
        return self._room(victims).best_block(*self._key(job, site))

    def _key(self, job: WaitingJob, site: Site) -> tuple[GangShape, str, frozenset[str]]:
        return site.option.shape, job.ask.required_tier, self._draft.excluded(job, site)

    def _room(self, victims: Victims) -> Room:
        """The site when the victims, and all who leave anyway, are gone."""
        gone = {held.attempt for held in victims} | self._draft.victims
        promised = self._promised()
        free = {
            name: self._left(name, gone, promised.get(name, ()))
            for name in self._on.keys() | promised.keys()
        }
        return self._as_it_is.with_free(free)

    def _left(self, name: str, gone: set[UUID], promised: Sequence[GangShape]) -> NodeShape:
        node = self._nodes[name]
        stay = [h.shape for h in self._on[name] if not (h.leaves or h.attempt in gone)]
        return left_of(node.total, node.foreign, (*stay, *promised))

    def _promised(self) -> dict[str, list[GangShape]]:
        """What this cycle bound to the site's nodes, and what is kept there, by node."""
        draft, site = self._draft, self._site
        promised: dict[str, list[GangShape]] = defaultdict(list)
        for binding in draft.promised:
            if binding.cluster == site.cluster.id:
                for name in binding.nodes:
                    if name in self._nodes:
                        promised[name].append(binding.shape)
        return promised

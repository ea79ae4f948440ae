"""A plan in the making: the room, the quota and the shares that a cycle's actions draw on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from accounting.core.rating import PriceBook, PriceEntry
from clusters.core.topology import NOTHING, Fit, Room
from federation.core.lines import Waits
from federation.core.plan import Binding, Claim, Plan, Promotion, Reason, binding_of
from federation.core.snapshot import (
    Ask,
    ClusterState,
    ClusterView,
    Holding,
    Site,
    Snapshot,
    TenantView,
    WaitingJob,
    obstacle,
    sites,
)
from kit.lazy import LazyMapping
from quotas.core.cohort import Cohort, Headroom, Limits, Use
from quotas.core.fair_share import Shares
from quotas.core.limits import Counts, Hit, first_hit


@dataclass(frozen=True, slots=True)
class Kept:
    """Nodes kept for a job until a deadline; members that ask for `free_gpus` could start now."""

    binding: Binding
    until_ms: int
    free_gpus: int


@dataclass(eq=False, slots=True)
class Draft:
    """A plan in the making: rooms, quota and what was bound so far.

    Room and headroom only shrink while a draft grows, so what did not fit once does not fit later
    in the same cycle: `Place.live` drops a site for good. Equal asks share every answer. `ready`
    are each tenant's jobs that may start, in their order, and `aside` why the others may not. `kept`
    are jobs that wait for nodes which are kept for them; `claims` those of this cycle. `borrowers`
    are the tenants' shares of spot with all that was bound (arbitration sets them). `limits` count
    what holds GPUs, was bound or waits for kept nodes. Inner keys are numbers and names, as UUIDs
    are slow to hash. `_leavers` are the gangs that leave nodes which are kept for nobody.
    """

    snapshot: Snapshot
    cohort: Cohort
    tenants: Mapping[UUID, TenantView]
    lineages: Mapping[UUID, tuple[UUID, ...]]
    limits: Counts
    ready: dict[UUID, Waits] = field(default_factory=dict)
    bindings: dict[int, Binding] = field(default_factory=dict)
    promotions: list[Promotion] = field(default_factory=list)
    kept: dict[int, Kept] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    victims: set[UUID] = field(default_factory=set)
    released: list[int] = field(default_factory=list)
    aside: dict[int, tuple[Reason, ...]] = field(default_factory=dict)
    borrowers: Shares = field(init=False)
    _rooms: dict[tuple[str, str], Room] = field(default_factory=dict)
    _asks: dict[Ask, int] = field(default_factory=dict)
    _ask_numbers: dict[int, int] = field(default_factory=dict)
    _reach: dict[int, int] = field(default_factory=dict)
    _reaches: dict[frozenset[str], int] = field(default_factory=dict)
    _places: "dict[tuple[int, int], Place]" = field(default_factory=dict)
    _excluded: dict[tuple[int, str, str], frozenset[str]] = field(default_factory=dict)
    _books: "dict[UUID, Book]" = field(default_factory=dict)
    _askers: "dict[tuple[int, int, int], Asker]" = field(default_factory=dict)
    _leavers: dict[tuple[UUID, str], list[Holding]] = field(default_factory=dict)
    _kept_nodes: set[tuple[UUID, str]] = field(default_factory=set)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Draft":
        """An empty draft over a snapshot whose rows are in order (see `cycle.decide`)."""
        tenants = {tenant.id: tenant for tenant in snapshot.tenants}
        lineages = {tenant.id: tenant.lineage for tenant in snapshot.tenants}
        cohort = Cohort(snapshot.quotas, lineages, snapshot.uses, idle_gpus(snapshot.clusters))
        limits = Counts(snapshot.limited, lineages)
        if limits:
            limits.hold((held.job, held.tenant, held.gpus) for held in snapshot.holdings)
        draft = cls(snapshot, cohort, tenants, lineages, limits)
        draft._leave(held for held in snapshot.holdings if held.goes)
        return draft

    def plan(
        self,
        reasons: LazyMapping[int, tuple[Reason, ...]],
        ranked: Callable[[], tuple[int, ...]],
    ) -> Plan:
        """What was decided. The draft refers to nothing that refers to it: it goes with its plan."""
        return Plan(
            self.snapshot,
            tuple(self.bindings.values()),
            reasons,
            ranked,
            tuple(self.promotions),
            tuple(self.claims),
            tuple(self.released),
        )

    def is_served(self, job: WaitingJob) -> bool:
        """Whether the job is bound, or waits for nodes that are kept for it."""
        return job.id in self.bindings or job.id in self.kept

    def asker(self, job: WaitingJob) -> "Asker":
        """What the job shares with others; values that jobs share are known by their identity."""
        key = (id(job.ask), id(job.tenant), id(job.user))
        asker = self._askers.get(key)
        if asker is None:
            asker = self._askers[key] = Asker(self._place(job), self.book(job.tenant), job)
        return asker

    def book(self, tenant: UUID) -> "Book":
        """A tenant's quota and prices."""
        book = self._books.get(tenant)
        if book is None:
            book = self._books[tenant] = Book(
                self.tenants[tenant], self.cohort, self.snapshot.prices, self.snapshot.now_ms
            )
        return book

    def _place(self, job: WaitingJob) -> "Place":
        """What jobs share which could go to the same sites: equal asks, equal accounts."""
        number = self._ask_numbers.get(id(job.ask))
        if number is None:  # hash an ask once, not at every look-up
            number = self._asks.setdefault(job.ask, len(self._asks))
            self._ask_numbers[id(job.ask)] = number
        reach = self._reach.get(id(job.user))  # a job of each stays: no other gets the identity
        if reach is None:
            names = frozenset(c.name for c in self.snapshot.clusters if job.user in c.people)
            reach = self._reaches.setdefault(names, len(self._reaches))
            self._reach[id(job.user)] = reach
        place = self._places.get((number, reach))
        if place is None:
            ask = job.ask
            found = [(s, obstacle(ask, job.user, s)) for s in sites(ask, self.snapshot.clusters)]
            place = self._places[number, reach] = Place(number, found)
        return place

    def room(self, site: Site) -> Room:
        """The room of a site, as left by what was bound so far."""
        key = (site.cluster.name, site.flavor.name)
        room = self._rooms.get(key)
        if room is None:
            room = self._rooms[key] = Room(site.flavor.nodes)
        return room

    def excluded(self, job: WaitingJob, site: Site) -> frozenset[str]:
        """The nodes of a site's cluster that the job may not use."""
        if not job.ask.avoid_nodes and not site.cluster.reserved:
            return NOTHING
        key = (self.asker(job).place.ask, site.cluster.name, site.flavor.name)
        found = self._excluded.get(key)
        if found is None:
            found = self._excluded[key] = self._exclude(job.ask, site)
        return found

    def _exclude(self, ask: Ask, site: Site) -> frozenset[str]:
        """What is promised to others; also what the job avoids, if the gang can do without it.

        "Can" means with nothing else running: else a gang as large as its cluster would wait for
        ever for a node that is back.
        """
        promised = site.cluster.promised(ask, self.snapshot.now_ms)
        both = promised | site.cluster.avoided(ask)
        if both == promised:
            return promised
        empty = Room([replace(node, free=node.total) for node in site.flavor.nodes])
        return both if empty.fit(site.option.shape, ask.required_tier, both) else promised

    def fit(self, job: WaitingJob, site: Site) -> Fit | None:
        """How the job's gang would fit at the site now."""
        return self.room(site).fit(
            site.option.shape, job.ask.required_tier, self.excluded(job, site)
        )

    def bind(self, job: WaitingJob, site: Site, service_class: str) -> None:
        """Bind the job whole to the best block of a site that has room for it."""
        shape, room = site.option.shape, self.room(site)
        block = room.best_block(shape, job.ask.required_tier, self.excluded(job, site))
        assert block is not None, "bound where there is no room"
        self.bind_to(site, binding_of(job, site, service_class, block))

    def bind_to(self, site: Site, binding: Binding) -> None:
        """Bind a job to nodes of the site that are free."""
        shape = binding.shape
        assert len(binding.nodes) == shape.nodes, "a gang is bound whole"
        self.room(site).take(binding.nodes, shape)
        self.cohort.take(use_of(binding))
        self._start(binding)
        self.bindings[binding.job] = binding

    def keep(self, site: Site, binding: Binding, until_ms: int) -> None:
        """Keep the nodes of a binding that cannot be made yet: what is free of them, and quota."""
        room, shape = self.room(site), binding.shape
        free_gpus = shape.per_node.gpus * sum(room.holds((n,), shape) for n in binding.nodes)
        self.cohort.take(use_of(binding), idle=room.keep(binding.nodes, shape))
        self._start(binding)
        self.kept[binding.job] = Kept(binding, until_ms, free_gpus)
        for place in ((binding.cluster, name) for name in binding.nodes):
            self._kept_nodes.add(place)
            for held in self._leavers.pop(place, ()):
                self._pass_on(held)

    def claim(self, site: Site, claim: Claim) -> None:
        """Keep nodes for a job from now on, and evict those who are in its way."""
        self.claims.append(claim)
        self.victims.update(held.attempt for held in claim.victims)
        self._leave(claim.victims)
        self.keep(site, claim.binding, claim.deadline_ms)

    def is_gone(self, held: Holding) -> bool:
        """Whether the gang's nodes come free: it leaves anyway, or is evicted by this plan."""
        return held.goes or (bool(self.victims) and held.attempt in self.victims)

    def _leave(self, gangs: Iterable[Holding]) -> None:
        """Note whose nodes come free."""
        for held in gangs:
            for place in ((held.cluster, name) for name in held.nodes):
                if place in self._kept_nodes:
                    self._pass_on(held)
                else:
                    self._leavers.setdefault(place, []).append(held)

    def _pass_on(self, held: Holding) -> None:
        """A gang leaves a node that is kept for a job: what it has there counts for that job.

        All of it does, though a small job leaves some idle in the end: so nobody is lent twice what
        an owner keeps, whichever of several gangs leaves first.
        """
        use = held.use
        self.cohort.pass_on(replace(use, gpus=held.shape.per_node.gpus))

    def _start(self, binding: Binding) -> None:
        if self.limits:
            self.limits.start(binding.job, binding.tenant, binding.user, binding.shape.gpus)

    def within_limits(self, job: WaitingJob, found: list[Site]) -> list[Site]:
        """Those of the sites where no limit of its tenant, person or labels keeps the job back."""
        if not self.limits:
            return found
        return [site for site in found if self.limit_hit(job, site) is None]

    def limit_hit(self, job: WaitingJob, site: Site) -> Hit | None:
        """The limit that a start of the job at the site would exceed now, None = none."""
        standing = self.limits.standing(job.id, job.tenant, job.user)
        return first_hit(standing, site.option.shape.gpus, job.ask.time_limit_ms)

    def quota_to_come(self) -> Cohort:
        """Quota as it is when all that was promised runs, and those who leave are gone."""
        promised = [use_of(binding) for binding in self.promised]
        cohort = Cohort(self.snapshot.quotas, self.lineages, (*self.snapshot.uses, *promised))
        for held in self.snapshot.holdings:
            if self.is_gone(held):
                cohort.give_back(held.use)
        return cohort

    @property
    def promised(self) -> Iterator[Binding]:
        """What was bound, and how those that wait for kept nodes will start."""
        yield from self.bindings.values()
        for kept in self.kept.values():
            yield kept.binding


def use_of(binding: Binding) -> Use:
    """What the binding counts in its tenant's quota."""
    return Use(
        binding.tenant,
        binding.flavor,
        binding.cluster,
        binding.service_class,
        binding.shape.gpus,
    )


def idle_gpus(clusters: Iterable[ClusterView]) -> dict[tuple[str, UUID], int]:
    """Free GPUs by flavor and cluster, where something new may start."""
    return {
        (flavor.name, cluster.id): sum(node.free.gpus for node in flavor.nodes if node.usable)
        for cluster in clusters
        if cluster.state is ClusterState.OPEN
        for flavor in cluster.flavors
        if flavor.queue_is_open
    }


class Place:
    """Where equal asks of people with equal accounts could go.

    `ask` numbers the ask. `sites` are all that they accept, each with the code of what keeps them
    from it whatever is free there, or "". `live` are those where they may still find room in this
    cycle; callers remove those that have none.
    """

    __slots__ = ("ask", "live", "sites")

    def __init__(self, ask: int, found: Sequence[tuple[Site, str]]) -> None:
        self.ask = ask
        self.sites = found
        self.live = [site for site, code in found if not code]


class Asker(NamedTuple):
    """What a job shares with others: its sites, and the quota and prices of its tenant.

    `first` is the job that was first looked up; it keeps what others are known by.
    """

    place: Place
    book: "Book"
    first: WaitingJob


class Book:
    """One tenant's quota and prices in a draft, by site and class."""

    __slots__ = ("_cohort", "_limits", "_now_ms", "_price_book", "_prices", "_prices_at", "_tenant")

    def __init__(self, tenant: TenantView, cohort: Cohort, prices: PriceBook, now_ms: int) -> None:
        self._tenant = tenant
        self._cohort = cohort
        self._price_book = prices
        self._now_ms = now_ms
        self._limits: dict[tuple[str, str, str], Limits] = {}
        self._prices: dict[tuple[str, str, str], int | None] = {}
        self._prices_at: dict[tuple[str, UUID, str], int | None] = {}

    def headroom(self, site: Site, service_class: str) -> Headroom:
        """How much more of the class the tenant may take at the site."""
        return self._limits_at(site, service_class).headroom()

    def _limits_at(self, site: Site, service_class: str) -> Limits:
        key = (site.flavor.name, site.cluster.name, service_class)
        limits = self._limits.get(key)
        if limits is None:
            limits = self._limits[key] = self._cohort.limits(
                self._tenant.id, site.flavor.name, site.cluster.id, service_class
            )
        return limits

    def price(self, site: Site, service_class: str) -> int | None:
        """Nano-units per GPU-hour in force now at the site, or None."""
        key = (site.flavor.name, site.cluster.name, service_class)
        if key not in self._prices:
            self._prices[key] = self.price_at(site.flavor.name, site.cluster.id, service_class)
        return self._prices[key]

    def price_at(self, flavor: str, cluster: UUID, service_class: str) -> int | None:
        """Nano-units per GPU-hour in force now for a flavor on a cluster, or None."""
        key = (flavor, cluster, service_class)
        if key not in self._prices_at:
            found = self._price_book.lookup(
                flavor=flavor,
                service_class=service_class,
                cluster=cluster,
                lineage=self._tenant.lineage,
                at_ms=self._now_ms,
            )
            nano = found.nano_per_gpu_hour if isinstance(found, PriceEntry) else None
            self._prices_at[key] = nano
        return self._prices_at[key]

    def allows(self, site: Site, service_class: str) -> bool:
        """Whether quota and price let the option's gang run at the site in the class."""
        gpus = site.option.shape.gpus
        return (
            self._limits_at(site, service_class).hold(gpus)
            and self.price(site, service_class) is not None
        )

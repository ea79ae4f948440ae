"""The facts that a cycle decides on: one frozen value, read at one moment.

GPUs are counted in whole devices, memory in MiB, time in milliseconds since the epoch (our clock).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from accounting.core.rating import PriceBook
from clusters.core.capabilities import GANG_NEEDS, SCRIPT, SIGNAL
from clusters.core.resources import GangShape
from clusters.core.topology import NodeRoom
from quotas.core.cohort import QuotaRow, Use
from quotas.core.limits import Limited
from quotas.core.policy import Policy


@dataclass(frozen=True, slots=True)
class Option:
    """One flavor that a job accepts, and the gang it would be there."""

    flavor: str
    shape: GangShape


@dataclass(frozen=True, slots=True)
class Ask:
    """All that decides where a job can go, apart from whose it is. Equal jobs share one value.

    `signalled`: it is to get a checkpoint signal (read only where a cluster cannot pass one).
    `saved_in` is the store that holds the checkpoint it resumes from, "" = it has none, or anywhere.
    `forms` are those in which it can be started.

    `avoid_nodes` are "cluster/node", or "cluster/*" for a cluster that refused the job: it is taken
    only when there is no other. Nodes are avoided only while the gang could do without them. Tiers are the federation's, "" = any. Empty `only_clusters`
    means all.
    """

    options: tuple[Option, ...]
    time_limit_ms: int
    required_tier: str = ""
    preferred_tier: str = ""
    prefer: str = "order"
    stores: tuple[str, ...] = ()
    only_clusters: tuple[str, ...] = ()
    avoid_clusters: tuple[str, ...] = ()
    avoid_nodes: tuple[str, ...] = ()
    signalled: bool = False
    saved_in: str = ""
    forms: tuple[str, ...] = (SCRIPT,)

    def allows(self, cluster: str) -> bool:
        """Whether the job's owner lets it go to that cluster."""
        wanted = not self.only_clusters or cluster in self.only_clusters
        return wanted and cluster not in self.avoid_clusters

    def shuns(self, cluster: str) -> bool:
        """Whether the cluster refused an attempt of the job."""
        return bool(self.avoid_nodes) and f"{cluster}/*" in self.avoid_nodes


class WaitingJob(NamedTuple):
    """A job in state `queued`."""

    id: int
    version: int
    tenant: UUID
    user: UUID
    wanted_class: str
    priority: int
    queued_ms: int
    attempts_made: int
    ask: Ask
    not_before_ms: int | None = None


class ClusterState(StrEnum):
    """Whether a cluster takes new work."""

    OPEN = "open"
    DRAINING = "draining"
    CUT_OFF = "cut_off"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class FlavorView:
    """A flavor on a cluster: its name there, the member queue that serves it, and its nodes.

    The nodes' free room is what the cluster reports, less foreign load, less what our open
    attempts hold or were promised. `longest_ms` is the queue's longest time limit, None = any.
    """

    name: str
    device: str
    nodes: tuple[NodeRoom, ...]
    queue: str = ""
    queue_is_open: bool = True
    longest_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReservedNodes:
    """Nodes that the member's own admin keeps in [start_ms, end_ms)."""

    name: str
    nodes: frozenset[str]
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One member cluster. `people` are the users that have an account there.

    `lacks` are capabilities that its last probe found off (`clusters.core.capabilities`). `seen` is
    False for a cluster that was never observed: nothing is known about its nodes. `class_is_fixed`:
    the classes are mapped to different QOS there, so that a running gang cannot change its class.
    `form` is the form in which its backend starts a job.
    """

    id: UUID
    name: str
    revision: int
    state: ClusterState
    flavors: tuple[FlavorView, ...]
    reserved: tuple[ReservedNodes, ...] = ()
    stores: frozenset[str] = frozenset()
    people: frozenset[UUID] = frozenset()
    lacks: frozenset[str] = frozenset()
    seen: bool = True
    class_is_fixed: bool = False
    form: str = SCRIPT

    def avoided(self, ask: Ask) -> frozenset[str]:
        """Nodes here that kept an earlier attempt of the job from running."""
        prefix = f"{self.name}/"
        return frozenset(n.removeprefix(prefix) for n in ask.avoid_nodes if n.startswith(prefix))

    def promised(self, ask: Ask, now_ms: int) -> frozenset[str]:
        """Nodes that the member has reserved for others before the job would end."""
        blocking = self.blocking(now_ms, now_ms + ask.time_limit_ms)
        return frozenset().union(*(reservation.nodes for reservation in blocking))

    def blocking(self, start_ms: int, end_ms: int) -> Iterator[ReservedNodes]:
        """The reservations that overlap [start_ms, end_ms)."""
        return (r for r in self.reserved if r.start_ms < end_ms and start_ms < r.end_ms)


@dataclass(frozen=True, slots=True)
class TenantView:
    """A tenant: `lineage` are the ids from the root to itself."""

    id: UUID
    path: str
    lineage: tuple[UUID, ...]
    is_open: bool = True
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Holding:
    """An open attempt: the nodes that it holds or was promised, and a member's share of each.

    `since_ms` is when it was bound, `started_ms` when it started (None = not yet), `saved_ms` when it
    last proved a checkpoint (None = never). `grace_ms` is the time that it asked for to save one,
    None without a checkpoint. `leaves`: it is being stopped or was told to go; in the latter case
    `goes_for` is the job for which. `evictions` counts those of its job within a day, the last one
    at `evicted_ms`.
    """

    attempt: UUID
    job: int
    tenant: UUID
    priority: int
    cluster: UUID
    flavor: str
    wanted_class: str
    service_class: str
    nodes: tuple[str, ...]
    shape: GangShape
    since_ms: int
    is_running: bool = True
    is_lost: bool = False
    leaves: bool = False
    started_ms: int | None = None
    saved_ms: int | None = None
    grace_ms: int | None = None
    evictions: int = 0
    evicted_ms: int | None = None
    goes_for: int | None = None

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.shape.gpus

    @property
    def use(self) -> Use:
        """What it counts in its tenant's quota."""
        return Use(self.tenant, self.flavor, self.cluster, self.service_class, self.gpus)

    @property
    def goes(self) -> bool:
        """Whether its nodes come free without an eviction: it leaves, and its cluster knows of it."""
        return self.leaves and not self.is_lost

    @property
    def is_evictable(self) -> bool:
        """Whether it may be told to go: it does not go anyway, and its cluster knows of it."""
        return not self.leaves and not self.is_lost

    def lost_work(self, now_ms: int) -> int:
        """GPU-milliseconds that are lost if it is stopped now: since its start or last checkpoint."""
        if self.started_ms is None:
            return 0
        return self.gpus * max(0, now_ms - max(self.started_ms, self.saved_ms or 0))


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes kept for a waiting job until `deadline_ms`: its gang starts there when they are free."""

    job: int
    cluster: UUID
    flavor: str
    service_class: str
    nodes: tuple[str, ...]
    shape: GangShape
    claimed_ms: int
    deadline_ms: int


@dataclass(frozen=True)
class Snapshot:
    """Everything one cycle looks at. The order of rows means nothing.

    `spot_use` is each tenant's decayed spot use by flavor, in GPU-milliseconds. `holdings` are all
    open attempts; `uses` are their sums. `limited` are the limits and what of jobs they ask for.
    """

    now_ms: int
    jobs: tuple[WaitingJob, ...] = ()
    clusters: tuple[ClusterView, ...] = ()
    tenants: tuple[TenantView, ...] = ()
    quotas: tuple[QuotaRow, ...] = ()
    uses: tuple[Use, ...] = ()
    prices: PriceBook = field(default_factory=PriceBook)
    spot_use: Mapping[tuple[UUID, str], int] = field(default_factory=dict)
    holdings: tuple[Holding, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    policy: Policy = field(default_factory=Policy)
    limited: Limited = field(default_factory=Limited)


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One flavor on one cluster that a job could go to, taking `option` there."""

    option: Option
    cluster: ClusterView
    flavor: FlavorView


def sites(ask: Ask, clusters: tuple[ClusterView, ...]) -> Iterator[Site]:
    """Every site that the job's owner accepts: flavors in the job's order, clusters as given."""
    for option in ask.options:
        for cluster in clusters:
            if ask.allows(cluster.name):
                for flavor in cluster.flavors:
                    if flavor.name == option.flavor:
                        yield Site(option, cluster, flavor)


def obstacle(ask: Ask, user: UUID, site: Site) -> str:
    """The code of what keeps the job from a site whatever is free there, or "".

    The lasting obstacles come first (see `LASTING`): the ones that waiting does not remove.
    """
    cluster, flavor = site.cluster, site.flavor
    if ask.saved_in and ask.saved_in not in cluster.stores:
        return "checkpoint_unreachable"
    if not cluster.stores.issuperset(ask.stores):
        return "store_unavailable"
    if user not in cluster.people or missing(ask, cluster):
        return "backend_cannot_run"
    if flavor.longest_ms is not None and ask.time_limit_ms > flavor.longest_ms:
        return "limit_reached"
    if cluster.state is ClusterState.UNREACHABLE:
        return "cluster_unreachable"
    if cluster.state in (ClusterState.DRAINING, ClusterState.CUT_OFF):
        return "cluster_draining"
    return "" if flavor.queue_is_open else "queue_closed"


def missing(ask: Ask, cluster: ClusterView) -> str:
    """The form of the cluster's backend that the job is not there in, or else the first capability
    that it needs and the cluster lacks, or ""."""
    if cluster.form not in ask.forms:
        return cluster.form
    if not cluster.lacks:
        return ""
    needs = (*GANG_NEEDS, SIGNAL) if ask.signalled else GANG_NEEDS
    return next((name for name in needs if name in cluster.lacks), "")


LASTING = frozenset(
    {"checkpoint_unreachable", "store_unavailable", "backend_cannot_run", "limit_reached"}
)

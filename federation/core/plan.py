"""What a cycle decides: what to bind, promote, claim and release, and why the rest waits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from clusters.core.resources import GangShape
from clusters.core.topology import Block, Room
from federation.core.snapshot import ClusterView, Holding, Site, Snapshot, WaitingJob
from kit.intervals import from_ms, iso
from kit.lazy import LazyMapping


class Reason(NamedTuple):
    """Why a job waits, at one site (cluster and flavor) or, both None, whatever the site.

    `needed` and `available` are whole numbers of `unit` ("gpus", "nodes", "jobs", "seconds").
    """

    code: str
    message: str
    cluster: str | None = None
    flavor: str | None = None
    needed: int | None = None
    available: int | None = None
    unit: str | None = None
    until_ms: int | None = None

    def to_json(self) -> dict[str, str | int | None]:
        """As stored and as in the API, where `fix` joins it on reading.

        The keys stand as jsonb writes them (by length, then by letters).
        """
        return {
            "code": self.code,
            "unit": self.unit,
            "until": None if self.until_ms is None else iso(from_ms(self.until_ms)),
            "flavor": self.flavor,
            "needed": self.needed,
            "cluster": self.cluster,
            "message": self.message,
            "available": self.available,
        }


@dataclass(frozen=True, slots=True)
class Binding:
    """One job, whole, to exact nodes (in rank order) of one cluster, as attempt `number`."""

    job: int
    version: int
    number: int
    tenant: UUID
    user: UUID
    cluster: UUID
    cluster_name: str
    flavor: str
    device: str
    queue: str
    service_class: str
    shape: GangShape
    nodes: tuple[str, ...]
    tier: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """A gang that runs as spot goes on inside its tenant's guarantee."""

    job: int
    attempt: UUID
    tenant: UUID
    cluster: UUID
    flavor: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Nodes that are kept for a job from now on, and the gangs that are evicted for it.

    `binding` is how it will start when they are gone; `deadline_ms` when it has to have started.
    """

    binding: Binding
    victims: tuple[Holding, ...]
    deadline_ms: int


@dataclass(frozen=True)
class Plan:
    """What a cycle wants: to bind, to promote, to tell (reasons by job), and the queue's order.

    Reasons and order are worked out when they are asked for: most cycles write few of them.

    `claims` evict gangs for jobs that wait for their nodes; `released` are jobs whose nodes are kept
    for them no longer.

    `basis` is the snapshot it was decided on; `commit_plan` compares its revisions.
    """

    basis: Snapshot
    bindings: tuple[Binding, ...]
    reasons: LazyMapping[int, tuple[Reason, ...]]
    ranked: Callable[[], tuple[int, ...]]
    promotions: tuple[Promotion, ...] = ()
    claims: tuple[Claim, ...] = ()
    released: tuple[int, ...] = ()

    @cached_property
    def queue(self) -> tuple[int, ...]:
        """The jobs that are left waiting, in their order."""
        return self.ranked()


@dataclass(frozen=True, eq=False)
class FleetView:
    """A cluster and, by flavor, its room with all nodes up and nothing used."""

    cluster: ClusterView
    rooms: Mapping[str, Room]


def binding_of(job: WaitingJob, site: Site, service_class: str, block: Block) -> Binding:
    """The job on a block of a site, in a class."""
    return Binding(
        job=job.id,
        version=job.version,
        number=job.attempts_made + 1,
        tenant=job.tenant,
        user=job.user,
        cluster=site.cluster.id,
        cluster_name=site.cluster.name,
        flavor=site.flavor.name,
        device=site.flavor.device,
        queue=site.flavor.queue,
        service_class=service_class,
        shape=site.option.shape,
        nodes=block.nodes,
        tier=block.tier,
    )

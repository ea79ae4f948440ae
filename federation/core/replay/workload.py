"""What is replayed: jobs as they came, and the federation they come to."""

from dataclasses import dataclass, field
from uuid import UUID, uuid5

from accounting.core.rating import PriceBook
from federation.core.snapshot import Ask, ClusterView, TenantView, WaitingJob
from kit.intervals import MINUTE_MS
from quotas.core.cohort import QuotaRow
from quotas.core.policy import Policy

TICK_MS = MINUTE_MS // 2
NAMES = UUID(int=0x6D7374)
SOMEBODY = uuid5(NAMES, "somebody")  # all jobs are one person's, who has an account everywhere


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that once ran: when it came, what it asked, how long it ran by itself.

    With `interval_ms` it saves a checkpoint so often, and is given `grace_ms` when it is evicted;
    None = it has no checkpoint, and all its work is lost. Ids are unique and in order of arrival
    among equals. `run_ms` is above 0.
    """

    id: int
    arrival_ms: int
    tenant: UUID
    ask: Ask
    run_ms: int
    wanted_class: str
    priority: int = 500
    interval_ms: int | None = None
    grace_ms: int = 0

    @property
    def waiting(self) -> WaitingJob:
        """The job as the core sees it when it arrives."""
        return WaitingJob(
            id=self.id,
            version=1,
            tenant=self.tenant,
            user=SOMEBODY,
            wanted_class=self.wanted_class,
            priority=self.priority,
            queued_ms=self.arrival_ms,
            attempts_made=0,
            ask=self.ask,
        )


@dataclass(frozen=True)
class Setting:
    """The federation at rest: no job of ours is on its nodes. Nodes of a cluster have one flavor.

    A tick is how often the arbiter looks; what happens in between is acted on at the next one.
    """

    clusters: tuple[ClusterView, ...]
    tenants: tuple[TenantView, ...]
    quotas: tuple[QuotaRow, ...]
    prices: PriceBook
    policy: Policy = field(default_factory=Policy)
    tick_ms: int = TICK_MS

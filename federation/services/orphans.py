"""What ran for us in a time that a restore lost, for jobs that we know nothing of any more.

Their bills cannot be made again, as the jobs are gone. Where the person behind the account may
submit to one tenant only, the GPU time is booked there as an adjustment, at the lowest price that
was in force; else it is shown to the operator, who knows more.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from accounting.core.metering import ServiceClass, Usage
from accounting.core.rating import PriceBook, RatedPiece, rate
from accounting.models import Adjustment
from accounting.selectors.prices import whole_book
from accounting.services.adjust import Correction, adjust
from clusters.core.observation import Run
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Node
from federation.core.adoption import Found
from kit.ids import fact_id
from tenancy.models import Membership, Role, Tenant

WHY = "{fence} ran on {cluster} as {account}; the job was lost by a restore. The lowest price."


@dataclass(frozen=True, slots=True)
class Lost:
    """One stay on nodes of an orphan that is over: where, for whom, in which GPU model."""

    fence: str
    account: str
    cluster: Cluster
    tenant: Tenant
    flavor: str
    run: Run

    @property
    def adjustment_id(self) -> UUID:
        """The same stay is the same adjustment, however often it is found."""
        return fact_id("orphan", self.cluster.id, self.fence, self.run.start_ms)


def book_orphans(*, orphans: Iterable[Found], now: datetime) -> list[Adjustment]:
    """Books what can be known of orphans that are over; booking twice is booking once."""
    book = whole_book()
    booked = []
    for lost in _lost(orphans):
        owed = _owed(lost, book)
        if owed is None:
            continue
        amount_nano, gpu_ms, currency = owed
        correction = Correction(
            tenant_id=lost.tenant.id,
            amount_nano=amount_nano,
            currency=currency,
            cause=Adjustment.Cause.RECOVERY,
            why=WHY.format(fence=lost.fence, cluster=lost.cluster.name, account=lost.account),
            cluster_id=lost.cluster.id,
            gpu_ms=gpu_ms,
        )
        booked.append(
            adjust(actor=None, correction=correction, adjustment_id=lost.adjustment_id, now=now)
        )
    return booked


def _lost(orphans: Iterable[Found]) -> Iterator[Lost]:
    for found in orphans:
        account = found.chief.account
        cluster = Cluster.everything.get(id=found.cluster)
        tenant = _tenant_of(cluster, account)
        runs = [run for seen in found.objects for run in seen.runs]
        for run in runs if tenant else ():
            flavor = _flavor_of(cluster, run)
            if flavor and tenant and run.gpus and run.end_ms is not None:
                yield Lost(found.fence, account, cluster, tenant, flavor, run)


def _tenant_of(cluster: Cluster, account: str) -> Tenant | None:
    """The one tenant to which the people behind an account may submit; None if it is not one."""
    people = ClusterAccount.objects.filter(cluster=cluster, account=account).values("user")
    found = Membership.objects.filter(user__in=people, role__in=(Role.SUBMITTER, Role.OWNER))
    tenants = {row.tenant for row in found.select_related("tenant")}
    return tenants.pop() if len(tenants) == 1 else None


def _flavor_of(cluster: Cluster, run: Run) -> str | None:
    devices = Node.objects.filter(cluster=cluster, name__in=run.nodes).values("device")
    served = ClusterFlavor.objects.filter(cluster=cluster, device__in=devices)
    return served.values_list("flavor_id", flat=True).first()


def _owed(lost: Lost, book: PriceBook) -> tuple[int, int, str] | None:
    """Amount, GPU time and currency by the class that costs least; None without a price."""
    amounts = []
    for service_class in ServiceClass:
        usage = Usage(
            flavor=lost.flavor,
            service_class=service_class.value,
            gpus=lost.run.gpus,
            start_ms=lost.run.start_ms,
            end_ms=lost.run.end_ms or lost.run.start_ms,
            cluster=lost.cluster.id,
            lineage=tuple(lost.tenant.lineage),
            skew_ms=lost.cluster.clock_skew_ms,
        )
        pieces = rate(usage, book)
        rated = [piece for piece in pieces if isinstance(piece, RatedPiece)]
        if rated and len(rated) == len(pieces):
            amounts.append((sum(piece.amount_nano for piece in rated), usage))
    if not amounts or not (cheapest := min(amounts, key=lambda pair: pair[0]))[0]:
        return None
    usage = cheapest[1]
    gpu_ms = usage.gpus * (usage.end_ms - usage.start_ms)
    return cheapest[0], gpu_ms, book.currency or ""

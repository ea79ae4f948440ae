"""Quotas beside what is there: used, borrowed, lent and waiting, and the clusters' real capacity."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import F, IntegerField, Sum
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

from clusters.core.observation import NodeState
from clusters.models import Cluster, ClusterFlavor, Node
from federation.core.reclaim import place_of
from federation.models import Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.selectors.holdings import holdings
from federation.selectors.snapshot import WAITING
from kit.intervals import from_ms, to_ms
from quotas.core.borrowing import Attribution, Borrower, attribute
from quotas.core.cohort import SPOT, Cohort, QuotaRow, Use
from quotas.core.grants import rows_at
from quotas.selectors import grants_from, quota_policy, rows_as_set
from tenancy.models import Tenant

Lineages = Mapping[UUID, tuple[UUID, ...]]
Place = tuple[str, UUID | None]  # a flavor in one cluster, None = in all of them


@dataclass(frozen=True, slots=True)
class Capacity:
    """GPUs of a flavor in one cluster: all, and those that are up and carry no foreign load."""

    gpus: int = 0
    usable: int = 0

    def __add__(self, other: "Capacity") -> "Capacity":
        return Capacity(self.gpus + other.gpus, self.usable + other.usable)


@dataclass(frozen=True, slots=True)
class Victim:
    """A spot gang. `lost_gpu_ms`: GPU time since its newest checkpoint, or its start."""

    job: UUID
    name: str
    tenant: UUID
    cluster: str
    gpus: int
    lost_gpu_ms: int
    saved_at: datetime | None


@dataclass(frozen=True)
class FlavorSums:
    """One flavor: `guaranteed` is what the topmost rows are owed now, grants counted."""

    flavor: str
    capacity: Capacity
    guaranteed: int
    attribution: Attribution
    victims: tuple[Victim, ...]

    @property
    def overcommitted(self) -> int:
        """GPUs that are promised and not there."""
        return max(self.guaranteed - self.capacity.gpus, 0)

    @property
    def uncommitted(self) -> int:
        """GPUs that are there and promised to nobody."""
        return max(self.capacity.gpus - self.guaranteed, 0)


@dataclass(frozen=True)
class Standing:
    """All quotas as they stand. Sums of a row count its whole subtree, in its place."""

    flavors: Mapping[str, FlavorSums]
    paths: Mapping[UUID, str]
    lineages: Lineages
    rows: Mapping[tuple[UUID, str, UUID | None], QuotaRow]
    _cohort: Cohort
    _waiting: Mapping[tuple[UUID, str], int]

    def used(self, row: QuotaRow, service_class: str) -> int:
        """GPUs that the row's subtree uses of a class."""
        return self._cohort.used(row, service_class)

    def waiting(self, row: QuotaRow) -> int:
        """GPUs that the subtree's waiting jobs ask for, each by the flavor it likes best."""
        return sum(
            gpus
            for (tenant, flavor), gpus in self._waiting.items()
            if flavor == row.flavor and row.tenant in self.lineages[tenant]
        )

    def borrowed(self, row: QuotaRow) -> int:
        """GPUs that the subtree uses out of the guarantees of tenants outside of it."""
        return sum(
            gpus
            for one in self._borrowers(row)
            if row.tenant in self.lineages[one.tenant]
            for lender, gpus in one.lenders.items()
            if row.tenant not in self.lineages[lender]
        )

    def lent(self, row: QuotaRow) -> int:
        """GPUs of the subtree's idle guarantees that tenants outside of it use."""
        return sum(
            gpus
            for one in self._borrowers(row)
            if row.tenant not in self.lineages[one.tenant]
            for lender, gpus in one.lenders.items()
            if row.tenant in self.lineages[lender]
        )

    def _borrowers(self, row: QuotaRow) -> Iterable[Borrower]:
        sums = self.flavors.get(row.flavor)
        return sums.attribution.borrowers.values() if sums and row.cluster is None else ()


def standing(now: datetime) -> Standing:
    """Everything at once. 13 queries, whatever the number of tenants and jobs."""
    tenants = list(Tenant.objects.values_list("id", "path", "lineage"))
    lineages = {key: tuple(lineage) for key, _, lineage in tenants}
    rows = rows_at(rows_as_set(), grants_from(now), to_ms(now))
    uses = uses_now()
    cohort = Cohort(rows, lineages, uses)
    made = commitments(rows, lineages)
    victims = _victims(now)
    names = {name for name, _ in (*made.promised, *made.capacity)} | {use.flavor for use in uses}
    flavors = {
        name: _flavor_sums(name, cohort, uses, lineages, made, victims.get(name, ()))
        for name in sorted(names)
    }
    places = {(row.tenant, row.flavor, row.cluster): row for row in rows}
    paths = {key: path for key, path, _ in tenants}
    return Standing(flavors, paths, lineages, places, cohort, _waiting())


@dataclass(frozen=True)
class Commitments:
    """What is promised in each place (flavor, cluster; None = all), and what there is."""

    promised: Mapping[Place, int]
    capacity: Mapping[Place, Capacity]

    def overcommitted(self, flavor: str, cluster: UUID | None) -> int:
        """GPUs promised there by topmost rows that the clusters do not have."""
        there = self.capacity.get((flavor, cluster), Capacity()).gpus
        return max(self.promised.get((flavor, cluster), 0) - there, 0)

    def warnings(self, names: Mapping[UUID, str]) -> list[str]:
        """Every place where more is promised than there is, in words. `names` are clusters'."""
        return [
            f"{self.promised[flavor, cluster]} {flavor} GPUs are guaranteed"
            f"{' on ' + names[cluster] if cluster else ''}, "
            f"{self.capacity.get((flavor, cluster), Capacity()).gpus} are there."
            for flavor, cluster in sorted(self.promised, key=str)
            if self.overcommitted(flavor, cluster)
        ]


def commitments(rows: Iterable[QuotaRow], lineages: Lineages) -> Commitments:
    """What the rows promise beside what there is. 2 queries."""
    by_place: dict[Place, dict[UUID, QuotaRow]] = {}
    for row in rows:
        by_place.setdefault((row.flavor, row.cluster), {})[row.tenant] = row
    promised = {place: _topmost(held, lineages) for place, held in by_place.items()}
    return Commitments(promised, _capacity())


def commitments_now(rows: Sequence[QuotaRow], now: datetime) -> Commitments:
    """As `commitments`, of rows as they are set, with the grants of now."""
    lineages = {key: tuple(line) for key, line in Tenant.objects.values_list("id", "lineage")}
    return commitments(rows_at(rows, grants_from(now), to_ms(now)), lineages)


def _flavor_sums(
    name: str,
    cohort: Cohort,
    uses: Sequence[Use],
    lineages: Lineages,
    made: Commitments,
    victims: Sequence[Victim],
) -> FlavorSums:
    spot: Counter[UUID] = Counter()
    owned = 0
    for use in uses:
        if use.flavor == name and use.service_class == SPOT:
            spot[use.tenant] += use.gpus
        elif use.flavor == name:
            owned += use.gpus
    promised = made.promised.get((name, None), 0)
    there = made.capacity.get((name, None), Capacity())
    unowned = max(there.usable - max(promised, owned), 0)
    found = attribute(cohort.idle_guarantees(name), spot, lineages, unowned)
    return FlavorSums(name, there, promised, found, tuple(victims))


def _topmost(held: Mapping[UUID, QuotaRow], lineages: Lineages) -> int:
    """What those of the rows of one place are guaranteed that have none above them."""
    return sum(
        row.guaranteed
        for row in held.values()
        if not any(above in held for above in lineages[row.tenant][:-1])
    )


def uses_now() -> list[Use]:
    """GPUs of open attempts, summed by tenant, flavor, cluster and class. One query."""
    gpus: Counter[tuple[UUID, str, UUID, str]] = Counter()
    for tenant, flavor, cluster, service_class, nodes, per_node in OPEN_ATTEMPTS.values_list(
        "job__tenant_id", "flavor_id", "cluster_id", "service_class", "nodes", "gpus_per_node"
    ):
        gpus[tenant, flavor, cluster, service_class] += len(nodes) * per_node
    return [Use(*place, total) for place, total in sorted(gpus.items())]


def _capacity() -> dict[Place, Capacity]:
    """What the clusters that are members have of each flavor, each and together. 2 queries."""
    sums: dict[tuple[UUID, str], Capacity] = {}
    nodes = Node.objects.values_list("cluster_id", "device", "state").order_by()
    for cluster, device, state, gpus, foreign in nodes.annotate(Sum("gpus"), Sum("foreign_gpus")):
        usable = max(gpus - foreign, 0) if state == NodeState.UP else 0
        held = sums.get((cluster, device), Capacity())
        sums[cluster, device] = held + Capacity(gpus, usable)
    found: dict[Place, Capacity] = {}
    named = ClusterFlavor.objects.exclude(cluster__state=Cluster.State.GONE)
    for cluster, flavor, device in named.values_list("cluster_id", "flavor_id", "device"):
        here = sums.get((cluster, device), Capacity())
        for place in ((flavor, cluster), (flavor, None)):
            found[place] = found.get(place, Capacity()) + here
    return found


def _waiting() -> dict[tuple[UUID, str], int]:
    """GPUs that waiting jobs ask for, by tenant and the flavor they name first. One query."""
    first = KeyTransform(0, "options")
    number = {
        name: Cast(KeyTextTransform(name, first), IntegerField())
        for name in ("nodes", "gpus_per_node")
    }
    rows = (
        WAITING.order_by()
        .annotate(flavor=KeyTextTransform("flavor", first), **number)
        .values_list("tenant_id", "flavor")
        .annotate(total=Sum(F("nodes") * F("gpus_per_node")))
    )
    return {(tenant, flavor): total or 0 for tenant, flavor, total in rows}


def _victims(now: datetime) -> dict[str, list[Victim]]:
    """Spot gangs by flavor, in the order in which they would be evicted. 5 queries."""
    policy, now_ms = quota_policy(), to_ms(now)
    held = [one for one in holdings(now) if one.service_class == SPOT and one.is_evictable]
    held.sort(key=lambda one: place_of(one, policy, now_ms))
    jobs = {
        row["id"]: row
        for row in Job.objects.filter(id__in=[one.job for one in held]).values("id", "uuid", "name")
    }
    clusters = dict(Cluster.objects.values_list("id", "name"))
    found: dict[str, list[Victim]] = {}
    for one in held:
        victim = Victim(
            job=jobs[one.job]["uuid"],
            name=jobs[one.job]["name"],
            tenant=one.tenant,
            cluster=clusters[one.cluster],
            gpus=one.gpus,
            lost_gpu_ms=one.lost_work(now_ms),
            saved_at=None if one.saved_ms is None else from_ms(one.saved_ms),
        )
        found.setdefault(one.flavor, []).append(victim)
    return found

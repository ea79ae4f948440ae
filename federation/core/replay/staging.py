"""From a trace, a table of quotas and a fleet in words to a workload and its setting.

Only GPUs count here: a member needs a CPU a GPU, and every node has one for each of its GPUs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from accounting.core.rating import PriceBook, PriceEntry
from clusters.core.resources import GangShape, NodeShape
from clusters.core.topology import NodeRoom
from federation.core.replay.trace import UNKNOWN, TraceRow
from federation.core.replay.workload import NAMES, SOMEBODY, TICK_MS, PastJob, Setting
from federation.core.snapshot import Ask, ClusterState, ClusterView, FlavorView, Option, TenantView
from kit.intervals import DAY_MS
from quotas.core.cohort import GUARANTEED, SPOT, QuotaRow
from quotas.core.policy import Policy
from quotas.core.table import TableProblem, TableRow
from quotas.core.tree import misfits

CLASSES = {"strict": GUARANTEED, "soft": "auto", "best": SPOT}
NODE_GPUS, LEAF_NODES = 8, 16
LONGEST_MS = 30 * DAY_MS
NANO = 1_000_000_000
_CLUSTER = re.compile(r"([a-z0-9-]{1,63}):([a-z0-9.-]{1,63}):([1-9][0-9]{0,4})x([1-9][0-9]{0,2})")


@dataclass(frozen=True, slots=True)
class ClusterWords:
    """A cluster of so many equal nodes, sixteen a leaf."""

    name: str
    flavor: str
    nodes: int
    gpus: int


@dataclass(frozen=True)
class Choices:
    """What the trace does not say.

    `classes` by the trace's own names, `other_class` for the rest. Jobs of `flavor` where the trace
    names none. With `interval_ms` every job saves so often and has `grace_ms` when evicted.
    Prices are nano-units per GPU-hour by class.
    """

    flavor: str
    by_user: bool = False
    classes: Mapping[str, str] = field(default_factory=lambda: dict(CLASSES))
    other_class: str = "auto"
    interval_ms: int | None = None
    grace_ms: int = 0
    prices: Mapping[str, int] = field(default_factory=lambda: {GUARANTEED: 2 * NANO, SPOT: NANO})
    currency: str = "USD"
    tick_ms: int = TICK_MS
    policy: Policy = field(default_factory=Policy)


def uid(name: str) -> UUID:
    """The id of a tenant (by path) or a cluster (by name) in replays."""
    return uuid5(NAMES, name)


def parse_cluster(words: str) -> ClusterWords | None:
    """`NAME:FLAVOR:NODESxGPUS`, or None."""
    found = _CLUSTER.fullmatch(words)
    return found and ClusterWords(found[1], found[2], int(found[3]), int(found[4]))


def enough_for(quotas: Iterable[TableRow]) -> list[ClusterWords]:
    """A cluster a flavor, with as many nodes of eight GPUs as the topmost guarantees need."""
    rows = [row for row in quotas if row.cluster is None]
    paths = {(row.tenant, row.flavor) for row in rows}
    gpus: dict[str, int] = {}
    for row in rows:
        above = row.tenant.split("/")[:-1]
        parents = ("/".join(above[: depth + 1]) for depth in range(len(above)))
        if not any((parent, row.flavor) in paths for parent in parents):
            gpus[row.flavor] = gpus.get(row.flavor, 0) + row.guaranteed
    return [
        ClusterWords(flavor, flavor, -(-total // NODE_GPUS), NODE_GPUS)
        for flavor, total in sorted(gpus.items())
        if total
    ]


def stage(
    quotas: Sequence[TableRow], fleet: Sequence[ClusterWords], paths: Iterable[str], told: Choices
) -> Setting | list[TableProblem]:
    """The federation of a table of quotas; `paths` are tenants that have jobs. Or what is wrong."""
    problems = list(_wrong_places(quotas, {cluster.name for cluster in fleet}))
    if problems:
        return problems
    tenants = _tenants([*(row.tenant for row in quotas), *paths])
    rows = [_quota(row) for row in quotas]
    numbers = {(row.tenant, row.flavor, row.cluster): row.number for row in quotas}
    by_id = {uid(row.tenant): row.tenant for row in quotas}
    names = {uid(cluster.name): cluster.name for cluster in fleet}
    lineages = {tenant.id: tenant.lineage for tenant in tenants}
    for wrong in misfits(rows, lineages):
        row = wrong.row
        place = (by_id[row.tenant], row.flavor, names[row.cluster] if row.cluster else None)
        claims = ", ".join(sorted({by_id[claim.tenant] for claim in wrong.claims}))
        words = f"{claims} together are guaranteed {wrong.claimed}, more than {row.guaranteed}."
        problems.append(TableProblem(numbers[place], "guaranteed", "children_exceed", words))
    if problems:
        return problems
    return Setting(
        clusters=tuple(map(_cluster, fleet)),
        tenants=tenants,
        quotas=tuple(rows),
        prices=PriceBook(
            PriceEntry(number, flavor, name, None, None, told.prices[name], told.currency, 0)
            for number, (flavor, name) in enumerate(
                (flavor, name)
                for flavor in sorted({cluster.flavor for cluster in fleet})
                for name in (GUARANTEED, SPOT)
            )
        ),
        policy=told.policy,
        tick_ms=told.tick_ms,
    )


def _wrong_places(quotas: Iterable[TableRow], known: set[str]) -> Iterable[TableProblem]:
    for row in quotas:
        if row.cluster is not None and row.cluster not in known:
            words = f"There is no cluster {row.cluster} in this fleet."
            yield TableProblem(row.number, "cluster", "unknown", words)
        if row.guaranteed < 0 or row.weight < 1:
            words = "Guarantees are 0 or more, weights 1 or more."
            yield TableProblem(row.number, "guaranteed", "out_of_range", words)


def _tenants(paths: Iterable[str]) -> tuple[TenantView, ...]:
    known: dict[str, TenantView] = {}
    for path in paths:
        lineage: tuple[UUID, ...] = ()
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            lineage = (*lineage, uid(here))
            known.setdefault(here, TenantView(uid(here), here, lineage))
    return tuple(known.values())


def _quota(row: TableRow) -> QuotaRow:
    return QuotaRow(
        tenant=uid(row.tenant),
        flavor=row.flavor,
        cluster=None if row.cluster is None else uid(row.cluster),
        guaranteed=row.guaranteed,
        borrowing_limit=row.borrowing_limit,
        lending_limit=row.lending_limit,
        weight=row.weight,
    )


def _cluster(words: ClusterWords) -> ClusterView:
    total = NodeShape(words.gpus, words.gpus, 0)
    nodes = tuple(
        NodeRoom(f"n{number}", (("leaf", f"l{number // LEAF_NODES}"),), total, total)
        for number in range(words.nodes)
    )
    return ClusterView(
        id=uid(words.name),
        name=words.name,
        revision=1,
        state=ClusterState.OPEN,
        flavors=(FlavorView(words.flavor, words.flavor, nodes),),
        people=frozenset({SOMEBODY}),
    )


def tenant_paths(names: Iterable[str], quotas: Iterable[TableRow]) -> dict[str, str]:
    """For each tenant of the trace its path in the table: the same, or the only one that ends so.

    `_` and `-` are alike. A tenant that the table does not name keeps its name, and has no quota.
    """
    by_name: dict[str, set[str]] = {}
    for row in quotas:
        for name in (row.tenant, row.tenant.rpartition("/")[2]):
            by_name.setdefault(name.replace("_", "-"), set()).add(row.tenant)
    found = {}
    for name in names:
        paths = by_name.get(name.replace("_", "-"), set())
        found[name] = next(iter(paths)) if len(paths) == 1 else name
    return found


def workload(
    rows: Iterable[TraceRow], paths: Mapping[str, str], node_gpus: int, told: Choices
) -> list[PastJob]:
    """The jobs of a trace. Equal asks are one value. A run of no time counts as one second."""
    asks: dict[tuple[str, int, int, int], Ask] = {}
    jobs = []
    for row in rows:
        limit_ms = LONGEST_MS if row.walltime_s == UNKNOWN else row.walltime_s * 1000
        nodes, gpus = _gang(row, node_gpus)
        key = (row.gpu_type or told.flavor, nodes, gpus, limit_ms)
        ask = asks.get(key)
        if ask is None:
            shape = GangShape(nodes, NodeShape(gpus, gpus, 0), False)
            ask = asks[key] = Ask((Option(key[0], shape),), limit_ms)
        jobs.append(
            PastJob(
                id=row.number,
                arrival_ms=row.submit_s * 1000,
                tenant=uid(paths[tenant_of(row, told)]),
                ask=ask,
                run_ms=max(row.duration_s, 1) * 1000,
                wanted_class=told.classes.get(row.klass, told.other_class),
                interval_ms=told.interval_ms,
                grace_ms=told.grace_ms,
            )
        )
    return jobs


def tenant_of(row: TraceRow, told: Choices) -> str:
    """Whose the job is: its tenant's, or its user's."""
    name = row.user if told.by_user else row.tenant
    return name if name not in ("", "-1") else "nobody"


def _gang(row: TraceRow, node_gpus: int) -> tuple[int, int]:
    """Nodes and GPUs of each: as the trace says, else as few nodes as hold them."""
    nodes = row.nodes if row.nodes > 0 else -(-row.gpus // node_gpus)
    per_node = row.gpus_per_node if row.gpus_per_node > 0 else -(-row.gpus // nodes)
    return nodes, per_node

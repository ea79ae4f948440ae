"""Small snapshots by name: tenants are paths, clusters and nodes are names, GPUs are the unit."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID, uuid5

from accounting.core.rating import PriceBook, PriceEntry
from clusters.core.resources import GangShape, NodeShape
from clusters.core.topology import NodeRoom
from federation.core.plan import Plan
from federation.core.snapshot import (
    Ask,
    ClusterState,
    ClusterView,
    FlavorView,
    Option,
    Snapshot,
    TenantView,
    WaitingJob,
)
from quotas.core.cohort import QuotaRow, Use

SPACE = UUID(int=7)
MIA = uuid5(SPACE, "mia")
NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
GPUS = 8
FULL = NodeShape(GPUS, GPUS * 8, GPUS * 100)


def uid(name: str) -> UUID:
    return uuid5(SPACE, name)


def need(gpus: int) -> NodeShape:
    return NodeShape(gpus, gpus * 8, gpus * 100)


def node(name: str, leaf: str = "l1", free: int = GPUS, *, up: bool = True) -> NodeRoom:
    return NodeRoom(name, (("leaf", leaf),), FULL, need(free), up)


def nodes(count: int, leaf_size: int = 2) -> tuple[NodeRoom, ...]:
    """Nodes n1, n2 ... in leaves l1, l2 ... of so many."""
    return tuple(node(f"n{i + 1}", f"l{i // leaf_size + 1}") for i in range(count))


def cluster(name: str, flavors: Mapping[str, Iterable[NodeRoom]], **changes: object) -> ClusterView:
    view = ClusterView(
        id=uid(name),
        name=name,
        revision=1,
        state=ClusterState.OPEN,
        flavors=tuple(FlavorView(f, f, tuple(rooms)) for f, rooms in flavors.items()),
        people=frozenset({MIA}),
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def job(
    number: int,
    gang: str = "1x8",
    *,
    tenant: str = "acme",
    flavors: str = "h100",
    wanted: str = "auto",
    priority: int = 500,
    age: int = 0,
    user: UUID = MIA,
    not_before_ms: int | None = None,
    exclusive: bool = False,
    **ask: object,
) -> WaitingJob:
    """`gang` is nodes x GPUs of each; `age` in seconds, older is larger."""
    count, gpus = map(int, gang.split("x"))
    options = tuple(
        Option(flavor, GangShape(count, need(gpus), exclusive)) for flavor in flavors.split()
    )
    return WaitingJob(
        id=number,
        version=1,
        tenant=uid(tenant),
        user=user,
        wanted_class=wanted,
        priority=priority,
        queued_ms=NOW_MS - age * 1000,
        attempts_made=0,
        ask=Ask(options, HOUR_MS, **ask),  # type: ignore[arg-type]
        not_before_ms=not_before_ms,
    )


def tenants(*paths: str) -> tuple[TenantView, ...]:
    """The tenants of the paths and all above them."""
    known: dict[str, TenantView] = {}
    for path in paths:
        lineage: tuple[UUID, ...] = ()
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            lineage = (*lineage, uid(here))
            known[here] = TenantView(uid(here), here, lineage)
    return tuple(known.values())


def quota(
    tenant: str,
    guaranteed: int,
    borrowing: int | None = None,
    flavor: str = "h100",
    on: str | None = None,
) -> QuotaRow:
    return QuotaRow(uid(tenant), flavor, uid(on) if on else None, guaranteed, borrowing)


def use(tenant: str, gpus: int, service_class: str, flavor: str = "h100", on: str = "c1") -> Use:
    return Use(uid(tenant), flavor, uid(on), service_class, gpus)


def prices(**nano: int) -> PriceBook:
    """One price a flavor, the same for both classes; `h100=5`."""
    return PriceBook(
        PriceEntry(number, flavor, service_class, None, None, price, "USD", 0)
        for number, (flavor, price) in enumerate(nano.items())
        for service_class in ("guaranteed", "spot")
    )


def snapshot(
    jobs: Iterable[WaitingJob], clusters: Iterable[ClusterView], **changes: object
) -> Snapshot:
    """By default: tenants acme and beta with 1000 GPUs each, and prices for h100 and a100."""
    base = Snapshot(
        now_ms=NOW_MS,
        jobs=tuple(jobs),
        clusters=tuple(clusters),
        tenants=tenants("acme", "beta"),
        quotas=tuple(quota(t, 1000, None, f) for t in ("acme", "beta") for f in ("h100", "a100")),
        prices=prices(h100=5, a100=3),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def placed(plan: Plan) -> dict[int, str]:
    """By job: `cluster/flavor/class/tier: nodes`."""
    return {
        b.job: f"{b.cluster_name}/{b.flavor}/{b.service_class}/{b.tier}: {' '.join(b.nodes)}"
        for b in plan.bindings
    }


def told(plan: Plan) -> dict[int, list[tuple[str | None, str, int | None, int | None]]]:
    """By job: (cluster, code, needed, available) of each reason."""
    return {
        job_id: [(r.cluster, r.code, r.needed, r.available) for r in reasons]
        for job_id, reasons in plan.reasons.items()
    }


def after(before: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot that follows when the whole plan came true."""
    taken: dict[tuple[str, str], list[tuple[NodeShape, bool]]] = {}
    for b in plan.bindings:
        for name in b.nodes:
            taken.setdefault((b.cluster_name, name), []).append(
                (b.shape.per_node, b.shape.exclusive)
            )
    bound = {b.job for b in plan.bindings}

    def left(cluster_name: str, n: NodeRoom) -> NodeRoom:
        free = n.free
        for shape, exclusive in taken.get((cluster_name, n.name), ()):
            free = (
                NodeShape(0, 0, 0)
                if exclusive
                else NodeShape(
                    free.gpus - shape.gpus,
                    free.cpus - shape.cpus,
                    free.memory_mib - shape.memory_mib,
                )
            )
        return replace(n, free=free)

    return replace(
        before,
        jobs=tuple(j for j in before.jobs if j.id not in bound),
        clusters=tuple(
            replace(
                c,
                flavors=tuple(
                    replace(f, nodes=tuple(left(c.name, n) for n in f.nodes)) for f in c.flavors
                ),
            )
            for c in before.clusters
        ),
        uses=before.uses
        + tuple(
            Use(b.tenant, b.flavor, b.cluster, b.service_class, b.shape.gpus)
            for b in plan.bindings
        ),
    )  # fmt: skip

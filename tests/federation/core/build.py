"""Small snapshots by name: tenants are paths, clusters and nodes are names, GPUs are the unit."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID, uuid5

from accounting.core.rating import PriceBook, PriceEntry
from clusters.core.resources import GangShape, NodeShape, left_of
from clusters.core.topology import NodeRoom
from federation.core.plan import Plan
from federation.core.snapshot import (
    Ask,
    ClusterState,
    ClusterView,
    FlavorView,
    Holding,
    Option,
    Reservation,
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


def holding(
    number: int,
    nodes: str = "n1",
    gpus: int = GPUS,
    *,
    tenant: str = "beta",
    on: str = "c1",
    flavor: str = "h100",
    wanted: str = "",
    service_class: str = "spot",
    priority: int = 500,
    ran: int | None = 3600,
    saved: int | None = None,
    exclusive: bool = False,
    **more: object,
) -> Holding:
    """Job `number` on the nodes, so many GPUs of each.

    It started `ran` seconds ago (None = not yet), and last saved `saved` seconds ago (None = never).
    """
    names = tuple(nodes.split())
    return Holding(
        attempt=uid(f"attempt of {number}"),
        job=number,
        tenant=uid(tenant),
        priority=priority,
        cluster=uid(on),
        flavor=flavor,
        wanted_class=wanted or service_class,
        service_class=service_class,
        nodes=names,
        shape=GangShape(len(names), need(gpus), exclusive),
        since_ms=NOW_MS - (ran or 0) * 1000,
        is_running=ran is not None,
        started_ms=None if ran is None else NOW_MS - ran * 1000,
        saved_ms=None if saved is None else NOW_MS - saved * 1000,
        **more,  # type: ignore[arg-type]
    )


def reservation(
    number: int,
    nodes: str,
    gpus: int = GPUS,
    *,
    on: str = "c1",
    service_class: str = "guaranteed",
    exclusive: bool = False,
    left: int = 60,
) -> Reservation:
    """The nodes are kept for job `number` for `left` more seconds."""
    names = tuple(nodes.split())
    return Reservation(
        job=number,
        cluster=uid(on),
        flavor="h100",
        service_class=service_class,
        nodes=names,
        shape=GangShape(len(names), need(gpus), exclusive),
        claimed_ms=NOW_MS - 1000,
        deadline_ms=NOW_MS + left * 1000,
    )


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


def held(facts: Snapshot, holdings: Iterable[Holding], **changes: object) -> Snapshot:
    """The snapshot with these gangs: what is free of the nodes, and the uses, are their sums."""
    holdings = tuple(holdings)
    on: dict[tuple[UUID, str], list[GangShape]] = {}
    for one in holdings:
        for name in one.nodes:
            on.setdefault((one.cluster, name), []).append(one.shape)

    def left(c: ClusterView, n: NodeRoom) -> NodeRoom:
        free = left_of(n.total, n.foreign, on.get((c.id, n.name), ()))
        return n if free == n.free else replace(n, free=free)

    clusters = tuple(
        replace(
            c,
            flavors=tuple(replace(f, nodes=tuple(left(c, n) for n in f.nodes)) for f in c.flavors),
        )
        for c in facts.clusters
    )
    uses = tuple(one.use for one in holdings)
    return replace(facts, clusters=clusters, holdings=holdings, uses=uses, **changes)  # type: ignore[arg-type]


def then(before: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot that follows at the same moment: gangs are bound, nodes kept, victims told."""
    told = {victim.attempt: claim.binding.job for claim in plan.claims for victim in claim.victims}
    promoted = {one.attempt for one in plan.promotions}
    jobs = {one.id: one for one in before.jobs}
    bound = {b.job: b for b in plan.bindings}
    over = {*plan.released, *bound}
    new = (
        Holding(
            attempt=uid(f"attempt {b.number} of {b.job}"),
            job=b.job,
            tenant=b.tenant,
            priority=jobs[b.job].priority,
            cluster=b.cluster,
            flavor=b.flavor,
            wanted_class=jobs[b.job].wanted_class,
            service_class=b.service_class,
            nodes=b.nodes,
            shape=b.shape,
            since_ms=before.now_ms,
            is_running=False,
        )
        for b in plan.bindings
    )
    stay = (
        replace(
            one,
            leaves=one.leaves or one.attempt in told,
            goes_for=told.get(one.attempt, one.goes_for),
            service_class="guaranteed" if one.attempt in promoted else one.service_class,
        )
        for one in before.holdings
    )
    kept = (
        Reservation(
            job=c.binding.job,
            cluster=c.binding.cluster,
            flavor=c.binding.flavor,
            service_class=c.binding.service_class,
            nodes=c.binding.nodes,
            shape=c.binding.shape,
            claimed_ms=before.now_ms,
            deadline_ms=c.deadline_ms,
        )
        for c in plan.claims
    )
    return held(
        replace(before, jobs=tuple(one for one in before.jobs if one.id not in bound)),
        (*stay, *new),
        reservations=(*(one for one in before.reservations if one.job not in over), *kept),
    )


def emptied(facts: Snapshot) -> Snapshot:
    """The snapshot when all who leave are gone."""
    return held(facts, (one for one in facts.holdings if not one.goes))


def claimed(plan: Plan) -> dict[int, str]:
    """By job: `cluster: nodes < victims`."""
    return {
        c.binding.job: f"{c.binding.cluster_name}: {' '.join(c.binding.nodes)} < "
        + " ".join(str(victim.job) for victim in c.victims)
        for c in plan.claims
    }


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

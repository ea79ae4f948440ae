"""Makes a plan true: attempts, orders and events for what it binds, reasons for what waits.

A binding stands or falls by itself: it is written when its job, cluster, tenants and quotas are
still as the plan saw them, else it is stale and the next cycle decides anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Subquery

from clusters.core.gang import Gang
from clusters.models import Cluster, ClusterAccount, Command
from federation.core.lifecycle import JobState
from federation.core.plan import Binding, Claim, Plan
from federation.models import ArbiterTerm, Attempt, Decision, Job, Telling
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.services.evict import claim, release
from federation.services.gang import gang_of
from federation.services.promote import promote
from federation.services.reasons import Memory, Said, tell
from federation.services.revisions import Revisions, lock_quotas, quotas_as_seen
from kit.bulk import among, insert_rows
from kit.ids import attempt_id
from tenancy.models import Tenant
from tenancy.services.records import Change, write_events

_OPEN = OPEN_ATTEMPTS.filter(job=OuterRef("pk"))
_PROVEN = Attempt.objects.filter(job=OuterRef("pk")).exclude(saved_step=None)
_SAVED_PATH = _PROVEN.order_by("-number").values("saved_path")[:1]


class TermLostError(RuntimeError):
    """Another arbiter leads now: this one's plans must not be written."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What came of a plan: bindings, stale ones, reasons, promotions, claims; clusters with orders.

    `jobs` are those that were bound.
    """

    bound: int
    stale: int
    told: int
    clusters: tuple[UUID, ...]
    promoted: int = 0
    claimed: int = 0
    jobs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Facts:
    """The rows that bindings depend on, locked, as they are at commit."""

    jobs: Mapping[int, Mapping[str, Any]]
    clusters: Mapping[UUID, Mapping[str, Any]]
    tenants: Mapping[UUID, tuple[bool, int]]
    quotas: Revisions
    accounts: Mapping[tuple[UUID, UUID], ClusterAccount]


@dataclass(frozen=True, slots=True)
class _Order:
    """A binding with its new attempt's id and fence, and what the backend is told."""

    binding: Binding
    job: Mapping[str, Any]
    attempt_id: UUID
    gang: Gang


@transaction.atomic
def begin_term(*, now: datetime) -> int:
    """Starts a leader's term: the new epoch, above every earlier one."""
    ArbiterTerm.objects.get_or_create(id=1)
    ArbiterTerm.objects.filter(id=1).update(epoch=F("epoch") + 1, cycled_at=now, told_at=None)
    return ArbiterTerm.objects.get(id=1).epoch


def commit_plan(
    *, plan: Plan, epoch: int, now: datetime, took_ms: int = 0, memory: Memory | None = None
) -> Committed:
    """Writes a plan, in four transactions: what it binds, promotes, claims, and tells.

    The number of statements does not depend on the number of jobs. `took_ms` is how long deciding
    took, for the record. `memory` is what one who commits plans over and over told in this term.

    Raises:
        TermLostError: the epoch is no longer the current one; nothing more was written.
    """
    orders: list[_Order] = []
    stale: list[dict[str, str | int]] = []
    if plan.bindings:
        orders, stale = _bind(plan, epoch=epoch, now=now, took_ms=took_ms)
    promoted = _promote(plan, epoch=epoch, now=now) if plan.promotions else 0
    claims = _claim(plan, epoch=epoch, now=now) if plan.claims or plan.released else ()
    memory = memory or Memory()
    told = _tell(plan, memory, epoch=epoch, now=now)
    memory.keep(told)
    ordered = {order.binding.cluster for order in orders} | {c.binding.cluster for c in claims}
    clusters = tuple(sorted(ordered))
    jobs = tuple(order.binding.job for order in orders)
    return Committed(len(orders), len(stale), len(told), clusters, promoted, len(claims), jobs)


@transaction.atomic
def _bind(
    plan: Plan, *, epoch: int, now: datetime, took_ms: int
) -> tuple[list[_Order], list[dict[str, str | int]]]:
    """Writes the bindings that still hold; they, and the stale ones with what changed."""
    _require_epoch(epoch)
    facts = _lock_facts(plan)
    orders, stale = _sort_out(plan, facts)
    _write_orders(orders, now)
    _write_decision(plan, orders, stale, epoch=epoch, now=now, took_ms=took_ms)
    return orders, stale


@transaction.atomic
def _promote(plan: Plan, *, epoch: int, now: datetime) -> int:
    """Writes the promotions that still hold; how many."""
    _require_epoch(epoch)
    return promote(plan=plan, now=now)


@transaction.atomic
def _claim(plan: Plan, *, epoch: int, now: datetime) -> tuple[Claim, ...]:
    """Writes the claims that still hold, gives back what is not kept any more; the claims."""
    _require_epoch(epoch)
    claims = claim(plan=plan, now=now)
    release(jobs=plan.released, now=now)
    return claims


@transaction.atomic
def _tell(plan: Plan, memory: Memory, *, epoch: int, now: datetime) -> Mapping[int, Said]:
    """Writes the reasons that changed and the order of the queue; who was told what."""
    return tell(plan=plan, memory=memory, last=_require_epoch(epoch), now=now)


def _require_epoch(epoch: int) -> datetime | None:
    """Locks the term's row; when the queue was told last in this term."""
    terms = ArbiterTerm.objects.select_for_update(no_key=True)
    current, told_at = terms.values_list("epoch", "told_at").get(id=1)
    if current != epoch:
        raise TermLostError(f"Epoch {epoch} is over; the current one is {current}.")
    return told_at


def _lock_facts(plan: Plan) -> _Facts:
    """Locks and reads what the bindings depend on: clusters, tenants, quotas, then jobs."""
    bindings = plan.bindings
    cluster_ids = {binding.cluster for binding in bindings}
    lineages = {tenant.id: tenant.lineage for tenant in plan.basis.tenants}
    tenant_ids = {ancestor for binding in bindings for ancestor in lineages[binding.tenant]}
    clusters = (
        Cluster.objects.filter(id__in=cluster_ids)
        .order_by("id")
        .select_for_update(no_key=True)
        .values("id", "revision", "state", "options")
    )
    tenants = (
        Tenant.objects.filter(id__in=tenant_ids)
        .order_by("id")
        .select_for_update(no_key=True)
        .values_list("id", "is_open", "revision")
    )
    accounts = ClusterAccount.objects.filter(
        cluster__in=cluster_ids, user__in={binding.user for binding in bindings}
    )
    jobs = (
        Job.objects.filter(id__in=among((binding.job for binding in bindings), "bigint"))
        .order_by("id")
        .select_for_update(no_key=True, of=("self",))
        .annotate(has_open_attempt=Exists(_OPEN), saved_path=Subquery(_SAVED_PATH))
        .values("id", "uuid", "version", "state", "cancel_asked_at", "name", "tenant_id", "spec",
                "tenant__path", "has_open_attempt", "saved_step", "saved_path")
    )  # fmt: skip
    return _Facts(
        clusters={row["id"]: row for row in clusters},
        tenants={key: (is_open, revision) for key, is_open, revision in tenants},
        quotas=lock_quotas(tenant_ids),
        accounts={(row.cluster_id, row.user_id): row for row in accounts},
        jobs={row["id"]: row for row in jobs},
    )


def _sort_out(plan: Plan, facts: _Facts) -> tuple[list[_Order], list[dict[str, str | int]]]:
    """The bindings that still hold, as orders, and the stale ones with what changed."""
    changed = _changes(plan, facts)
    orders: list[_Order] = []
    stale: list[dict[str, str | int]] = []
    for binding in plan.bindings:
        what = changed(binding)
        if what:
            stale.append({"job": binding.job, "changed": what})
        else:
            orders.append(_order(binding, facts))
    return orders, stale


def _changes(plan: Plan, facts: _Facts) -> Callable[[Binding], str]:
    """A function that names what changed under a binding since the snapshot, "" = nothing."""
    basis = plan.basis
    clusters = {cluster.id: cluster.revision for cluster in basis.clusters}
    tenants = {tenant.id: tenant for tenant in basis.tenants}
    quotas_hold = quotas_as_seen(plan, facts.quotas)

    def changed(binding: Binding) -> str:
        lineage = tenants[binding.tenant].lineage
        job, cluster = facts.jobs.get(binding.job), facts.clusters.get(binding.cluster)
        if job is None or not _is_as_seen(job, binding):
            return "job"
        if (
            cluster is None
            or cluster["revision"] != clusters[binding.cluster]
            or cluster["state"] != Cluster.State.ACTIVE
        ):
            return "cluster"
        if (binding.cluster, binding.user) not in facts.accounts:
            return "account"
        if any(facts.tenants.get(t) != (True, tenants[t].revision) for t in lineage):
            return "tenant"
        if not quotas_hold(binding.tenant, binding.flavor, binding.cluster):
            return "quota"
        return ""

    return changed


def _is_as_seen(job: Mapping[str, Any], binding: Binding) -> bool:
    return (
        job["version"] == binding.version
        and job["state"] == JobState.QUEUED
        and job["cancel_asked_at"] is None
        and not job["has_open_attempt"]
    )


def _order(binding: Binding, facts: _Facts) -> _Order:
    job = facts.jobs[binding.job]
    gang = gang_of(
        binding,
        job,
        person=facts.accounts[binding.cluster, binding.user],
        options=facts.clusters[binding.cluster]["options"],
    )
    return _Order(binding, job, attempt_id(job["uuid"], binding.number), gang)


def _write_orders(orders: Sequence[_Order], now: datetime) -> None:
    if not orders:
        return
    insert_rows(Attempt, [_attempt_row(order, now) for order in orders])
    insert_rows(Command, [_command_row(order, now) for order in orders])
    bound = [order.binding.job for order in orders]
    release(jobs=bound, now=now)
    Telling.objects.filter(job__in=among(bound, "bigint")).delete()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE federation_job SET state = %s, class_now = bound.class, version = version + 1,"
            " attempts_made = bound.number"
            " FROM unnest(%s::bigint[], %s::text[], %s::int[]) AS bound(id, class, number)"
            " WHERE federation_job.id = bound.id",
            [
                JobState.DISPATCHING.value,
                bound,
                [order.binding.service_class for order in orders],
                [order.binding.number for order in orders],
            ],
        )
    write_events(changes=map(_bound_event, orders), now=now)


def _attempt_row(order: _Order, now: datetime) -> dict[str, Any]:
    binding, need = order.binding, order.binding.shape.per_node
    return {
        "id": order.attempt_id,
        "job_id": binding.job,
        "number": binding.number,
        "fence": order.gang.fence,
        "cluster_id": binding.cluster,
        "flavor_id": binding.flavor,
        "service_class": binding.service_class,
        "nodes": binding.nodes,
        "gpus_per_node": need.gpus,
        "cpus_per_node": need.cpus,
        "memory_mib_per_node": need.memory_mib,
        "exclusive": binding.shape.exclusive,
        "tier": binding.tier,
        "account": order.gang.account,
        "bound_at": now,
    }


def _command_row(order: _Order, now: datetime) -> dict[str, Any]:
    return {
        "key": f"submit:{order.attempt_id}",
        "cluster_id": order.binding.cluster,
        "kind": Command.Kind.SUBMIT.value,
        "fence": order.gang.fence,
        "payload": order.gang.to_json(),
        "created_at": now,
        "not_before": now,
    }


def _bound_event(order: _Order) -> Change:
    binding = order.binding
    return Change(
        kind="job.dispatching",
        subject=str(order.job["uuid"]),
        tenant_id=order.job["tenant_id"],
        cause="bound",
        data={**_summary(order), "nodes": list(binding.nodes), "fence": order.gang.fence},
    )


def _summary(order: _Order) -> dict[str, object]:
    binding = order.binding
    return {
        "cluster": binding.cluster_name,
        "flavor": binding.flavor,
        "class": binding.service_class,
        "attempt": binding.number,
        "gpus": binding.shape.gpus,
        "tier": binding.tier,
    }


def _write_decision(
    plan: Plan,
    orders: Sequence[_Order],
    stale: Sequence[Mapping[str, str | int]],
    *,
    epoch: int,
    now: datetime,
    took_ms: int,
) -> None:
    Decision.objects.create(
        at=now,
        epoch=epoch,
        waiting=len(plan.basis.jobs),
        bound=[{"job": str(order.job["uuid"]), **_summary(order)} for order in orders],
        stale=list(stale),
        took_ms=took_ms,
    )

"""Reclaim made true: nodes are kept for a job, gangs are told to go for it, and go.

A victim with a checkpoint is asked to save and has its grace; when it has proven that it did, or the
grace is over, it is stopped and queued again at its old place. When the nodes are kept no longer,
who was to leave them stays. Level-triggered: `tend_evictions` looks at the rows, every cycle.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from clusters.models import Cluster
from federation.core.departures import heir
from federation.core.lifecycle import JobState
from federation.core.plan import Claim, Plan
from federation.core.reconciliation import EVICTED, Cause
from federation.core.snapshot import Holding
from federation.models import Attempt, Job, Reservation
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.selectors.holdings import reservations
from federation.services.checkpoint import ask_checkpoint
from federation.services.revisions import lock_quotas, quotas_as_seen
from federation.services.stopping import stop_attempt
from kit.bulk import among, update_rows
from kit.intervals import from_ms, to_ms
from kit.reads import Fixed
from quotas.core.cohort import GUARANTEED, SPOT
from tenancy.models import Tenant
from tenancy.services.records import Change, ring, write_events

MOST_A_TURN = 500
_OPEN = OPEN_ATTEMPTS.filter(job=OuterRef("pk"))
_TOLD = OPEN_ATTEMPTS.filter(evict_asked_at__isnull=False, end_cause="").exclude(
    state=Attempt.State.LOST
)
_ANY_TOLD = Fixed(_TOLD.order_by().values_list("id")[:1])


def claim(*, plan: Plan, now: datetime) -> tuple[Claim, ...]:
    """Keeps nodes for the jobs of the claims that still hold and tells their victims to go.

    Inside the caller's transaction. A claim stands or falls whole: not if its job, cluster, tenants,
    quotas or one of its victims changed since the snapshot; the next cycle decides anew. The number of
    statements does not depend on the number of claims. Returns the claims that hold.
    """
    holds = _as_seen(plan)
    done = tuple(one for one in plan.claims if holds(one))
    Reservation.objects.bulk_create(
        Reservation(
            job_id=one.binding.job,
            cluster_id=one.binding.cluster,
            flavor_id=one.binding.flavor,
            service_class=one.binding.service_class,
            nodes=list(one.binding.nodes),
            claimed_at=now,
            deadline_at=from_ms(one.deadline_ms),
        )
        for one in done
    )
    _tell_victims([(held, one) for one in done for held in one.victims], now)
    _write_claims(done, plan, now)
    return done


def release(*, jobs: Collection[int], now: datetime) -> None:
    """Keeps nodes for these jobs no longer; who was to go for them and still runs, stays.

    Unless its nodes are kept for another job by now: it goes for that one then.
    """
    some = among(jobs, "bigint")
    Reservation.objects.filter(job__in=some).delete()
    told = list(_TOLD.filter(evict_for__in=some).select_related("job", "cluster"))
    if not told:
        return
    kept = sorted(reservations(), key=lambda one: (one.claimed_ms, one.job))
    heirs = [heir(one.cluster_id, one.nodes_seen or one.nodes, kept) for one in told]
    inherited = [
        {"id": attempt.id, "evict_for": job}
        for attempt, job in zip(told, heirs, strict=True)
        if job is not None
    ]
    update_rows(Attempt, inherited, ("evict_for",))
    spared = [attempt for attempt, job in zip(told, heirs, strict=True) if job is None]
    changes = [_change(attempt, "job.spared", attempt.evict_cause, {}) for attempt in spared]
    Attempt.objects.filter(id__in=[attempt.id for attempt in spared]).update(
        evict_for=None, evict_cause="", evict_asked_at=None, evict_by=None
    )
    write_events(changes=changes, now=now)


def _as_seen(plan: Plan) -> Callable[[Claim], bool]:
    """Locks what the claims depend on; a function that tells whether it is as planned on."""
    claims = plan.claims
    lineages = {tenant.id: tenant.lineage for tenant in plan.basis.tenants}
    seen = {cluster.id: cluster.revision for cluster in plan.basis.clusters}
    clusters = dict(
        Cluster.objects.filter(id__in={one.binding.cluster for one in claims})
        .filter(state=Cluster.State.ACTIVE)
        .order_by("id")
        .select_for_update(no_key=True)
        .values_list("id", "revision")
    )
    tenants = {above for one in claims for above in lineages[one.binding.tenant]}
    open_at = dict(
        Tenant.objects.filter(id__in=tenants, is_open=True)
        .order_by("id")
        .select_for_update(no_key=True)
        .values_list("id", "revision")
    )
    revisions = {tenant.id: tenant.revision for tenant in plan.basis.tenants}
    quotas_hold = quotas_as_seen(plan, lock_quotas(tenants))
    named = {one.binding.job for one in claims} | {v.job for one in claims for v in one.victims}
    jobs = {
        row["id"]: row
        for row in Job.objects.filter(id__in=named, cancel_asked_at=None, hold_asked_by="")
        .order_by("id")
        .select_for_update(no_key=True)
        .annotate(has_open_attempt=Exists(_OPEN))
        .values("id", "version", "state", "has_open_attempt")
    }
    victims = {held.attempt for one in claims for held in one.victims}
    living = set(
        OPEN_ATTEMPTS.filter(id__in=victims, end_cause="", evict_asked_at=None)
        .exclude(state__in=[Attempt.State.LOST, Attempt.State.STOPPING])
        .values_list("id", flat=True)
    )

    def holds(one: Claim) -> bool:
        binding, job = one.binding, jobs.get(one.binding.job)
        return (
            job is not None
            and (job["version"], job["state"]) == (binding.version, JobState.QUEUED)
            and not job["has_open_attempt"]
            and clusters.get(binding.cluster) == seen[binding.cluster]
            and all(open_at.get(t) == revisions[t] for t in lineages[binding.tenant])
            and quotas_hold(binding.tenant, binding.flavor, binding.cluster)
            and all(held.attempt in living and held.job in jobs for held in one.victims)
        )

    return holds


def _cause(held: Holding, claim: Claim) -> Cause:
    """An owner takes back what runs as spot; all else is outranked within its tenant."""
    is_owner = claim.binding.service_class == GUARANTEED
    return Cause.RECLAIMED if is_owner and held.service_class == SPOT else Cause.OUTRANKED


def _grace_ms(held: Holding) -> int | None:
    """The time it gets to save, None = it is not asked to: it has no checkpoint, or does not run."""
    return held.grace_ms if held.is_running else None


def _tell_victims(told: Sequence[tuple[Holding, Claim]], now: datetime) -> None:
    """Writes who is to go by when, and asks those that can to save first."""
    rows = [
        {
            "id": held.attempt,
            "evict_for": one.binding.job,
            "evict_cause": _cause(held, one),
            "evict_asked_at": now,
            "evict_by": now + timedelta(milliseconds=_grace_ms(held) or 0),
        }
        for held, one in told
    ]
    update_rows(Attempt, rows, ("evict_for", "evict_cause", "evict_asked_at", "evict_by"))
    for cause in sorted(EVICTED):
        can_save = [
            held.attempt
            for held, one in told
            if _cause(held, one) is cause and _grace_ms(held) is not None
        ]
        if can_save:
            ask_checkpoint(attempts=can_save, cause=cause, now=now)


def _write_claims(claims: Sequence[Claim], plan: Plan, now: datetime) -> None:
    names = {cluster.id: cluster.name for cluster in plan.basis.clusters}
    jobs = {one.binding.job for one in claims} | {h.job for one in claims for h in one.victims}
    known = {
        key: (str(uuid), tenant)
        for key, uuid, tenant in Job.objects.filter(id__in=jobs).values_list(
            "id", "uuid", "tenant_id"
        )
    }
    changes = []
    for one in claims:
        binding = one.binding
        data: dict[str, object] = {
            "cluster": binding.cluster_name,
            "flavor": binding.flavor,
            "nodes": list(binding.nodes),
            "gpus": binding.shape.gpus,
            "evicts": len(one.victims),
            "until": from_ms(one.deadline_ms).isoformat(),
        }
        subject, tenant = known[binding.job]
        changes.append(Change("job.claims", subject, tenant, "reclaim", data))
        for held in one.victims:
            subject, tenant = known[held.job]
            data = {"cluster": names[held.cluster], "grace_s": (_grace_ms(held) or 0) // 1000}
            changes.append(Change("job.evicting", subject, tenant, _cause(held, one).value, data))
    write_events(changes=changes, now=now)


@transaction.atomic
def tend_evictions(*, now: datetime) -> set[UUID]:
    """Stops those who were told to go and have saved, or had their grace; clusters with orders.

    One query when nobody was told to go.
    """
    if not _ANY_TOLD.rows():
        return set()
    due = _TOLD.filter(Q(evict_by__lte=now) | Q(saved_at__gte=F("evict_asked_at")))
    jobs = list(due.order_by("job_id").values_list("job_id", flat=True)[:MOST_A_TURN])
    if not jobs:
        return set()
    locked = Job.objects.filter(id__in=jobs).order_by("id").select_for_update(no_key=True)
    list(locked.values_list("id"))
    rows = due.filter(job__in=jobs).select_related("job", "cluster")
    attempts = list(rows.order_by("job_id"))
    write_events(changes=[_stop(attempt, now) for attempt in attempts], now=now)
    ring()
    return {attempt.cluster_id for attempt in attempts}


def _stop(attempt: Attempt, now: datetime) -> Change:
    """Orders its end; reconciliation queues the job again when it is proven over."""
    job = attempt.job
    stop_attempt(attempt=attempt, cause=attempt.evict_cause, now=now)
    job.state = JobState.STOPPING
    job.version += 1
    job.save(update_fields=["state", "version"])
    data = {"saved_step": attempt.saved_step, "lost_gpu_ms": lost_gpu_ms(attempt, now)}
    return _change(attempt, "job.stopping", attempt.end_cause, data)


def lost_gpu_ms(attempt: Attempt, now: datetime) -> int:
    """GPU-milliseconds of work that end with the attempt: since its last proof, else its start."""
    if attempt.started_at is None:
        return 0
    since_ms = max(to_ms(attempt.started_at), to_ms(attempt.saved_at) if attempt.saved_at else 0)
    return len(attempt.nodes) * attempt.gpus_per_node * max(0, to_ms(now) - since_ms)


def _change(attempt: Attempt, kind: str, cause: str, data: Mapping[str, object]) -> Change:
    job = attempt.job
    told = {"attempt": attempt.number, "cluster": attempt.cluster.name, **data}
    return Change(kind, str(job.uuid), job.tenant_id, cause, told)

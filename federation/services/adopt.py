"""After a restore to an older point: what the clusters really run becomes ours again.

Three steps, each safe to repeat: `begin` stops decisions and traffic, every cluster is recalled
(`clusters.services.recall`), `adopt` makes rows of what they show and lets reconciliation judge
them as it judges everything. So a recovered job is billed, ended and shown by the usual rules.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from accounting.services.usage import forget_open
from clusters.core.domains import shared_tier
from clusters.core.gang import Gang
from clusters.core.observation import GangState
from clusters.core.resources import GangShape, NodeShape
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Command, Node
from clusters.services.recall import free_traffic, hold_traffic, is_held
from federation.core.adoption import Claim, Found, Sorting, sort_out
from federation.core.lifecycle import JobState
from federation.core.plan import Binding
from federation.core.reconciliation import Cause
from federation.models import ArbiterTerm, Attempt, Job
from federation.selectors.attempts import last_reading, stop_cause
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.selectors.snapshot import take_snapshot
from federation.services.commit import begin_term
from federation.services.gang import gang_of
from federation.services.reconcile import reconcile_cluster
from kit.ids import attempt_id, read_fence
from kit.intervals import from_ms
from quotas.core.cohort import GUARANTEED, SPOT, Cohort
from tenancy.services.records import Change, ring, write_audit, write_events
from tenancy.services.restored import place_events

logger = logging.getLogger(__name__)
TAIL = (1 << 60) - 1


@dataclass(frozen=True, slots=True)
class Adopted:
    """What recovery found: attempts made into rows, and what belongs to no job of ours."""

    attempts: tuple[Attempt, ...]
    orphans: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class _Site:
    """Where an adopted attempt is, as far as the cluster shows it."""

    cluster: Cluster
    flavor: str
    device: str
    queue: str
    service_class: str
    shape: GangShape
    nodes: tuple[str, ...]
    tier: str


@transaction.atomic
def begin(*, since: datetime | None, now: datetime) -> list[UUID]:
    """Starts a recovery: a new term, no traffic, nothing bound; the clusters to be asked.

    `since` is the moment restored to; None = what was last read of each cluster tells it. Beginning
    twice is beginning once: a recovery that was interrupted goes on.
    """
    is_new = not is_held()
    epoch = begin_term(now=now)
    clusters = hold_traffic(since=since, now=now)
    if is_new:
        place_events()
        _tell("begun", {"epoch": epoch}, now)
    return clusters


@transaction.atomic
def finish(*, adopted: Adopted, now: datetime) -> None:
    """Ends a recovery: the workers read every cluster anew, then the arbiter decides again."""
    if free_traffic(now=now):
        found = {
            "adopted": [attempt.fence for attempt in adopted.attempts],
            "orphans": [found.fence for found in adopted.orphans],
        }
        _tell("finished", found, now)
        ring()


def _tell(what: str, data: Mapping[str, object], now: datetime) -> None:
    write_events(changes=[Change(f"recovery.{what}", "muster", None, "restored", data)], now=now)
    write_audit(
        actor=None,
        action=f"recovery_{what}",
        object_type="muster",
        object_id="recovery",
        after=data,
        now=now,
    )


def adopt(*, now: datetime) -> Adopted:
    """Adopts what the held clusters were read to have, attempt by attempt in their order.

    First what we know is judged as usual: what ran ends or goes on. Then one attempt a job is
    adopted and judged, until none is left: an earlier one must be over before the next can be.
    """
    adopted: list[Attempt] = []
    orphans: dict[tuple[UUID, str], Found] = {}
    _keep_cancelled()
    clusters = list(Cluster.objects.values_list("id", flat=True))
    _reconcile(clusters, now)
    while True:
        attempts, left = _adopt_round(clusters, now)
        orphans |= {(found.cluster, found.fence): found for found in left}
        if not attempts:
            return Adopted(tuple(adopted), tuple(orphans.values()))
        adopted += attempts
        _reconcile({attempt.cluster_id for attempt in attempts}, now)


def _reconcile(clusters: Iterable[UUID], now: datetime) -> None:
    for cluster_id in sorted(clusters):
        reconcile_cluster(cluster_id=cluster_id, now=now)


def _keep_cancelled() -> None:
    """A cancel that we do not remember may have been a hold: such a job is held, not ended.

    Its owner says what becomes of it; what a person did between is not known here.
    """
    cancelled = {
        found.fence
        for found in _found(Cluster.objects.values_list("id", flat=True))
        if found.chief.state is GangState.CANCELLED
    }
    for attempt in OPEN_ATTEMPTS.filter(fence__in=cancelled).select_related("job"):
        if not stop_cause(attempt):
            Job.objects.filter(id=attempt.job_id).update(hold_asked_by="owner")


@transaction.atomic
def _adopt_round(
    clusters: Sequence[UUID], now: datetime
) -> tuple[list[Attempt], tuple[Found, ...]]:
    ArbiterTerm.objects.select_for_update().get(id=1)
    sorting = _sort(clusters)
    jobs = {
        job.id: job
        for job in Job.objects.select_for_update()
        .filter(id__in=[claim.job for claim in sorting.claims])
        .order_by("id")
    }
    orphans = list(sorting.orphans)
    sites: list[tuple[Claim, _Site]] = []
    for claim in sorting.claims:
        site = _site_of(claim, jobs[claim.job], now)
        if site is None:
            logger.error(
                "%s runs on GPUs that no flavor names; it is not adopted", claim.found.fence
            )
            orphans.append(claim.found)
        else:
            sites.append((claim, site))
    _supersede([claim.job for claim, _ in sites], now)
    attempts = [_make(claim, site, jobs[claim.job], now) for claim, site in sites]
    return attempts, tuple(orphans)


def _found(clusters: Iterable[UUID]) -> list[Found]:
    """What every cluster was last read to have under fences of ours."""
    return [
        Found(cluster_id, fence, tuple(objects))
        for cluster_id in clusters
        for fence, objects in last_reading(cluster_id).objects.items()
    ]


def _sort(clusters: Iterable[UUID]) -> Sorting:
    found = _found(clusters)
    tails = {told[0] for one in found if (told := read_fence(one.fence))}
    kept = set(
        Attempt.objects.filter(fence__in=[one.fence for one in found]).values_list(
            "fence", flat=True
        )
    )
    return sort_out(found, _jobs_by_tail(tails), kept)


def _jobs_by_tail(tails: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Jobs by the last 60 bits of their ids: key, and attempts made. Reads the table once."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT uuid, id, attempts_made FROM federation_job"
            " WHERE right(replace(uuid::text, '-', ''), 15) = ANY(%s)",
            [[f"{tail:015x}" for tail in tails]],
        )
        return {uuid.int & TAIL: (key, made) for uuid, key, made in cursor.fetchall()}


def _site_of(claim: Claim, job: Job, now: datetime) -> _Site | None:
    """Where the attempt is: its flavor by the nodes it has, its shape as the job asked for it."""
    seen = claim.found.chief
    cluster = Cluster.objects.get(id=claim.found.cluster)
    nodes = {node.name: node for node in Node.objects.filter(cluster=cluster, name__in=seen.nodes)}
    devices = {node.device for node in nodes.values()}
    options = {option["flavor"]: option for option in job.options}
    served = ClusterFlavor.objects.filter(cluster=cluster).order_by("flavor_id")
    named = [row for row in served if row.device in devices] or [
        row for row in served if not devices and row.flavor_id in options
    ]
    if not named:
        return None
    row = named[0]
    option = options.get(row.flavor_id) or job.options[0]
    gpus = seen.gpus // len(seen.nodes) if seen.nodes else option["gpus_per_node"]
    need = NodeShape(gpus, option["cpus_per_node"], option["memory_mib_per_node"])
    paths = [[(tier, name) for tier, name in nodes[n].path] for n in seen.nodes if n in nodes]
    shape = GangShape(len(seen.nodes) or option["nodes"], need, job.exclusive)
    return _Site(
        cluster=cluster,
        flavor=row.flavor_id,
        device=row.device,
        queue=row.queue,
        service_class=_class_of(job, row, shape.gpus, now),
        shape=shape,
        nodes=seen.nodes,
        tier=shared_tier(paths) if paths and len(paths) == len(seen.nodes) else "cluster",
    )


def _supersede(jobs: Sequence[int], now: datetime) -> None:
    """Ends what is still open of jobs that went on to a later attempt in the time we forgot.

    When its last stay ended nobody knows any more: it is billed to where it is posted.
    """
    over = list(OPEN_ATTEMPTS.filter(job__in=jobs).values_list("id", flat=True))
    Attempt.objects.filter(id__in=over).update(
        state=Attempt.State.ENDED, end_cause=Cause.VANISHED, ended_at=now
    )
    forget_open(attempt_ids=over, now=now)


def _make(claim: Claim, site: _Site, job: Job, now: datetime) -> Attempt:
    """The rows of an attempt that was submitted and answered; reconciliation does the rest."""
    seen = claim.found.chief
    gang = _gang(claim, site, job)
    skew_ms = site.cluster.clock_skew_ms
    need = site.shape.per_node
    attempt = Attempt.objects.create(
        id=attempt_id(job.uuid, claim.number),
        job=job,
        number=claim.number,
        fence=claim.found.fence,
        cluster=site.cluster,
        flavor_id=site.flavor,
        service_class=site.service_class,
        nodes=list(site.nodes),
        gpus_per_node=need.gpus,
        cpus_per_node=need.cpus,
        memory_mib_per_node=need.memory_mib,
        exclusive=site.shape.exclusive,
        tier=site.tier,
        account=seen.account,
        bound_at=now if seen.submitted_ms is None else from_ms(seen.submitted_ms - skew_ms),
    )
    begun_at = site.cluster.observation.begun_at
    Command.objects.create(
        key=f"submit:{attempt.id}",
        cluster=site.cluster,
        kind=Command.Kind.SUBMIT,
        fence=attempt.fence,
        payload=gang.to_json(),
        state=Command.State.DONE,
        created_at=now,
        not_before=now,
        sent_at=begun_at,
        answered_at=begun_at,
        answer={"backend_id": seen.backend_id},
    )
    _take_back(job, attempt, seen.state, now)
    return attempt


def _gang(claim: Claim, site: _Site, job: Job) -> Gang:
    """What the backend would be told; it is told again only to release what is held there."""
    account = claim.found.chief.account
    known = ClusterAccount.objects.filter(cluster=site.cluster, user=job.user_id).first()
    binding = Binding(
        job=job.id,
        version=job.version,
        number=claim.number,
        tenant=job.tenant_id,
        user=job.user_id,
        cluster=site.cluster.id,
        cluster_name=site.cluster.name,
        flavor=site.flavor,
        device=site.device,
        queue=site.queue,
        service_class=site.service_class,
        shape=site.shape,
        nodes=site.nodes,
        tier=site.tier,
    )
    return gang_of(
        binding,
        {
            "uuid": job.uuid,
            "name": job.name,
            "spec": job.spec,
            "tenant__path": job.tenant.path,
        },
        person=ClusterAccount(
            account=account,
            home=known.home if known else "",
            run_as=known.run_as if known else "",
        ),
        options=site.cluster.options,
    )


def _class_of(job: Job, served: ClusterFlavor, gpus: int, now: datetime) -> str:
    """The class it is counted in: as asked; of `auto`, what its quota allows as it stands."""
    if job.wanted_class in (GUARANTEED, SPOT):
        return job.wanted_class
    snapshot = take_snapshot(now)
    lineages = {tenant.id: tenant.lineage for tenant in snapshot.tenants}
    cohort = Cohort(snapshot.quotas, lineages, snapshot.uses)
    room = cohort.headroom(job.tenant_id, served.flavor_id, served.cluster_id, GUARANTEED)
    return GUARANTEED if room.holds(gpus) else SPOT


def _take_back(job: Job, attempt: Attempt, state: GangState, now: datetime) -> None:
    """The job is bound again, whatever we thought of it."""
    job.state = JobState.DISPATCHING
    job.attempts_made = attempt.number
    job.class_now = attempt.service_class
    job.held_by = ""
    job.hold_asked_by = "owner" if state is GangState.CANCELLED else ""
    job.ended_at, job.outcome = None, ""
    job.version += 1
    job.save()
    data = {"attempt": attempt.number, "cluster": attempt.cluster.name, "fence": attempt.fence}
    change = Change("job.dispatching", str(job.uuid), job.tenant_id, "adopted", data)
    write_events(changes=[change], now=now)

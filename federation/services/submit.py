"""Taking jobs in: who may, whether it can ever run, and the rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import transaction

from clusters.models import Flavor
from federation.core.explain import never_reasons
from federation.core.plan import Reason
from federation.core.snapshot import Ask
from federation.core.spec import JobSpec
from federation.models import Job
from federation.selectors.snapshot import waiting_job
from federation.selectors.standing import standing_fleet
from kit.bulk import insert_rows
from kit.errors import FieldProblem, InvalidContentError, PermissionDeniedError
from kit.intervals import from_ms
from tenancy.models import Role, Tenant, User
from tenancy.selectors.access import tenants_by_path
from tenancy.services.records import Change, ring, write_events

MOST_JOBS = 1000
MOST_PROBLEMS = 100


@transaction.atomic(savepoint=False)
def submit_jobs(
    *, user: User, specs: Sequence[JobSpec], now: datetime, is_batch: bool = False
) -> list[Job]:
    """Queues all of the jobs, or none. The number of queries does not depend on theirs.

    `is_batch` makes pointers begin with `/jobs/<number>`.

    Raises:
        InvalidContentError: names every field that is wrong: no such tenant, flavor or cluster, a
            closed tenant, or a job that can never run anywhere (with the reason).
        PermissionDeniedError: the user sees a tenant but may not submit there.
    """
    pointers = [f"/jobs/{number}" if is_batch else "" for number in range(len(specs))]
    tenants = _tenants(user, specs, pointers)
    jobs = [
        Job(
            tenant=tenants[spec.tenant],
            user=user,
            submitted_at=now,
            queued_at=now,
            **columns(spec),
        )
        for spec in specs
    ]
    refuse(fleet_problems(user, list(zip(pointers, specs, jobs, strict=True))))
    _insert(jobs)
    write_events(
        changes=(
            Change("job.queued", str(job.uuid), job.tenant_id, "submitted", {"user": user.username})
            for job in jobs
        ),
        now=now,
    )
    ring()
    return jobs


def _insert(jobs: Sequence[Job]) -> None:
    """Inserts new jobs in their order and gives each its row id."""
    names = [field.attname for field in Job._meta.concrete_fields if not field.primary_key]
    rows = [{name: getattr(job, name) for name in names} for job in jobs]
    ids = dict(insert_rows(Job, rows, returning=("uuid", "id")))
    for job in jobs:
        job.id = ids[job.uuid]
        job._state.adding, job._state.db = False, "default"


def columns(spec: JobSpec) -> dict[str, Any]:
    """The columns of a job's row that repeat its spec."""
    return {
        "name": spec.name,
        "wanted_class": spec.service_class,
        "priority": spec.priority,
        "prefer": spec.prefer,
        "options": spec.options(),
        "exclusive": spec.exclusive,
        "required_tier": spec.required_tier,
        "preferred_tier": spec.preferred_tier,
        "time_limit_ms": spec.time_limit_ms,
        "start_timeout_ms": spec.start_timeout_ms,
        "max_restarts": spec.max_restarts,
        "stores": list(spec.stores),
        "only_clusters": list(spec.only_clusters),
        "avoid_clusters": list(spec.avoid_clusters),
        "not_before": None if spec.not_before_ms is None else from_ms(spec.not_before_ms),
        "labels": dict(spec.labels),
        "spec": spec.to_json(),
    }


def refuse(problems: Iterable[FieldProblem]) -> None:
    """Raises InvalidContentError with the first hundred problems, if there are any."""
    found = list(islice(problems, MOST_PROBLEMS))
    if found:
        raise InvalidContentError("The job cannot be taken.", errors=found)


def _tenants(user: User, specs: Sequence[JobSpec], pointers: Sequence[str]) -> dict[str, Tenant]:
    """The tenants of the jobs by path, where the user may submit."""
    paths = {spec.tenant for spec in specs}
    allowed = tenants_by_path(user, paths, Role.SUBMITTER)
    missing = paths - allowed.keys()
    if missing:
        seen = tenants_by_path(user, missing, Role.VIEWER)
        refuse(
            FieldProblem(f"{at}/tenant", "unknown_tenant", f"There is no tenant {spec.tenant}.")
            for at, spec in zip(pointers, specs, strict=True)
            if spec.tenant in missing and spec.tenant not in seen
        )
        raise PermissionDeniedError(f"You may not submit to {', '.join(sorted(seen))}.")
    refuse(
        FieldProblem(f"{at}/tenant", "tenant_closed", f"{spec.tenant} takes no new jobs.")
        for at, spec in zip(pointers, specs, strict=True)
        if not allowed[spec.tenant].is_open
    )
    return allowed


def fleet_problems(
    user: User, placed: Sequence[tuple[str, JobSpec, Job]]
) -> Iterator[FieldProblem]:
    """What is wrong with jobs of one user in the light of the fleet.

    `placed` are pointers, specs and rows (saved or not). Names that do not exist are told first;
    then, for jobs without such names, why they can never run anywhere.
    """
    fleet = standing_fleet(user.pk)
    clusters = {view.cluster.name for view in fleet}
    flavors = {flavor.name for view in fleet for flavor in view.cluster.flavors}
    if any(choice.name not in flavors for _, spec, _ in placed for choice in spec.flavors):
        flavors = set(Flavor.objects.values_list("name", flat=True))
    known: dict[Ask, tuple[Reason, ...]] = {}
    for at, spec, job in placed:
        unknown = list(_unknown(at, spec, flavors, clusters))
        yield from unknown
        if not unknown:
            waiting = waiting_job(job)
            if waiting.ask not in known:
                known[waiting.ask] = never_reasons(waiting, fleet)
            yield from _never(at, spec, known[waiting.ask])


def _never(at: str, spec: JobSpec, reasons: Sequence[Reason]) -> Iterator[FieldProblem]:
    """One problem for each field that stands in the way, with every reason that names it."""
    told: dict[tuple[str, str], list[str]] = {}
    for reason in reasons:
        pointer = _POINTERS.get(reason.code, "/flavors")
        if reason.code == "store_unavailable" and not spec.requires:
            pointer = "/checkpoint/store"
        told.setdefault((pointer, reason.code), []).append(reason.message)
    for (pointer, code), messages in told.items():
        yield FieldProblem(at + pointer, code, " ".join(dict.fromkeys(messages)))


_POINTERS: Mapping[str, str] = {
    "gang_too_large": "/gang/nodes",
    "store_unavailable": "/requires",
    "limit_reached": "/time_limit",
    "backend_cannot_run": "/flavors",
}


def _unknown(
    at: str, spec: JobSpec, flavors: set[str], clusters: set[str]
) -> Iterator[FieldProblem]:
    for index, choice in enumerate(spec.flavors):
        if choice.name not in flavors:
            detail = f"There is no flavor {choice.name}; GET /api/v1/flavors lists them."
            yield FieldProblem(f"{at}/flavors/{index}", "unknown_flavor", detail)
    named: Mapping[str, Sequence[str]] = {
        "only": spec.only_clusters,
        "avoid": spec.avoid_clusters,
    }
    for field, names in named.items():
        for index, name in enumerate(names):
            if name not in clusters:
                detail = f"There is no cluster {name}; GET /api/v1/clusters lists them."
                yield FieldProblem(f"{at}/clusters/{field}/{index}", "unknown_cluster", detail)

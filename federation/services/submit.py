"""Taking jobs in: who may, whether it can ever run, and the rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import transaction

from accounting.core.rating import PriceBook
from accounting.selectors.prices import ALL_PRICES, whole_book
from clusters.core.capabilities import FORMS
from clusters.models import Flavor
from federation.core.plan import Reason
from federation.core.spec import JobSpec
from federation.models import Job
from federation.selectors.standing import REVISIONS, StandingFleet, standing_fleet
from federation.services.limits import Newcomer, over_limits
from kit.bulk import Row, completed, insertion, instance, run
from kit.errors import FieldProblem, InvalidContentError, PermissionDeniedError
from kit.ids import new_id
from kit.intervals import from_ms
from quotas.selectors import ANY_LIMIT
from tenancy.models import Role, Tenant, User
from tenancy.selectors.access import tenants_by_path, tenants_found, tenants_statement
from tenancy.services.limits import charge_tenants
from tenancy.services.records import BELL, Change, events_statement

MOST_JOBS = 1000
MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Taken:
    """Jobs that were queued, and the prices as they were then."""

    jobs: list[Job]
    book: PriceBook


def submit_jobs(
    *, user: User, specs: Sequence[JobSpec], now: datetime, is_batch: bool = False
) -> Taken:
    """Queues all of the jobs, or none. Two round trips, whatever their number; more with limits.

    The last holds all that is written, so it is a transaction of its own where there is none.
    `is_batch` makes pointers begin with `/jobs/<number>`.

    Raises:
        InvalidContentError: names every field that is wrong: no such tenant, flavor or cluster, a
            closed tenant, a job that can never run anywhere (with the reason), or a limit of the
            tenant, its people or its labels on waiting jobs or time limits that is exceeded.
        PermissionDeniedError: the user sees a tenant but may not submit there.
        ThrottledError: a tenant gets more jobs a minute than it may.
    """
    pointers = [f"/jobs/{number}" if is_batch else "" for number in range(len(specs))]
    paths = {spec.tenant for spec in specs}
    found, revisions, prices, limits = run(
        tenants_statement(user, paths, Role.SUBMITTER), REVISIONS, ALL_PRICES, ANY_LIMIT
    )
    tenants = tenants_found(found)
    _check_tenants(user, specs, pointers, tenants)
    charge_tenants(jobs=Counter(tenants[spec.tenant].pk for spec in specs))
    shared = {"user_id": user.pk, "submitted_at": now, "queued_at": now}
    rows = [
        {"uuid": new_id(), "tenant_id": tenants[spec.tenant].pk, **columns(spec)} for spec in specs
    ]
    jobs = [
        _job({**shared, **row}, tenants[spec.tenant], user)
        for row, spec in zip(rows, specs, strict=True)
    ]
    fleet = standing_fleet(user.pk, revisions)
    refuse(fleet_problems(fleet, list(zip(pointers, specs, jobs, strict=True))))
    queued = [
        Change("job.queued", str(job.uuid), job.tenant_id, "submitted", {"user": user.username})
        for job in jobs
    ]
    insert = partial(_insert, rows, shared, queued, now)
    if limits:
        inserted = _within_limits(_newcomers(user, pointers, specs, tenants), insert)
    else:
        inserted = insert()
    ids: dict[UUID, int] = dict(inserted)
    for job in jobs:
        job.id = ids[job.uuid]
    return Taken(jobs, whole_book(prices))


def _insert(
    rows: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any],
    queued: Sequence[Change],
    now: datetime,
) -> list[Row]:
    inserted, _, _ = run(
        insertion(Job, rows, shared, returning=("uuid", "id")),
        events_statement(changes=queued, now=now),
        BELL,
    )
    return inserted


@transaction.atomic
def _within_limits(newcomers: Sequence[Newcomer], insert: Callable[[], list[Row]]) -> list[Row]:
    """Inserts the jobs if they exceed no limit. Who comes at the same time waits."""
    refuse(over_limits(newcomers))
    return insert()


def _newcomers(
    user: User, pointers: Sequence[str], specs: Sequence[JobSpec], tenants: Mapping[str, Tenant]
) -> list[Newcomer]:
    return [
        Newcomer(at, spec, tenants[spec.tenant], user.pk)
        for at, spec in zip(pointers, specs, strict=True)
    ]


def _job(values: Mapping[str, Any], tenant: Tenant, user: User) -> Job:
    """The object of a row that is about to be inserted; as yet without its row id."""
    whole = completed(Job, {"id": None, **values})
    job = instance(Job, whole.values(), whole)
    Job.tenant.field.set_cached_value(job, tenant)
    Job.user.field.set_cached_value(job, user)
    Job.telling.related.set_cached_value(job, None)
    return job


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
        "forms": spec.run.forms,
        "claims": spec.claims,
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


def _check_tenants(
    user: User,
    specs: Sequence[JobSpec],
    pointers: Sequence[str],
    allowed: Mapping[str, Tenant],
) -> None:
    """Refuses tenants that are not among those where the user may submit, or are closed."""
    missing = {spec.tenant for spec in specs} - allowed.keys()
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


def fleet_problems(
    fleet: StandingFleet, placed: Sequence[tuple[str, JobSpec, Job]]
) -> Iterator[FieldProblem]:
    """What is wrong with jobs of one user in the light of the fleet as it stands for them.

    `placed` are pointers, specs and rows (saved or not). Names that do not exist are told first;
    then, for jobs without such names, why they can never run anywhere.
    """
    clusters = {view.cluster.name for view in fleet.views}
    flavors = {flavor.name for view in fleet.views for flavor in view.cluster.flavors}
    if any(choice.name not in flavors for _, spec, _ in placed for choice in spec.flavors):
        flavors = set(Flavor.objects.values_list("name", flat=True))
    for at, spec, job in placed:
        unknown = list(_unknown(at, spec, flavors, clusters))
        yield from unknown
        if not unknown:
            yield from _never(at, spec, fleet.never(job))


def _never(at: str, spec: JobSpec, reasons: Sequence[Reason]) -> Iterator[FieldProblem]:
    """One problem for each field that stands in the way, with every reason that names it."""
    told: dict[tuple[str, str], list[str]] = {}
    for reason in reasons:
        pointer = _POINTERS.get(reason.code, "/flavors")
        if reason.code == "store_unavailable" and not spec.requires:
            pointer = "/checkpoint/store"
        if reason.unit in FORMS.values():
            pointer = f"/run/{reason.unit}"
        told.setdefault((pointer, reason.code), []).append(reason.message)
    for (pointer, code), messages in told.items():
        yield FieldProblem(at + pointer, code, " ".join(dict.fromkeys(messages)))


_POINTERS: Mapping[str, str] = {
    "gang_too_large": "/gang/nodes",
    "store_unavailable": "/requires",
    "checkpoint_unreachable": "/checkpoint/store",
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

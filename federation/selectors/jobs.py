"""Reads of jobs, each within what the asker may see."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Exists, F, Func, JSONField, OuterRef, QuerySet, Value

from federation.models import Attempt, Job
from kit.errors import NotFoundError
from tenancy.models import Event, Role, Tenant, User
from tenancy.selectors.access import ROLE_RANK, roles_of, visible_tenants

# What a list leaves out of the stored body: it may be a megabyte a job.
BULKY = ("run", "environment")


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What part of the jobs is asked for; each tuple is "any of", empty = all.

    `tenants` include what is below them. `labels` are (name, value) pairs, all of which must hold.
    """

    states: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


def visible_jobs(user: User) -> QuerySet[Job]:
    """The jobs of every tenant that the user may see, with tenant, user and what it was told at hand."""
    jobs = Job.objects.select_related("tenant", "user", "telling")
    return jobs if user.is_superuser else jobs.filter(tenant__in=visible_tenants(user))


def visible_job(user: User, job_id: UUID) -> Job:
    """One job by its public id.

    Raises:
        NotFoundError: there is none, or the user may not see it.
    """
    job = visible_jobs(user).filter(uuid=job_id).first()
    if job is None:
        raise NotFoundError("There is no such job, or you may not see it.")
    return job


def job_page(
    user: User, wanted: JobFilter, *, after: int | None, limit: int, newest_first: bool = True
) -> list[Job]:
    """At most `limit` + 1 jobs beyond the job with row id `after`.

    `spec` is deferred; `outline` holds it without its bulky parts.
    """
    jobs = _filtered(visible_jobs(user), wanted)
    if after is not None:
        jobs = jobs.filter(id__lt=after) if newest_first else jobs.filter(id__gt=after)
    return list(
        jobs.defer("spec")
        .annotate(outline=_without(*BULKY))
        .order_by("-id" if newest_first else "id")[: limit + 1]
    )


def jobs_by_id(ids: Collection[int]) -> dict[int, Job]:
    """Jobs by row id, with `outline` instead of `spec` (see `job_page`)."""
    rows = Job.objects.filter(id__in=ids).select_related("tenant", "user", "telling").defer("spec")
    return {job.id: job for job in rows.annotate(outline=_without(*BULKY))}


def _without(*names: str) -> Func:
    """The stored body without some of its fields."""
    fields = [Value(name) for name in names]
    return Func(
        F("spec"), *fields, template="(%(expressions)s)", arg_joiner=" - ", output_field=JSONField()
    )


def _filtered(jobs: QuerySet[Job], wanted: JobFilter) -> QuerySet[Job]:
    if wanted.states:
        jobs = jobs.filter(state__in=wanted.states)
    if wanted.tenants:
        roots = Tenant.objects.filter(path__in=wanted.tenants).values_list("id", flat=True)
        jobs = jobs.filter(tenant__lineage__overlap=list(roots))
    if wanted.users:
        jobs = jobs.filter(user__username__in=wanted.users)
    if wanted.classes:
        jobs = jobs.filter(wanted_class__in=wanted.classes)
    if wanted.clusters:
        tried = Attempt.objects.filter(job=OuterRef("pk"), cluster__name__in=wanted.clusters)
        jobs = jobs.filter(Exists(tried))
    for name, value in wanted.labels:
        jobs = jobs.filter(labels__contains={name: value})
    return jobs


def last_attempts(job_ids: Iterable[int]) -> dict[int, Attempt]:
    """The newest attempt of each job that has one, by the job's row id. One query."""
    rows = (
        Attempt.objects.filter(job_id__in=list(job_ids))
        .select_related("cluster")
        .order_by("job_id", "-number")
        .distinct("job_id")
    )
    return {attempt.job_id: attempt for attempt in rows}


def last_proofs(jobs: Iterable[Job], last: Mapping[int, Attempt]) -> dict[int, Attempt]:
    """The attempt that proved the newest checkpoint of each job that has one, by the job's row id.

    `last` are their newest attempts. One query, where one of those has proven nothing yet.
    """
    saved = [job.id for job in jobs if job.saved_step is not None]
    found = {key: last[key] for key in saved if key in last and last[key].saved_step is not None}
    if len(found) < len(saved):
        rows = Attempt.objects.filter(job_id__in=set(saved) - found.keys()).exclude(saved_step=None)
        newest = rows.order_by("job_id", "-number").distinct("job_id")
        found |= {attempt.job_id: attempt for attempt in newest}
    return found


def attempts_of(job: Job) -> list[Attempt]:
    """Every attempt of a job, the first first."""
    return list(job.attempts.select_related("cluster").order_by("number"))


def events_of(job: Job, *, after: int | None, limit: int) -> list[Event]:
    """At most `limit` + 1 events of a job after the event with id `after`, oldest first."""
    rows = Event.objects.filter(subject=str(job.uuid), tenant_id=job.tenant_id)
    if after is not None:
        rows = rows.filter(id__gt=after)
    return list(rows.order_by("id")[: limit + 1])


def positions(job_ids: Collection[int]) -> dict[int, int]:
    """Where waiting jobs stand in the order of the last cycle, from 1. One query."""
    if not job_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ranked.id, ranked.place FROM federation_arbiterterm term,"
            " unnest(term.queue) WITH ORDINALITY AS ranked(id, place)"
            " WHERE ranked.id = ANY(%s)",
            [list(job_ids)],
        )
        return dict(cursor.fetchall())


def may_change(user: User, job: Job) -> bool:
    """Whether the user may change the job: their own as a submitter, any as owner or admin."""
    if user.is_superuser:
        return True
    held = [role for tenant, role in roles_of(user).items() if tenant in job.tenant.lineage]
    rank = max((ROLE_RANK[role] for role in held), default=0)
    needed = Role.SUBMITTER if job.user_id == user.pk else Role.OWNER
    return rank >= ROLE_RANK[needed]


def body_of(job: Job) -> Mapping[str, Any]:
    """The job's stored body; without its bulky parts where the job came from a list."""
    outline: Mapping[str, Any] | None = getattr(job, "outline", None)
    return job.spec if outline is None else outline

"""The aggregated queue: what runs, then what waits in the order of the last cycle."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q

from clusters.models import Observation
from federation.models import Job
from federation.models.jobs import ACTIVE
from federation.selectors.jobs import jobs_by_id
from tenancy.models import User
from tenancy.selectors.access import visible_tenant_ids, visible_tenants

# The parts of the queue, in order. A cursor is "<part>:<key within the part>".
ACTIVE_PART, RANKED_PART, NEW_PART = 0, 1, 2
_RANKED = """
    SELECT job.id, ranked.place
    FROM federation_arbiterterm term,
         unnest(term.queue) WITH ORDINALITY AS ranked(id, place)
         JOIN federation_job job USING (id)
    WHERE job.state = 'queued' AND ranked.place > %(after)s
      AND (%(everybody)s OR job.tenant_id = ANY(%(tenants)s::uuid[]))
    ORDER BY ranked.place LIMIT %(limit)s"""
_NEW = """
    SELECT job.id, job.id
    FROM federation_job job
    WHERE job.state = 'queued' AND job.id > %(after)s
      AND (%(everybody)s OR job.tenant_id = ANY(%(tenants)s::uuid[]))
      AND job.id NOT IN (SELECT unnest(queue) FROM federation_arbiterterm)
    ORDER BY job.id LIMIT %(limit)s"""


@dataclass(frozen=True, slots=True)
class Place:
    """A job in the queue. `part` and `key` order it; `position` from 1 once it was ranked."""

    job: Job
    part: int
    key: int

    @property
    def position(self) -> int | None:
        """Where it stood in the last cycle; None for what runs or was not ranked yet."""
        return self.key if self.part == RANKED_PART else None


@dataclass(frozen=True, slots=True)
class ForeignCount:
    """What others have on a cluster: running and pending jobs, and GPUs the pending ask."""

    cluster: str
    running: int
    pending: int
    pending_gpus: int


def queue_page(
    user: User, *, after: tuple[int, int] | None, limit: int, below: str = ""
) -> list[Place]:
    """At most `limit` + 1 gangs that the user may see, beyond (part, key). At most 7 queries.

    `below` is the path of a tenant: only its gangs and those of what is below it.
    """
    tenants = visible_tenant_ids(user)
    if below:
        rows = visible_tenants(user).filter(Q(path=below) | Q(path__startswith=f"{below}/"))
        tenants = list(rows.values_list("id", flat=True))
    start, key = after or (ACTIVE_PART, 0)
    found: list[tuple[int, int, int]] = []
    for part in range(start, NEW_PART + 1):
        beyond = key if part == start else 0
        wanted = limit + 1 - len(found)
        if wanted > 0:
            found += [(part, *row) for row in _part(part, tenants, beyond, wanted)]
    jobs = jobs_by_id([job_id for _, job_id, _ in found])
    return [Place(jobs[job_id], part, place) for part, job_id, place in found if job_id in jobs]


def _part(
    part: int, tenants: Sequence[UUID] | None, after: int, limit: int
) -> list[tuple[int, int]]:
    """(row id, key) of jobs of one part, beyond a key."""
    if part == ACTIVE_PART:
        rows = Job.objects.filter(ACTIVE, id__gt=after).order_by("id")
        if tenants is not None:
            rows = rows.filter(tenant__in=tenants)
        return [(job_id, job_id) for job_id in rows.values_list("id", flat=True)[:limit]]
    values: dict[str, Any] = {
        "after": after,
        "limit": limit,
        "everybody": tenants is None,
        "tenants": list(tenants or ()),
    }
    with connection.cursor() as cursor:
        cursor.execute(_RANKED if part == RANKED_PART else _NEW, values)
        return list(cursor.fetchall())


def foreign_counts() -> list[ForeignCount]:
    """Foreign load by cluster, as last seen."""
    rows = Observation.objects.order_by("cluster__name").values_list(
        "cluster__name", "foreign_running", "foreign_pending", "foreign_pending_gpus"
    )
    return [ForeignCount(*row) for row in rows]

"""Pages of jobs: the list, one job, and what people do to it."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from accounting.core.costs import JobCost
from accounting.selectors.costs import job_costs
from federation.core.lifecycle import JobState
from federation.models import Attempt, Job
from federation.selectors.ahead import usage_ahead
from federation.selectors.jobs import (
    JobFilter,
    attempts_of,
    events_of,
    job_page,
    last_proofs,
    may_change,
    positions,
    visible_job,
)
from federation.selectors.load import cluster_load, jobs_on
from federation.services.change import ACTIONS
from federation.views.drawing import Outer, around, draw
from federation.views.rows import Row, gang_of, rows
from federation.views.words import moment, place, why
from kit.errors import MusterError, NotFoundError
from kit.pagination import Page, refuse_unknown
from tenancy.models import User
from tenancy.selectors.access import visible_tenants
from tenancy.views import person, signed_in

DONE = {
    "cancel": "The job is cancelled; if it runs, its cluster is being told.",
    "hold": "The job is held; it starts nowhere until it is released.",
    "release": "The job is released and waits in the queue.",
    "checkpoint": "The job is being asked to save; what it saved shows in its timeline.",
}
MOST_EVENTS = 500


@dataclass(frozen=True, slots=True)
class ClassCost:
    """What a job used and cost in one class."""

    service_class: str
    gpu_ms: int
    amount_nano: int


@signed_in
def jobs(request: HttpRequest) -> HttpResponse:
    """`/jobs?state=&tenant=&user=&cursor=`, the newest first."""
    user, now = person(request), timezone.now()
    refuse_unknown(request.GET, ["state", "tenant", "user", "cursor", "limit"])
    page = Page.of(request.GET)
    chosen = {name: request.GET.get(name, "") for name in ("state", "tenant", "user")}
    wanted = JobFilter(
        states=_one(chosen["state"]), tenants=_one(chosen["tenant"]), users=_one(chosen["user"])
    )
    after = page.after if isinstance(page.after, int) else None
    found = job_page(user, wanted, after=after, limit=page.limit)
    shown = found[: page.limit]
    last = shown[-1].pk if len(found) > page.limit else None
    waiting = [job.pk for job in shown if job.state == JobState.QUEUED]
    context = {
        "now": now,
        "rows": rows(shown, positions(waiting)),
        "states": list(JobState),
        "tenants": list(visible_tenants(user).values_list("path", flat=True)),
        "chosen": chosen,
        "next": page.render([], last, request.path, request.GET)["next"],
    }
    return render(request, "jobs.html", context)


@signed_in
def job(request: HttpRequest, job_id: UUID) -> HttpResponse:
    """`/jobs/<id>`"""
    user, now = person(request), timezone.now()
    it = visible_job(user, job_id)
    attempts = attempts_of(it)
    last = attempts[-1] if attempts else None
    waiting = [it.pk] if it.state == JobState.QUEUED else []
    ahead = {it.uuid: usage_ahead(it, last, now)}
    cost = job_costs(job_ids=[it.uuid], now=now, ahead=ahead)[it.uuid]
    context = {
        "now": now,
        "job": it,
        "row": Row(it, last, gang_of(it, last), why(it, last), positions(waiting).get(it.pk)),
        "places": [(place(reason), reason) for reason in it.reasons],
        "attempts": attempts[::-1],
        "timeline": [moment(event) for event in events_of(it, after=None, limit=MOST_EVENTS)][::-1],
        "drawing": _drawing(user, last, now),
        "cost": cost,
        "proof": last_proofs([it], {it.pk: last} if last else {}).get(it.pk),
        "by_class": _by_class(cost),
        "may": _may(user, it),
        "spec": json.dumps(it.spec, indent=2, ensure_ascii=False),
    }
    return render(request, "job.html", context)


@signed_in
@require_POST
def change(request: HttpRequest, job_id: UUID, action: str) -> HttpResponse:
    """`POST /jobs/<id>/cancel`, `/hold` and so on; back to the job's page with what came of it."""
    if action not in ACTIONS:
        raise Http404
    try:
        ACTIONS[action](user=person(request), job_id=job_id, now=timezone.now())
    except NotFoundError:
        raise
    except MusterError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, DONE[action])
    return redirect("job", job_id=job_id)


def _one(value: str) -> tuple[str, ...]:
    return (value,) if value else ()


def _drawing(user: User, attempt: Attempt | None, now: datetime) -> Sequence[Outer]:
    """The leaves that the attempt's nodes lie in, its nodes marked."""
    if attempt is None:
        return ()
    try:
        load = cluster_load(attempt.cluster.name, now)
    except NotFoundError:
        return ()
    if load.cluster.pk != attempt.cluster_id:  # gone, and another bears its name now
        return ()
    here = frozenset(attempt.nodes_seen or attempt.nodes)
    near = around(draw(load.nodes, {}, here))
    nodes = [tile.node for outer in near for leaf in outer.inner for tile in leaf.tiles]
    return draw(nodes, jobs_on(user, nodes), here)


def _by_class(cost: JobCost) -> list[ClassCost]:
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for part in cost.intervals:
        sums[part.service_class][0] += part.gpu_ms
        sums[part.service_class][1] += part.amount_nano
    return [ClassCost(name, *values) for name, values in sorted(sums.items())]


def _may(user: User, it: Job) -> list[str]:
    """What the person may do to the job now, by name."""
    if JobState(it.state).is_final or it.cancel_asked_at is not None or not may_change(user, it):
        return []
    holder = it.held_by or it.hold_asked_by
    if not holder:
        saves = it.state == JobState.RUNNING and bool(it.spec.get("checkpoint"))
        return [*(["checkpoint"] if saves else []), "hold", "cancel"]
    is_theirs = holder != "admin" or user.is_superuser
    return ["release", "cancel"] if is_theirs else ["cancel"]

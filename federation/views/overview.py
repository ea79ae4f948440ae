"""The first page: what there is, what is mine, what waits and why."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from federation.core.lifecycle import BOUND, JobState
from federation.selectors.counts import jobs_by_state
from federation.selectors.jobs import JobFilter, job_page
from federation.selectors.load import Load, cluster_loads
from federation.selectors.queue import RANKED_PART, queue_page
from federation.views.rows import rows
from tenancy.views import person, signed_in

SHOWN = 8


@signed_in
def overview(request: HttpRequest) -> HttpResponse:
    """`/`"""
    user, now = person(request), timezone.now()
    clusters = cluster_loads(now)
    counts = jobs_by_state(user)
    mine = job_page(user, JobFilter(users=(user.username,)), after=None, limit=SHOWN)
    line = queue_page(user, after=(RANKED_PART, 0), limit=SHOWN)
    positions = {place.job.pk: place.position for place in line if place.position}
    waiting = rows([place.job for place in line][:SHOWN], positions)
    context = {
        "now": now,
        "clusters": clusters,
        "load": sum((cluster.load for cluster in clusters), Load()),
        "waiting_count": counts.get(JobState.QUEUED, 0),
        "held_count": counts.get(JobState.HELD, 0),
        "bound_count": sum(counts.get(state, 0) for state in BOUND),
        "mine": rows(mine[:SHOWN]),
        "waiting": waiting,
    }
    return render(request, "overview.html", context)

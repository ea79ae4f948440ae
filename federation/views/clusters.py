"""Pages of the fleet."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from federation.selectors.load import cluster_load, cluster_loads, jobs_on
from federation.views.drawing import draw
from tenancy.views import person, signed_in


@signed_in
def clusters(request: HttpRequest) -> HttpResponse:
    """`/clusters`"""
    now = timezone.now()
    return render(request, "clusters.html", {"now": now, "clusters": cluster_loads(now)})


@signed_in
def cluster(request: HttpRequest, name: str) -> HttpResponse:
    """`/clusters/<name>`: its nodes where they are; jobs are named to those who may see them."""
    now = timezone.now()
    load = cluster_load(name, now)
    jobs = jobs_on(person(request), load.nodes)
    context = {
        "now": now,
        "it": load,
        "drawing": draw(load.nodes, jobs),
        "jobs": sorted(jobs.values(), key=lambda job: -job.pk),
    }
    return render(request, "cluster.html", context)

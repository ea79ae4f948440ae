"""Addresses of the pages."""

from django.urls import URLPattern, path

from federation.views import clusters, jobs, overview, queue, reconciler, submit

page_urls: list[URLPattern] = [
    path("", overview.overview, name="overview"),
    path("clusters", clusters.clusters, name="clusters"),
    path("clusters/<slug:name>", clusters.cluster, name="cluster"),
    path("clusters/<slug:name>/<slug:action>", clusters.change, name="change-cluster"),
    path("queue", queue.queue, name="queue"),
    path("reconciler", reconciler.reconciler, name="reconciler"),
    path("reconciler/<uuid:case_id>", reconciler.case, name="case"),
    path("reconciler/<uuid:case_id>/<slug:action>", reconciler.act, name="case-act"),
    path("jobs", jobs.jobs, name="jobs"),
    path("jobs/new", submit.new_job, name="new-job"),
    path("jobs/<uuid:job_id>", jobs.job, name="job"),
    path("jobs/<uuid:job_id>/<slug:action>", jobs.change, name="change-job"),
]

"""Addresses of the pages."""

from django.urls import URLPattern, path

from federation.views import clusters, jobs, overview, queue, submit

page_urls: list[URLPattern] = [
    path("", overview.overview, name="overview"),
    path("clusters", clusters.clusters, name="clusters"),
    path("clusters/<slug:name>", clusters.cluster, name="cluster"),
    path("queue", queue.queue, name="queue"),
    path("jobs", jobs.jobs, name="jobs"),
    path("jobs/new", submit.new_job, name="new-job"),
    path("jobs/<uuid:job_id>", jobs.job, name="job"),
    path("jobs/<uuid:job_id>/<slug:action>", jobs.change, name="change-job"),
]

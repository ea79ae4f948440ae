"""Addresses of the pages."""

from django.urls import URLPattern, path

from federation.views import (
    clusters,
    jobs,
    limits,
    overview,
    queue,
    quota_mirror,
    quota_requests,
    quotas,
    reconciler,
    simulations,
    submit,
    tenants,
)

page_urls: list[URLPattern] = [
    path("", overview.overview, name="overview"),
    path("clusters", clusters.clusters, name="clusters"),
    path("clusters/<slug:name>", clusters.cluster, name="cluster"),
    path("clusters/<slug:name>/quota-mirror", quota_mirror.quota_mirror, name="quota-mirror"),
    path("clusters/<slug:name>/<slug:action>", clusters.change, name="change-cluster"),
    path("queue", queue.queue, name="queue"),
    path("quotas", quotas.quotas, name="quotas"),
    path("quotas/limits", limits.limits, name="quota-limits"),
    path("quotas/export", quotas.export, name="export-quotas"),
    path("quotas/undo/<int:entry_id>", quotas.undo_act, name="undo-quotas"),
    path("quotas/requests", quota_requests.requests, name="quota-requests"),
    path(
        "quotas/requests/<uuid:request_id>/<slug:action>",
        quota_requests.decide,
        name="decide-quota",
    ),
    path("simulations", simulations.simulations, name="simulations"),
    path("simulations/<uuid:simulation_id>", simulations.simulation, name="simulation"),
    path(
        "simulations/<uuid:simulation_id>/<slug:action>",
        simulations.change,
        name="change-simulation",
    ),
    path("tenants/move", tenants.move, name="move-tenant"),
    path("reconciler", reconciler.reconciler, name="reconciler"),
    path("reconciler/<uuid:case_id>", reconciler.case, name="case"),
    path("reconciler/<uuid:case_id>/<slug:action>", reconciler.act, name="case-act"),
    path("jobs", jobs.jobs, name="jobs"),
    path("jobs/new", submit.new_job, name="new-job"),
    path("jobs/<uuid:job_id>", jobs.job, name="job"),
    path("jobs/<uuid:job_id>/<slug:action>", jobs.change, name="change-job"),
]

"""Addresses of jobs, the queue, and what tenants use, under `/api/v1/`."""

from django.urls import path

from federation.api import (
    borrowing,
    checkpoints,
    fleet,
    intake,
    jobs,
    limits,
    queue,
    quota_mirror,
    quotas,
    reconciler,
    simulations,
    tenants,
)

job_urls = [
    path("jobs", jobs.Jobs.as_view(), name="jobs"),
    path("jobs/batch", jobs.Batch.as_view(), name="jobs_batch"),
    path("jobs/intake/sbatch", intake.Sbatch.as_view(), name="intake_sbatch"),
    path("jobs/intake/vcjob", intake.VolcanoJob.as_view(), name="intake_vcjob"),
    path("jobs/<uuid:job_id>", jobs.OneJob.as_view(), name="job"),
    path("jobs/<uuid:job_id>/cancel", jobs.Cancel.as_view(), name="cancel"),
    path("jobs/<uuid:job_id>/hold", jobs.Hold.as_view(), name="hold"),
    path("jobs/<uuid:job_id>/release", jobs.Release.as_view(), name="release"),
    path("jobs/<uuid:job_id>/checkpoint", jobs.Checkpoint.as_view(), name="checkpoint"),
    path("jobs/<uuid:job_id>/checkpoints", checkpoints.Proofs.as_view(), name="checkpoints"),
    path("jobs/<uuid:job_id>/events", jobs.Events.as_view(), name="job_events"),
    path("jobs/<uuid:job_id>/attempts", jobs.Attempts.as_view(), name="attempts"),
    path("jobs/<uuid:job_id>/explanation", jobs.Explanation.as_view(), name="explanation"),
    path("jobs/<uuid:job_id>/costs", jobs.Costs.as_view(), name="costs"),
]
urlpatterns = [
    path("clusters/<slug:name>", fleet.Member.as_view(), name="cluster"),
    path(
        "clusters/<slug:name>/quota-mirror",
        quota_mirror.QuotaMirror.as_view(),
        name="quota_mirror",
    ),
    path("queue", queue.Queue.as_view(), name="queue"),
    path("reconciler", reconciler.Reconciler.as_view(), name="reconciler"),
    path("reconciler/cases", reconciler.Cases.as_view(), name="cases"),
    path("reconciler/cases/<uuid:case_id>", reconciler.OneCase.as_view(), name="case"),
    path("reconciler/cases/<uuid:case_id>/<slug:action>", reconciler.Act.as_view(), name="act"),
    path("quotas", quotas.Quotas.as_view(), name="quotas"),
    path("quotas/borrowing", borrowing.Borrowing.as_view(), name="borrowing"),
    path("quotas/plan", quotas.Plan.as_view(), name="plan_quotas"),
    path("quotas/apply", quotas.Apply.as_view(), name="apply_quotas"),
    path("simulations", simulations.Simulations.as_view(), name="simulations"),
    path(
        "simulations/<uuid:simulation_id>",
        simulations.OneSimulation.as_view(),
        name="simulation",
    ),
    path(
        "simulations/<uuid:simulation_id>/cancel",
        simulations.CancelSimulation.as_view(),
        name="cancel_simulation",
    ),
    path("tenants/<path:path>/limits", limits.Limits.as_view(), name="tenant_limits"),
    path("tenants/<path:path>/quotas", tenants.Quotas.as_view(), name="tenant_quotas"),
    path("tenants/<path:path>/move", tenants.Move.as_view(), name="move_tenant"),
    path("tenants/<path:path>/usage", tenants.Usage.as_view(), name="tenant_usage"),
]

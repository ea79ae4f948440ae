"""A past for the scene: quotas, and weeks of jobs that ran, so that there is something to simulate."""

import random
from datetime import datetime, timedelta

from clusters.models import Cluster, ClusterFlavor, Flavor
from federation.models import Attempt, Job
from kit.ids import fence
from kit.intervals import to_ms
from quotas.services.rows import set_quota
from tenancy.models import Tenant
from tests.pages.scene import Scene

H100 = "h100-sxm-80"


def give_quotas(scene: Scene) -> None:
    """What tenants are guaranteed of one flavor."""
    for path, gpus in (("acme", 160), ("acme/vision", 96), ("acme/speech", 32), ("rival", 64)):
        set_quota(
            actor=scene.admin, tenant=Tenant.objects.get(path=path),
            flavor=Flavor.objects.get(name=H100), guaranteed=gpus, why="plan 27", now=scene.now,
        )  # fmt: skip


def give_past(scene: Scene, jobs: int) -> None:
    """So many jobs of three tenants over ten days, most of them longer than the fleet likes."""
    rng = random.Random(7)  # noqa: S311 - repeatable, no secret
    tenants = [Tenant.objects.get(path=p) for p in ("acme/vision", "acme/speech", "rival")]
    for number in range(jobs):
        began = scene.now - timedelta(days=10) * (1 - number / jobs)
        took = timedelta(hours=rng.uniform(0.5, 30))
        ended = min(began + took, scene.now)
        ran(scene, number, tenants[number % 3], rng.choice((1, 2, 4, 8)), began, ended)


def ran(
    scene: Scene, number: int, tenant: Tenant, nodes: int, began: datetime, ended: datetime
) -> None:
    """A job with one run on alpine."""
    cluster: Cluster = scene.alpine
    shape = {"gpus_per_node": 8, "cpus_per_node": 64, "memory_mib_per_node": 900_000}
    job = Job.objects.create(
        tenant=tenant, user=scene.mia, name=f"past-{number}", state="succeeded",
        wanted_class=("auto", "guaranteed", "spot")[number % 7 % 3], class_now="guaranteed",
        priority=500, options=[{"flavor": H100, "nodes": nodes, **shape}],
        time_limit_ms=72 * 3_600_000, start_timeout_ms=300_000, max_restarts=3,
        spec={"v": 1, "checkpoint": {"signal": "USR1", "grace": 120} if number % 2 else None},
        submitted_at=began, queued_at=began, started_at=began, ended_at=ended, attempts_made=1,
    )  # fmt: skip
    Attempt.objects.create(
        job=job, number=1, fence=fence(job.uuid, 1), cluster=cluster,
        flavor_id=ClusterFlavor.objects.get(cluster=cluster).flavor_id, service_class="guaranteed",
        nodes=[f"a{n:03d}" for n in range(nodes)], exclusive=True, tier="leaf", account="mia",
        state="ended", bound_at=began, ended_at=ended, gpus_per_node=8, cpus_per_node=64,
        memory_mib_per_node=900_000, runs=[[to_ms(began), to_ms(ended), 8 * nodes]],
    )  # fmt: skip

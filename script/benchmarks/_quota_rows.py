"""Rows for the benchmarks of quotas, written straight to the tables (needs Django)."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from accounting.models import Price
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Flavor, Node
from federation.models import Job
from quotas.models import Quota
from tenancy.models import Tenant, User

BATCH = 2_000
RUN = {"script": "#!/bin/bash\nsrun python train.py\n"}


def flavor_with_prices(name: str, now: datetime) -> Flavor:
    """A flavor, and its prices in both classes."""
    flavor = Flavor.objects.create(name=name)
    Price.objects.bulk_create(
        Price(flavor=flavor, service_class=kind, nano_per_gpu_hour=2_000_000_000, currency="USD",
              effective_from=now - timedelta(days=1))
        for kind in ("guaranteed", "spot")
    )  # fmt: skip
    return flavor


def cluster(name: str, flavor: str, *, nodes: int, gpus: int, now: datetime) -> Cluster:
    """A cluster of equal empty nodes, eight a leaf."""
    made = Cluster.objects.create(
        name=name, backend="slurm", endpoint="http://127.0.0.1:1", last_seen_at=now
    )
    ClusterFlavor.objects.create(cluster=made, flavor_id=flavor, device=flavor[:4])
    Node.objects.bulk_create(
        Node(cluster=made, name=f"n{number}", state="up", device=flavor[:4], gpus=gpus,
             cpus=gpus * 16, memory_mib=gpus * 131_072, path=[["leaf", f"l{number // 8}"]])
        for number in range(nodes)
    )  # fmt: skip
    return made


def person(name: str, clusters: Iterable[Cluster]) -> User:
    """A person with an account on the clusters."""
    user = User.objects.create(username=name)
    ClusterAccount.objects.bulk_create(
        ClusterAccount(cluster=one, user=user, account=name) for one in clusters
    )
    return user


def tenants(paths: Sequence[str]) -> list[Tenant]:
    """The tenants of the paths; parents come before their children."""
    known: dict[str, Tenant] = {}
    for path in paths:
        parent = known.get(path.rpartition("/")[0])
        made = Tenant(name=path.rpartition("/")[2], path=path, parent=parent)
        made.lineage = [*(parent.lineage if parent else ()), made.id]
        known[path] = made
    Tenant.objects.bulk_create(known.values())
    return list(known.values())


def quotas(rows: Iterable[tuple[Tenant, int, int | None]], flavor: Flavor) -> None:
    """Guaranteed GPUs and borrowing limits."""
    Quota.objects.bulk_create(
        Quota(tenant=tenant, flavor=flavor, guaranteed=guaranteed, borrowing_limit=limit)
        for tenant, guaranteed, limit in rows
    )


def job(
    tenant: Tenant,
    user: User,
    number: int,
    *,
    options: list[dict[str, Any]],
    now: datetime,
    wanted: str = "auto",
    priority: int = 500,
) -> Job:
    """A waiting job, not saved yet."""
    first = options[0]
    return Job(
        tenant=tenant, user=user, name=f"job-{number}", priority=priority, wanted_class=wanted,
        options=options, exclusive=False, time_limit_ms=3_600_000, start_timeout_ms=300_000,
        max_restarts=3, submitted_at=now, queued_at=now,
        spec={
            "v": 1, "name": "", "tenant": tenant.path, "class": wanted, "priority": priority,
            "flavors": [option["flavor"] for option in options], "prefer": "order",
            "gang": {"nodes": first["nodes"], "gpus_per_node": first["gpus_per_node"],
                     "cpus_per_gpu": first["cpus_per_node"] // first["gpus_per_node"],
                     "memory_per_node": f"{first['memory_mib_per_node']}Mi", "exclusive": False,
                     "start_timeout": 300, "max_restarts": 3},
            "topology": {"required": None, "preferred": None}, "parallelism": None,
            "time_limit": 3600, "checkpoint": None, "run": RUN, "environment": {}, "requires": [],
            "labels": {}, "clusters": {"only": [], "avoid": []}, "not_before": None,
        },
    )  # fmt: skip


def insert(jobs: Sequence[Job]) -> None:
    """Write the jobs in batches."""
    for first in range(0, len(jobs), BATCH):
        Job.objects.bulk_create(jobs[first : first + BATCH])

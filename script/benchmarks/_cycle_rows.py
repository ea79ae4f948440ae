"""Rows for the cycle benchmark, written straight to the tables (needs Django)."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from accounting.models import Price
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Flavor, Node
from federation.models import Job
from quotas.models import Quota
from script.benchmarks.cycle import LEAVES_PER_SPINE, NODES_PER_LEAF
from tenancy.models import Tenant, User

SCRIPT = "#!/bin/bash\n" + "srun torchrun --nnodes 16 train.py --config run.yaml\n" * 12
FREE_SHARE = 0.45


def clear() -> None:
    """Empty what an earlier size filled."""
    tables = (Job, Node, ClusterAccount, ClusterFlavor, Cluster, Quota, Price)
    with connection.cursor() as cursor:
        for model in tables:
            cursor.execute(f"TRUNCATE {model._meta.db_table} CASCADE")


def people_and_tenants(
    count: int, flavors: Sequence[str], now: datetime
) -> list[tuple[User, Tenant]]:
    """Teams of one organisation, each with a person, and prices and quotas for all."""
    Flavor.objects.bulk_create([Flavor(name=name) for name in flavors], ignore_conflicts=True)
    root = Tenant.objects.filter(path="acme").first() or Tenant(name="acme", path="acme")
    root.lineage = [root.id]
    root.save()
    pairs = []
    for number in range(count):
        name = f"team-{number}"
        user, _ = User.objects.get_or_create(username=name)
        path = f"acme/{name}"
        tenant = Tenant.objects.filter(path=path).first() or Tenant(name=name, path=path)
        tenant.parent, tenant.lineage = root, [root.id, tenant.id]
        tenant.save()
        pairs.append((user, tenant))
    Price.objects.bulk_create(
        Price(flavor_id=name, service_class=kind, nano_per_gpu_hour=2_000_000_000, currency="USD",
              effective_from=now - timedelta(days=1))
        for name in flavors for kind in ("guaranteed", "spot")
    )  # fmt: skip
    Quota.objects.bulk_create(
        Quota(tenant=tenant, flavor_id=name, guaranteed=guaranteed, borrowing_limit=limit)
        for number, tenant in enumerate([root, *(tenant for _, tenant in pairs)])
        for name in flavors
        for guaranteed, limit in [(16_384, None) if not number else (256, 64 * (number % 5))]
    )
    return pairs


def clusters(
    count: int,
    nodes: int,
    flavors: Sequence[str],
    people: Sequence[tuple[User, Tenant]],
    rng: random.Random,
    now: datetime,
) -> None:
    """Clusters of one flavor each; foreign load holds blocks of their nodes and bits of others."""
    for number in range(count):
        flavor = flavors[number % len(flavors)]
        cluster = Cluster.objects.create(
            name=f"c{number}", backend="slurm", endpoint="http://127.0.0.1:1", last_seen_at=now
        )
        ClusterFlavor.objects.create(cluster=cluster, flavor_id=flavor, device=flavor[:4])
        ClusterAccount.objects.bulk_create(
            ClusterAccount(cluster=cluster, user=user, account=user.username) for user, _ in people
        )
        Node.objects.bulk_create(
            Node(
                cluster=cluster, name=f"n{place}", state="up", device=flavor[:4], gpus=8, cpus=128,
                memory_mib=1_048_576,
                path=[["spine", f"s{place // (NODES_PER_LEAF * LEAVES_PER_SPINE)}"],
                      ["leaf", f"l{place // NODES_PER_LEAF}"]],
                foreign_gpus=gpus, foreign_cpus=gpus * 8, foreign_memory_mib=gpus * 65_536,
            )
            for place in range(nodes)
            for gpus in [0 if rng.random() < FREE_SHARE else rng.choice((8,) * 30 + (4, 2))]
        )  # fmt: skip


def jobs(
    count: int,
    asks: Sequence[dict[str, Any]],
    people: Sequence[tuple[User, Tenant]],
    rng: random.Random,
    now: datetime,
) -> None:
    """Waiting jobs, the asks dealt over them and the tenants at random."""
    for first in range(0, count, 1_000):
        batch = []
        for number in range(first, min(first + 1_000, count)):
            user, tenant = rng.choice(people)
            ask = asks[number % len(asks)]
            moment = now - timedelta(seconds=rng.randrange(86_400))
            batch.append(
                Job(
                    tenant=tenant, user=user, name=f"job-{number}", priority=rng.choice((100, 500, 700)),
                    wanted_class=rng.choice(("auto", "auto", "spot", "guaranteed")),
                    start_timeout_ms=300_000, max_restarts=3, submitted_at=moment,
                    queued_at=moment, spec=_spec(tenant, ask), **ask,
                )
            )  # fmt: skip
        Job.objects.bulk_create(batch)


def _spec(tenant: Tenant, ask: dict[str, Any]) -> dict[str, Any]:
    """The stored body that goes with an ask (as `JobSpec.to_json` writes it)."""
    first = ask["options"][0]
    return {
        "v": 1, "name": "", "tenant": tenant.path, "class": "auto", "priority": 500,
        "flavors": [option["flavor"] for option in ask["options"]], "prefer": "order",
        "gang": {"nodes": first["nodes"], "gpus_per_node": first["gpus_per_node"],
                 "cpus_per_gpu": first["cpus_per_node"] // first["gpus_per_node"],
                 "memory_per_node": f"{first['memory_mib_per_node']}Mi",
                 "exclusive": ask["exclusive"], "start_timeout": 300, "max_restarts": 3},
        "topology": {"required": ask["required_tier"] or None, "preferred": None},
        "parallelism": None, "time_limit": ask["time_limit_ms"] // 1000, "checkpoint": None,
        "run": {"script": SCRIPT}, "environment": {"NCCL_DEBUG": "WARN"}, "requires": [],
        "labels": {}, "clusters": {"only": [], "avoid": []}, "not_before": None,
    }  # fmt: skip

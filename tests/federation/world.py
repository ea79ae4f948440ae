"""A small federation in the database, for tests of the arbiter's edges."""

from collections.abc import Iterable
from datetime import timedelta

from accounting.models import Price
from clusters.models import Cluster, ClusterAccount, ClusterFlavor, Flavor, Node
from federation.core.spec import Checkpoint, FlavorChoice, GangAsk, JobSpec, Run
from federation.models import Job
from quotas.models import Quota
from tenancy.models import Tenant, User
from tests import make

NOW = make.NOW
FLAVOR = "h100-sxm-80"


class World:
    """Tenant acme/vision, mia with an account, cluster c1 of 4 nodes x 8 GPUs in leaves of 2."""

    def __init__(self, *, clusters: Iterable[str] = ("c1",), guaranteed: int = 64) -> None:
        self.user: User = make.person("mia")
        self.tenant: Tenant = make.tenant("acme/vision")
        self.flavor = Flavor.objects.create(name=FLAVOR)
        self.quota = Quota.objects.create(
            tenant=self.tenant, flavor=self.flavor, guaranteed=guaranteed
        )
        for service_class in ("guaranteed", "spot"):
            Price.objects.create(
                flavor=self.flavor,
                service_class=service_class,
                nano_per_gpu_hour=2_000_000_000,
                currency="USD",
                effective_from=NOW - timedelta(days=1),
            )
        self.clusters = {name: self.add_cluster(name) for name in clusters}

    def add_cluster(self, name: str, nodes: int = 4) -> Cluster:
        cluster = Cluster.objects.create(
            name=name,
            backend="slurm",
            endpoint="http://127.0.0.1:1",
            last_seen_at=NOW,
            options={"charge": "acct", "qos.guaranteed": "high", "qos.spot": "scavenger"},
        )
        ClusterFlavor.objects.create(
            cluster=cluster, flavor=self.flavor, device="h100", queue="gpu"
        )
        ClusterAccount.objects.create(cluster=cluster, user=self.user, account="mia_there")
        Node.objects.bulk_create(
            Node(
                cluster=cluster,
                name=f"n{number}",
                state="up",
                device="h100",
                gpus=8,
                cpus=64,
                memory_mib=1000,
                path=[["leaf", f"l{(number + 1) // 2}"]],
                queues=["gpu"],
            )
            for number in range(1, nodes + 1)
        )
        return cluster

    def job(self, nodes: int = 1, gpus: int = 8, **changes: object) -> Job:
        gang = GangAsk(nodes, gpus, 4)
        spec = JobSpec(
            tenant=self.tenant.path,
            gang=gang,
            flavors=(FlavorChoice(FLAVOR, gang),),
            time_limit_ms=3_600_000,
            run=Run("#!/bin/bash\ntrue", "/home/mia", "out-%j"),
            checkpoint=Checkpoint("USR1", 120_000),
            environment={"NCCL_DEBUG": "WARN"},
            labels={"experiment": "a17"},
        )
        fields: dict[str, object] = {
            "tenant": self.tenant,
            "user": self.user,
            "name": "llm",
            "wanted_class": "auto",
            "priority": 500,
            "options": spec.options(),
            "time_limit_ms": spec.time_limit_ms,
            "start_timeout_ms": 300_000,
            "max_restarts": 3,
            "spec": spec.to_json(),
            "submitted_at": NOW,
            "queued_at": NOW,
            **changes,
        }
        return Job.objects.create(**fields)

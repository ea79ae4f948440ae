"""A small federation for system tests: simulated clusters in a process, an organisation, a token.

Everything is made through the real services. `World.cycle()` is one turn of every worker in this
process: decide, deliver, observe, reconcile; tests of whole processes use `tests.stack` instead.
"""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import jwt
from django.db.models import F

from accounting.services.posting import meter_and_post
from accounting.services.prices import PriceScope, set_price
from clusters.core.observation import ACCOUNTING_LAG_MS
from clusters.models import Cluster, Command, Flavor
from clusters.selectors.traffic import clusters_to_deliver
from clusters.services.configure import set_account, set_cluster_flavor
from clusters.services.deliver import deliver
from clusters.services.observe import observe
from federation.core.cycle import decide
from federation.core.spec import JobSpec, parse_spec
from federation.models import Job
from federation.selectors.attempts import fences_to_look_up
from federation.selectors.snapshot import take_snapshot
from federation.services.commit import begin_term, commit_plan
from federation.services.evict import tend_evictions
from federation.services.life import tend_clusters
from federation.services.reconcile import reconcile_cluster
from federation.services.submit import submit_jobs
from quotas.services.rows import set_quota
from script.bootstrap import free_ports
from tenancy.models import Role, Tenant, User
from tenancy.services.access import create_token, set_member
from tests import make
from tests.stack import ROOT, eventually

LIFE = timedelta(seconds=4)
NANO = 1_000_000_000


def utc_now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


@dataclass
class Simulated:
    """One simulated cluster: its address, its key (Slurm) or token (Volcano), and its side door."""

    name: str
    port: int
    key: bytes
    kind: str = "slurm"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def state(self) -> dict[str, Any]:
        """What the laboratory says of itself."""
        return dict(httpx.get(f"{self.endpoint}/_control/state", timeout=60).json())

    def slurm(self, method: str, path: str, user: str = "root", **options: Any) -> dict[str, Any]:
        """Calls Slurm's REST interface past Muster, as anybody of the cluster could."""
        now_s = int(utc_now().timestamp())
        token = jwt.encode({"sun": user, "iat": now_s, "exp": now_s + 600}, self.key, "HS256")
        answer = httpx.request(
            method,
            f"{self.endpoint}/{path}",
            headers={"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token},
            timeout=60,
            **options,
        )
        return dict(answer.json())

    def submit_copy(self, fence: str, user: str = "mia") -> int:
        """A held job that bears a fence of ours, as a submit that arrived late would leave it."""
        job = {
            "name": fence,
            "comment": f"muster:{fence}",
            "account": "ml",
            "nodes": 1,
            "gres": "gpu:h100:8",
            "hold": True,
            "current_working_directory": "/tmp",  # noqa: S108
            "environment": {"PATH": "/bin"},
        }
        body = {"script": "#!/bin/bash\nsleep 60\n", "job": job}
        return int(self.slurm("POST", "slurm/v0.0.38/job/submit", user, json=body)["job_id"])

    def job_state(self, number: int) -> str:
        """What the controller says of a job."""
        return str(self.slurm("GET", f"slurm/v0.0.38/job/{number}")["jobs"][0]["job_state"])

    def runs(self) -> list[dict[str, Any]]:
        """Every record of the cluster's own accounting that got nodes."""
        records: list[dict[str, Any]] = self.slurm("GET", "slurmdb/v0.0.38/jobs")["jobs"]
        return [row for row in records if row["allocation_nodes"] and row["time"]["elapsed"] >= 0]

    def control(self, deed: str, **data: Any) -> dict[str, Any]:
        """Pulls a lever of the laboratory."""
        answer = httpx.post(f"{self.endpoint}/_control/{deed}", json=data, timeout=60)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@contextmanager
def simulated(directory: Path, **clusters: Mapping[str, Any]) -> Iterator[dict[str, Simulated]]:
    """A simulator process with these clusters; keyword values are fields of its configuration."""
    ports = free_ports(len(clusters))
    made, config = {}, []
    for port, (name, settings) in zip(ports, clusters.items(), strict=True):
        key = secrets.token_urlsafe(32).encode()
        (directory / f"{name}.key").write_bytes(key)
        made[name] = Simulated(name, port, key, settings.get("kind", "slurm"))
        if made[name].kind == "volcano":
            tokens = [{"token": key.decode(), "user": "muster"}]
            settings = {**settings, "volcano": {"tokens": tokens, "schedule_period_ms": 100}}
        config.append(
            {
                "name": name,
                "jwt_key_file": str(directory / f"{name}.key"),
                "port": port,
                "control": True,
                "users": [
                    {"name": "mia", "uid": 3001, "accounts": ["ml"]},
                    {"name": "otto", "uid": 3102, "accounts": ["ml"]},
                ],
                "tiers": [{"name": "leaf", "nodes": 4}],
                "pass_interval_ms": 50,
                "completing_ms": 50,
                "accounting_lag_ms": 100,
                "controller_timeout_ms": 500,
                **settings,
            }
        )
    path = directory / "simulator.json"
    path.write_text(json.dumps({"clusters": config}))
    with (directory / "simulator.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "simulator", "--config", str(path)],
            cwd=ROOT,
            env=dict(os.environ),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        for cluster in made.values():
            eventually(partial(_answers, cluster.endpoint), what=f"{cluster.name} is up")
        yield made
    finally:
        process.terminate()
        process.wait(60)


def like_new(clusters: dict[str, Simulated]) -> dict[str, Simulated]:
    """The same clusters without what a test did there: starting them anew costs a second."""
    for cluster in clusters.values():
        cluster.control("reset")
    return clusters


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/_control", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def register(cluster: Simulated, *, device: str, flavor: str, user: User) -> Cluster:
    """Makes a simulated cluster a member, with the user's account `mia` or namespace `team`."""
    now = utc_now()
    charge = {"charge": "ml"} if cluster.kind == "slurm" else {"namespaces": "team"}
    row = make.cluster(
        cluster.name,
        backend=cluster.kind,
        endpoint=cluster.endpoint,
        secret=cluster.key,
        options={**charge, "timeout_s": "3"},
        now=now,
    )
    model = Flavor.objects.filter(name=flavor).first() or make.flavor(flavor)
    queue, account, home = (
        ("batch", "mia", "/home/mia") if cluster.kind == "slurm" else ("default", "team", "")
    )
    set_cluster_flavor(actor=None, cluster=row, flavor=model, device=device, queue=queue, now=now)
    set_account(actor=None, cluster=row, user=user, account=account, home=home, now=now)
    return row


@dataclass
class World:
    """One organisation over some clusters, and turns of the workers."""

    tenant: Tenant
    user: User
    token: str
    clusters: dict[str, Cluster]
    simulated: dict[str, Simulated] = field(default_factory=dict)
    epoch: int = 0

    def spec(self, **changes: Any) -> JobSpec:
        """A parsed job body; see `body`."""
        parsed = parse_spec(self.body(**changes))
        assert isinstance(parsed, JobSpec), parsed
        return parsed

    def body(
        self, *, nodes: int = 1, gpus: int = 8, seconds: float = 2, exit_code: int = 0, **more: Any
    ) -> dict[str, Any]:
        """A job body of `nodes` nodes that runs so many seconds."""
        script = f"#!/bin/bash\nsleep {seconds}\nexit {exit_code}\n"
        return {
            "tenant": self.tenant.path,
            "flavors": ["h100-sxm-80"],
            "gang": {"nodes": nodes, "gpus_per_node": gpus},
            "time_limit": "1:00:00",
            "run": {"script": script, "workdir": "/tmp"},  # noqa: S108
            **more,
        }

    def submit(self, **changes: Any) -> Job:
        """Submits one job as the world's user."""
        return submit_jobs(user=self.user, specs=[self.spec(**changes)], now=utc_now()).jobs[0]

    def decide(self) -> None:
        """One cycle of the arbiter."""
        tend_clusters(now=utc_now())
        tend_evictions(now=utc_now())
        self.epoch = self.epoch or begin_term(now=utc_now())
        plan = decide(take_snapshot(utc_now()))
        commit_plan(plan=plan, epoch=self.epoch, now=utc_now())

    def deliver(self) -> None:
        """Delivers what is due."""
        for cluster_id in clusters_to_deliver(utc_now()):
            deliver(
                cluster_id=cluster_id,
                holder="test",
                life=LIFE,
                calls_at_once=4,
                longest=timedelta(seconds=10),
                clock=utc_now,
            )
            reconcile_cluster(cluster_id=cluster_id, now=utc_now())

    def observe(self) -> None:
        """Reads every cluster and reconciles."""
        for cluster in Cluster.objects.filter(pk__in=[row.pk for row in self.clusters.values()]):
            observe(
                cluster_id=cluster.id,
                fences=fences_to_look_up(cluster.id),
                holder="test",
                life=LIFE,
                clock=utc_now,
            )
            reconcile_cluster(cluster_id=cluster.id, now=utc_now())

    def turn(self) -> None:
        """One turn of everything."""
        self.decide()
        self.deliver()
        self.observe()
        meter_and_post(now=utc_now(), limit=1000)

    def pass_lag(self) -> None:
        """As if what accounting may lag were over since every cancel that was answered."""
        lag = timedelta(milliseconds=ACCOUNTING_LAG_MS)
        answered = Command.objects.filter(kind="cancel", answered_at__isnull=False)
        answered.update(answered_at=F("answered_at") - lag)

    def until(self, job: Job, *states: str, within_s: float = 120) -> Job:
        """Turns until the job is in one of the states."""

        def there() -> bool:
            self.turn()
            job.refresh_from_db()
            return job.state in states

        # A turn costs more than it waits: every process of a test run shares the cores.
        eventually(there, within_s=within_s, what=f"job is in one of {states}", every_s=0.3)
        return job


def make_world(
    clusters: dict[str, Simulated], devices: Mapping[str, tuple[str, str]], *, gpus: int = 1024
) -> World:
    """An organisation with quota for every flavor; `devices` are (GRES type, flavor) by cluster."""
    now = utc_now()
    user = make.person("mia")
    tenant = make.tenant("acme/vision")
    set_member(actor=None, tenant=tenant, user=user, role=Role.SUBMITTER, now=now)
    rows = {
        name: register(cluster, device=devices[name][0], flavor=devices[name][1], user=user)
        for name, cluster in clusters.items()
    }
    for flavor in Flavor.objects.all():
        set_quota(
            actor=None,
            tenant=tenant,
            flavor=flavor,
            cluster=None,
            guaranteed=gpus,
            borrowing_limit=None,
            expected_revision=None,
            why="test",
            now=now,
        )
        for service_class, price in (("guaranteed", 2 * NANO), ("spot", NANO)):
            set_price(
                actor=None,
                scope=PriceScope(flavor.name, service_class),
                nano_per_gpu_hour=price,
                currency="USD",
                effective_from=now - timedelta(days=1),
                now=now,
            )
    _, token = create_token(
        actor=user,
        user=user,
        name="test",
        scopes=["read", "submit"],
        expires_at=now + timedelta(days=1),
        now=now,
    )
    world = World(tenant, user, token, rows, clusters)
    world.observe()
    return world

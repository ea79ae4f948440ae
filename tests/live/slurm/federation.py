"""All of Muster over the two lab clusters, set up as an admin would and driven over REST."""

import os
import pwd
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from accounting.services.prices import PriceScope, set_price
from clusters.models import Cluster, Flavor
from clusters.selectors.connection import configuration_etag
from clusters.services.configure import (
    create_cluster,
    set_account,
    set_cluster_flavor,
    update_cluster,
)
from quotas.services.rows import set_quota
from tenancy.models import Role, User
from tenancy.services.access import create_token, set_member
from tests import make
from tests.live.slurm.gate import Gate
from tests.live.slurm.lab import LabCluster
from tests.stack import Stack, eventually

H100, A100 = "h100-sxm-80", "a100-sxm-80"
FLAVORS = {"alpha": H100, "beta": A100}
GPUS = 128  # of each cluster
# Nano-units per GPU-hour; odd, so that nothing divides evenly
PRICES = {
    (H100, "guaranteed"): 2_345_678_901,
    (H100, "spot"): 1_234_567_891,
    (A100, "guaranteed"): 1_876_543_211,
    (A100, "spot"): 987_654_323,
}
ORGANISATION = "live"
FINAL = ("succeeded", "failed", "cancelled")
Job = dict[str, Any]


def utc_now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


@dataclass
class Person:
    """Somebody with a token; `account` is theirs on every cluster, if they have one."""

    name: str
    user: User
    client: httpx.Client
    home: Path


@dataclass
class Muster:
    """The running service, its clusters and people."""

    stack: Stack
    labs: Mapping[str, LabCluster]
    homes: Path
    people: dict[str, Person] = field(default_factory=dict)

    # -- configuration, as an admin does it

    def register(self, lab: LabCluster) -> Cluster:
        """Makes a lab cluster a member."""
        now = utc_now()
        cluster = create_cluster(
            actor=None,
            name=lab.name,
            backend="slurm",
            endpoint=lab.endpoint,
            secret=lab.key,
            account="slurm",
            options={
                "charge": "ml",
                "qos.guaranteed": "guaranteed",
                "qos.spot": "spot",
                "timeout_s": "8",
                "environment.SLURM_CONF": lab.slurm_conf,
                "environment.PATH": f"{self.homes}/{{account}}/bin:/usr/bin:/bin",
            },
            now=now,
        )
        flavor = make.flavor(FLAVORS[lab.name])
        set_cluster_flavor(
            actor=None, cluster=cluster, flavor=flavor, device=lab.device, queue="batch", now=now
        )
        for service_class in ("guaranteed", "spot"):
            set_price(
                actor=None,
                scope=PriceScope(flavor.name, service_class),
                nano_per_gpu_hour=PRICES[flavor.name, service_class],
                currency="USD",
                effective_from=now - timedelta(days=1),
                now=now,
            )
        return cluster

    def welcome(self, name: str, *, clusters: Sequence[str] = (), account: str = "") -> Person:
        """A person with a token who submits for everybody, as `account` on these clusters."""
        now = utc_now()
        user = make.person(name)
        tenant = make.tenant(ORGANISATION)
        set_member(actor=None, tenant=tenant, user=user, role=Role.SUBMITTER, now=now)
        account = account or name
        home = self.homes / account
        for cluster in Cluster.objects.filter(name__in=clusters):
            set_account(
                actor=None, cluster=cluster, user=user, account=account, home=str(home), now=now
            )
        _, token = create_token(
            actor=user,
            user=user,
            name="live",
            scopes=["read", "submit"],
            expires_at=now + timedelta(days=1),
            now=now,
        )
        self.people[name] = Person(name, user, self.stack.api(token), home)
        return self.people[name]

    def make_home(self, account: str) -> Path:
        """A directory of the account's own, away from the machine's real homes."""
        home = self.homes / account
        (home / "bin").mkdir(parents=True)
        for path in (home, home / "bin"):
            give(path, account)
        return home

    def team(self, name: str, *, guaranteed: int = GPUS) -> str:
        """A new tenant with a guarantee of this many GPUs of each flavor; its path."""
        tenant = make.tenant(f"{ORGANISATION}/{name}")
        for flavor in FLAVORS.values():
            set_quota(
                actor=None,
                tenant=tenant,
                flavor=Flavor.objects.get(name=flavor),
                cluster=None,
                guaranteed=guaranteed,
                borrowing_limit=None,
                expected_revision=None,
                why="live test",
                now=utc_now(),
            )
        return str(tenant.path)

    @contextmanager
    def through_gate(self, name: str) -> Iterator[Gate]:
        """A time in which all calls to a cluster pass a gate of ours."""
        lab = self.labs[name]
        with Gate(lab.endpoint).open() as gate:
            self._go_to(name, gate.endpoint)
            try:
                yield gate
            finally:
                self._go_to(name, lab.endpoint)

    def _go_to(self, name: str, endpoint: str) -> None:
        cluster = Cluster.objects.get(name=name)
        update_cluster(
            actor=None,
            cluster=cluster,
            changes={"endpoint": endpoint},
            expected_etag=configuration_etag(cluster),
            now=utc_now(),
        )

    # -- what people do, over REST

    @property
    def mia(self) -> httpx.Client:
        return self.people["mia"].client

    def body(
        self,
        tenant: str,
        script: str = "sleep 1",
        *,
        nodes: int = 1,
        gpus: int = 8,
        flavors: Sequence[str] = (H100,),
        gang: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Job:
        """A job's body: a bash script of these lines, with the output in mia's directory."""
        run = {"script": f"#!/bin/bash\n{script}\n", "output": "%x.out"}
        return {
            "tenant": tenant,
            "flavors": list(flavors),
            "gang": {"nodes": nodes, "gpus_per_node": gpus, **(gang or {})},
            "time_limit": "1:00:00",
            "run": {"workdir": str(self.homes / "mia"), **run, **more.pop("run", {})},
            **more,
        }

    def submit(self, body: Job, *, by: str = "mia") -> str:
        """Submits a job; its id."""
        answer = self.people[by].client.post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def job(self, job_id: str) -> Job:
        return self.get(f"/jobs/{job_id}")

    def get(self, path: str, **query: Any) -> Job:
        """A document, as mia sees it."""
        answer = self.mia.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def pages(self, path: str, **query: Any) -> list[Job]:
        """All items of a list."""
        page = self.get(path, limit=500, **query)
        items = list(page["items"])
        while page["next"]:
            page = dict(self.mia.get(page["next"]).json())
            items += page["items"]
        return items

    def attempts(self, job_id: str) -> list[Job]:
        items: list[Job] = self.get(f"/jobs/{job_id}/attempts")["items"]
        return items

    def events(self, job_id: str) -> list[tuple[str, str]]:
        """Kinds (without `job.`) and causes."""
        rows = self.pages(f"/jobs/{job_id}/events")
        return [(row["kind"].removeprefix("job."), row["cause"]) for row in rows]

    def until(self, job_id: str, *states: str, within_s: float = 60) -> Job:
        """Waits until the job is in one of the states; the job then."""
        last: Job = {}

        def there() -> bool:
            last.update(self.job(job_id))
            if last["state"] in FINAL and last["state"] not in states:
                raise AssertionError(f"wanted {states}: {last}")
            return last["state"] in states

        try:
            eventually(there, within_s=within_s, every_s=0.2)
        except AssertionError as error:
            told = {"job": last, "events": self.pages(f"/jobs/{job_id}/events")}
            raise AssertionError(f"{error}: not {states} but {told}") from None
        return last

    def cancel(self, job_id: str) -> Job:
        answer = self.mia.post(f"/jobs/{job_id}/cancel")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def until_all(self, tenant: str, state: str, *, within_s: float) -> None:
        """Waits until all jobs of a tenant are in the state; fails at once when one ended else."""

        def there() -> bool:
            jobs = self.pages("/jobs", tenant=tenant)
            wrong = [job for job in jobs if job["state"] in FINAL and job["state"] != state]
            assert not wrong, wrong
            return all(job["state"] == state for job in jobs)

        eventually(there, within_s=within_s, every_s=0.5, what=f"all jobs of {tenant} {state}")

    def cluster(self, name: str) -> Job:
        return self.get(f"/clusters/{name}")

    def until_idle(self) -> None:
        """Waits until Muster sees every GPU of both clusters free."""

        def idle() -> bool:
            clusters = [self.cluster(name) for name in self.labs]
            free = [flavor["free"] for cluster in clusters for flavor in cluster["flavors"]]
            return free == [GPUS] * 2 and all(cluster["is_reachable"] for cluster in clusters)

        eventually(idle, within_s=90, every_s=0.2, what="both clusters are idle")

    def clear(self) -> None:
        """Ends whatever a test left behind, so that the next one starts on idle clusters."""
        for lab in self.labs.values():
            lab.drop_jobs()
            lab.mend()
        for job in self.pages("/jobs"):
            if job["state"] not in FINAL:
                self.mia.post(f"/jobs/{job['id']}/cancel")
        self.until_idle()


def give(path: Path, account: str) -> None:
    """Makes a path the account's own."""
    person = pwd.getpwnam(account)
    os.chown(path, person.pw_uid, person.pw_gid)


@contextmanager
def homes_in(lab: Path) -> Iterator[Path]:
    """A place for people's directories that every account may enter."""
    homes = lab / "homes" / secrets.token_hex(4)
    homes.mkdir(parents=True)
    yield homes
    shutil.rmtree(homes)

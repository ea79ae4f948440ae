"""All of Muster over a real API server in which Volcano is played, and a simulated Slurm beside it.

One queue, one shape of timeline, one ledger: what goes where it can be started, as its admin joined it,
over REST, with the rights of `deploy/member/volcano` and no more.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from clusters.models import Cluster, Flavor
from quotas.services.rows import set_quota
from tenancy.models import Role
from tenancy.services.access import create_token, set_member
from tenancy.services.people import create_person
from tests import make as rows
from tests.live.kubernetes.lab import LabCluster, apply, eventually, path_of
from tests.live.kubernetes.played import GPUS, NODES, played
from tests.live.kubernetes.test_rights import CLUSTER, TENANT, request_token
from tests.stack import Stack, started
from tests.world import World, make_world, simulated, utc_now

pytestmark = [pytest.mark.live, pytest.mark.django_db(transaction=True)]
FLAVOR = "h100-sxm-80"
PRICE = 2_000_000_000  # nano-units per GPU-hour of what is guaranteed, as `make_world` sets it
TIMELINE = ["queued", "dispatching", "pending", "running", "succeeded"]
GRACE = {"signal": "USR1", "grace": 1}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def fleet(gamma: LabCluster, admin: httpx.Client, namespace: str) -> Iterator[str]:
    """The namespace of a fleet with Volcano; Muster's account has its rights there."""
    for manifest in CLUSTER:
        apply(admin, manifest)
    for manifest in TENANT:
        apply(admin, manifest, namespace)
    with played(gamma, admin):
        yield namespace
    for manifest in reversed(CLUSTER):
        admin.delete(f"{path_of(manifest['kind'])}/{manifest['metadata']['name']}")


@dataclass
class Muster:
    """The service, the real cluster, and clients of a person and of an admin."""

    world: World
    stack: Stack
    namespace: str
    kubernetes: httpx.Client
    person: httpx.Client
    chief: httpx.Client

    def submit(self, nodes: int, run: Mapping[str, Any], **more: Any) -> str:
        body = {
            "tenant": self.world.tenant.path,
            "flavors": [FLAVOR],
            "gang": {"nodes": nodes, "gpus_per_node": GPUS},
            "time_limit": "1:00:00",
            "run": dict(run),
            **more,
        }
        answer = self.person.post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def job(self, job: str) -> Json:
        return dict(self.person.get(f"/jobs/{job}").json())

    def until(self, job: str, *states: str) -> Json:
        def there() -> bool:
            return self.job(job)["state"] in states

        try:
            eventually(there, f"{job} is {states}", within_s=60)
        except AssertionError:
            raise AssertionError(f"not in {states}: {self.job(job)}") from None
        return self.job(job)

    def timeline(self, job: str) -> list[str]:
        answer = self.person.get(f"/jobs/{job}/events")
        return [row["kind"].removeprefix("job.") for row in answer.json()["items"]]

    def vcjobs(self) -> list[str]:
        """The names of the jobs in the namespace that have not ended."""
        found = self.kubernetes.get(path_of("Job", self.namespace)).json()["items"]
        alive = [one for one in found if _phase(one) not in ("Completed", "Aborted", "Failed")]
        return sorted(one["metadata"]["name"] for one in alive)

    def pods(self, fence: str) -> list[Json]:
        answer = self.kubernetes.get(
            path_of("Pod", self.namespace), params={"labelSelector": f"muster/fence={fence}"}
        )
        found: list[Json] = answer.json()["items"]
        return sorted(found, key=lambda pod: pod["spec"]["nodeName"])

    def holds_nodes(self) -> bool:
        """Whether a pod of the namespace has not ended."""
        found = self.kubernetes.get(path_of("Pod", self.namespace)).json()["items"]
        return any(pod["status"]["phase"] in ("Pending", "Running") for pod in found)


def _phase(vcjob: Json) -> str:
    return str(vcjob.get("status", {}).get("state", {}).get("phase", ""))


@pytest.fixture
def muster(
    gamma: LabCluster,
    admin: httpx.Client,
    fleet: str,
    transactional_db: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Muster]:
    with simulated(
        tmp_path_factory.mktemp("slurm"), aurora={"nodes": NODES, "gpu_type": "h100"}
    ) as slurm:
        world = make_world(slurm, {"aurora": ("h100", FLAVOR)})
        ada = create_person(
            actor=None, username="ada", password=rows.PASSWORD, is_admin=True, now=utc_now()
        )
        _, text = create_token(
            actor=ada, user=ada, name="admin", scopes=["admin", "read", "submit"],
            expires_at=utc_now() + timedelta(days=1), now=utc_now(),
        )  # fmt: skip
        with (
            started(tmp_path_factory.mktemp("stack")) as stack,
            stack.api(world.token) as person,
            stack.api(text) as chief,
        ):
            made = Muster(world, stack, fleet, admin, person, chief)
            token = request_token(admin, 3600).json()["status"]["token"]
            join(made, gamma, token)
            yield made
    for name in made.vcjobs():  # of a test that failed: the next one needs the nodes
        admin.delete(f"{path_of('Job', fleet)}/{name}")
    eventually(lambda: not made.holds_nodes(), "no pod is left", within_s=60)


def join(muster: Muster, gamma: LabCluster, token: str) -> None:
    """As an admin does it: look first, then join."""
    body = {
        "name": "gamma",
        "backend": "volcano",
        "endpoint": gamma.endpoint,
        "secret": base64.b64encode(token.encode()).decode(),
        "options": {
            "namespaces": muster.namespace,
            "authority": (gamma.directory / "ca.crt").read_text(),
        },
        "flavors": [{"flavor": FLAVOR, "device": "nvidia.com/gpu:h100", "queue": "default"}],
        "accounts": [{"user": "mia", "account": muster.namespace}],
    }
    looked = muster.chief.post("/clusters/probe", json=body)
    assert looked.status_code == 200, looked.text
    assert looked.json()["is_ready"], looked.json()["wrong"]
    joined = muster.chief.post("/clusters", json=body)
    assert joined.status_code == 201, joined.text
    eventually(lambda: Cluster.objects.get(name="gamma").last_seen_at is not None, "gamma was read")


def image(seconds: int, exit_code: int = 0) -> Json:
    command = ["bash", "-c", f"sleep {seconds}\nexit {exit_code}"]
    return {"image": "registry.example/team/trainer:24.11", "command": command, "shm": "64Gi"}


def cost_of(pods: list[Json]) -> int:
    """What the pods themselves say that the gang costs, in nano-units."""

    def moment(text: str) -> int:
        return int(datetime.fromisoformat(text).timestamp())

    bound = [
        moment(one["lastTransitionTime"])
        for pod in pods
        for one in pod["status"]["conditions"]
        if one["type"] == "PodScheduled"
    ]
    ended = [
        moment(one["state"]["terminated"]["finishedAt"])
        for pod in pods
        for one in pod["status"]["containerStatuses"]
    ]
    return PRICE * GPUS * len(pods) * (max(ended) - min(bound)) // 3600


def test_the_same_gang_runs_as_a_script_on_slurm_and_as_an_image_on_volcano(
    muster: Muster,
) -> None:
    """The example of 16 nodes with 8 GPUs each, both ways, in one queue."""
    script = muster.submit(NODES, {"script": "#!/bin/bash\nsleep 3\n"})
    pods = muster.submit(NODES, image(3))
    for job, cluster in ((script, "aurora"), (pods, "gamma")):
        done = muster.until(job, "succeeded")
        attempt = done["attempt"]
        assert attempt["cluster"] == cluster
        assert attempt["nodes_seen"] == attempt["nodes"]
        assert (attempt["tier_promised"], attempt["tier_seen"]) == ("spine", "spine") or (
            attempt["tier_promised"] == attempt["tier_seen"]
        )
        assert muster.timeline(job) == TIMELINE
    attempt = muster.job(pods)["attempt"]
    there = muster.pods(attempt["fence"])
    assert [pod["spec"]["nodeName"] for pod in there] == sorted(attempt["nodes"])
    due = cost_of(there)

    def is_billed() -> bool:
        costs = muster.person.get(f"/jobs/{pods}/costs").json()
        return int(Decimal(costs["so_far"]["amount"]).scaleb(9)) == due

    eventually(is_billed, f"the gang is billed {due}")
    rows = muster.person.get("/ledger", params={"tenant": muster.world.tenant.path}).json()
    eventually(
        lambda: {row["job"] for row in ledger(muster)} >= {script, pods},
        f"both are in the ledger: {rows}",
    )


def ledger(muster: Muster) -> list[Json]:
    answer = muster.person.get("/ledger", params={"tenant": muster.world.tenant.path})
    found: list[Json] = answer.json()["items"]
    return found


def test_a_failing_container_a_cancel_and_a_job_that_is_deleted_by_hand(muster: Muster) -> None:
    failing = muster.submit(2, image(1, exit_code=3))
    assert "exit code 3" in muster.until(failing, "failed")["outcome"]
    running = muster.submit(2, image(600), checkpoint={"signal": "USR1", "grace": 1})
    muster.until(running, "running")
    muster.person.post(f"/jobs/{running}/cancel")
    muster.until(running, "cancelled")
    taken = muster.submit(2, image(600), checkpoint={"signal": "USR1", "grace": 1})
    fence = muster.until(taken, "running")["attempt"]["fence"]
    muster.kubernetes.delete(f"{path_of('Job', muster.namespace)}/{fence}")
    muster.until(taken, "unknown", "queued", "failed", "cancelled")


def test_what_drains_gives_its_waiting_jobs_to_the_other_world(muster: Muster) -> None:
    both = {**image(600), "script": "#!/bin/bash\nsleep 600\n"}
    grace = {"checkpoint": {"signal": "USR1", "grace": 1}}
    first, second = (muster.submit(NODES, both, **grace) for _ in range(2))
    clusters = {muster.until(job, "running")["attempt"]["cluster"] for job in (first, second)}
    assert clusters == {"aurora", "gamma"}
    where = {muster.job(job)["attempt"]["cluster"]: job for job in (first, second)}
    third = muster.submit(NODES, both, **grace)
    assert muster.chief.post("/clusters/aurora/drain", json={}).status_code in (200, 202, 204)
    muster.person.post(f"/jobs/{where['aurora']}/cancel")
    muster.until(where["aurora"], "cancelled")
    assert muster.job(third)["state"] == "queued"
    muster.person.post(f"/jobs/{where['gamma']}/cancel")
    assert muster.until(third, "running")["attempt"]["cluster"] == "gamma"
    muster.person.post(f"/jobs/{third}/cancel")
    muster.until(third, "cancelled")


def borrower(muster: Muster) -> str:
    """A tenant that is owed nothing, and may use what others leave idle; its path."""
    now = utc_now()
    tenant = rows.tenant("acme/language")
    set_member(actor=None, tenant=tenant, user=muster.world.user, role=Role.SUBMITTER, now=now)
    set_quota(
        actor=None, tenant=tenant, flavor=Flavor.objects.get(name=FLAVOR), cluster=None,
        guaranteed=0, borrowing_limit=None, expected_revision=None, why="test", now=now,
    )  # fmt: skip
    return str(tenant.path)


@pytest.mark.parametrize("topology", [{}, {"topology": {"required": "leaf"}}], ids=str)
def test_an_owner_takes_back_one_gang_where_volcano_would_break_two_or_three(
    muster: Muster, topology: Json
) -> None:
    """The scene of volcano-observed 10: four spot gangs of four nodes, and a fifth that is owed."""
    tenant = borrower(muster)
    spot: Json = {"tenant": tenant, "class": "spot", "checkpoint": GRACE}
    lent = [muster.submit(4, image(600), **spot) for _ in range(4)]
    for job in lent:
        muster.until(job, "running")
    owed = muster.submit(4, image(1), **{"class": "guaranteed"}, **topology)
    held = set(muster.until(owed, "succeeded")["attempt"]["nodes"])
    broken = []
    for job in lent:
        first = muster.person.get(f"/jobs/{job}/attempts").json()["items"][0]
        if first["end_cause"]:
            assert (first["end_cause"], set(first["nodes"])) == ("reclaimed", held)
            broken.append(job)
    assert len(broken) == 1
    muster.until(broken[0], "running")  # again, once what was owed is done
    for job in lent:
        muster.person.post(f"/jobs/{job}/cancel")
    for job in lent:
        muster.until(job, "cancelled")


def test_a_worker_that_is_killed_while_it_submits_leaves_one_job_of_each_name(
    muster: Muster,
) -> None:
    """It dies as soon as the server has the first of them: some are made and not yet answered."""
    jobs = [muster.submit(1, image(600), checkpoint=GRACE) for _ in range(8)]
    eventually(lambda: bool(muster.vcjobs()), "the first one is made", within_s=60)
    muster.stack.restart("worker-dispatch")
    for job in jobs:
        muster.until(job, "running")
    fences = [muster.job(job)["attempt"]["fence"] for job in jobs]
    assert sorted(fences) == muster.vcjobs()
    assert {muster.job(job)["attempt"]["number"] for job in jobs} == {1}
    for job in jobs:
        muster.person.post(f"/jobs/{job}/cancel")
    for job in jobs:
        muster.until(job, "cancelled")

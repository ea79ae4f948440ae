"""Cases of orders and duplicates, made on a simulated cluster and settled as an operator would.

Each is listed, looked at, tried dry, done, and then what the cluster does is looked at.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from clusters.models import Command
from clusters.services.observe import observe
from federation.models import Attempt, Job
from tenancy.models import AuditEntry
from tests import make
from tests.api.world import Caller, caller
from tests.stack import eventually
from tests.world import LIFE, Simulated, World, like_new, make_world, simulated, utc_now

LONG_S = 120
OLD = timedelta(minutes=5)
DENIED = json.dumps({"errors": [{"error_code": 2002, "error": "Access/permission denied"}]})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    two = {"nodes": 2, "gpu_type": "h100"}
    with simulated(tmp_path_factory.mktemp("fleet"), aurora=two) as clusters:
        yield clusters


@pytest.fixture
def world(fleet: dict[str, Simulated], transactional_db: None) -> Iterator[World]:
    yield make_world(like_new(fleet), {"aurora": ("h100", "h100-sxm-80")})
    fleet["aurora"].control("faults/clear")


@pytest.fixture
def ada(world: World) -> Caller:
    return caller(make.admin())


def attempt_of(job: Job) -> Attempt:
    return Attempt.objects.filter(job=job).latest("number")


def cases(ada: Caller, kind: str) -> list[dict[str, Any]]:
    answer = ada.get(f"/reconciler/cases?cluster=aurora&kind={kind}")
    assert answer.status_code == 200, answer.content
    return list(answer.json()["items"])


def age(job: Job) -> None:
    """Minutes pass for the orders of a job."""
    fence, old = attempt_of(job).fence, utc_now() - OLD
    orders = Command.objects.filter(fence=fence)
    orders.update(created_at=old)
    orders.exclude(sent_at=None).update(sent_at=old)
    orders.exclude(answered_at=None).update(answered_at=old)


def settle(ada: Caller, kind: str, action: str, job: Job) -> dict[str, Any]:
    """The one case of the kind, tried dry and then done; as it was shown."""
    (case,) = cases(ada, kind)
    assert case["job"]["id"] == str(job.uuid)
    offers = {offer["action"]: offer for offer in case["actions"]}
    assert offers[action]["is_offered"]
    assert all(offer["why_not"] for offer in offers.values() if not offer["is_offered"])
    before = list(Command.objects.order_by("id").values())
    path = f"/reconciler/cases/{case['id']}/{action}"
    dry = ada.post(path, {"why": "a test", "dry_run": True})
    assert (dry.status_code, dry.json()["is_done"]) == (200, False)
    assert list(Command.objects.order_by("id").values()) == before
    assert not AuditEntry.objects.filter(object_type="case").exists()
    done = ada.post(path, {"why": "a test"})
    assert (done.status_code, done.json()["is_done"]) == (200, True)
    assert {**dry.json(), "dry_run": False, "is_done": True} == done.json()
    entry = AuditEntry.objects.get(object_type="case")
    assert (entry.action, entry.why, entry.object_id) == (action, "a test", case["id"])
    assert entry.after == {"steps": dry.json()["steps"]}
    return case


def gone(world: World, ada: Caller, kind: str) -> None:
    def is_gone() -> bool:
        world.deliver()
        world.observe()
        return cases(ada, kind) == []

    eventually(is_gone, within_s=LONG_S, what=f"no case {kind} is left")


def under(aurora: Simulated, fence: str) -> list[str]:
    """The states of all jobs of a name, past Muster."""
    rows = aurora.slurm("GET", "slurm/v0.0.38/jobs")["jobs"]
    return sorted(row["job_state"] for row in rows if row["name"] == fence)


def test_of_a_duplicate_the_one_that_runs_is_kept(world: World, ada: Caller) -> None:
    aurora = world.simulated["aurora"]
    job = world.until(world.submit(seconds=3000), "running", within_s=LONG_S)
    fence = attempt_of(job).fence
    aurora.submit_copy(fence)
    cluster = world.clusters["aurora"]
    observe(  # before reconciling sees it, which would do the same by itself
        cluster_id=cluster.id, fences=[], holder="test", life=LIFE, clock=utc_now
    )
    case = settle(ada, "duplicate", "adopt", job)
    assert sorted(seen["state"] for seen in case["evidence"]["objects"]) == ["held", "running"]
    assert (len(case["backend_ids"]), case["order"]) == (2, "")
    gone(world, ada, "duplicate")
    assert under(aurora, fence) == ["CANCELLED", "RUNNING"]


def test_an_ambiguous_order_is_sent_again_and_finds_what_arrived(world: World, ada: Caller) -> None:
    aurora = world.simulated["aurora"]
    aurora.control("faults/add", kind="drop_after", path="job/submit")
    job = world.submit(seconds=3000)
    world.decide()
    world.deliver()
    age(job)
    case = settle(ada, "ambiguous", "resubmit", job)
    (order,) = case["evidence"]["orders"]
    assert (order["kind"], order["state"], order["tries"]) == ("submit", "sent", 1)
    assert order["key"] == case["order"]
    assert order["error"]  # in the words of the wire
    gone(world, ada, "ambiguous")
    world.until(job, "running", within_s=LONG_S)
    assert under(aurora, attempt_of(job).fence) == ["RUNNING"]


def test_a_parked_order_goes_out_when_it_is_sent_again(world: World, ada: Caller) -> None:
    aurora = world.simulated["aurora"]
    aurora.control("slurmctld/down")
    job = world.submit(seconds=3000)
    world.decide()
    world.deliver()
    age(job)
    case = settle(ada, "parked", "resubmit", job)
    (order,) = case["evidence"]["orders"]
    assert (order["kind"], order["state"]) == ("submit", "waiting")
    assert order["error"]
    aurora.control("slurmctld/up", unknown_ms=0)
    gone(world, ada, "parked")
    world.until(job, "running", within_s=LONG_S)
    assert under(aurora, attempt_of(job).fence) == ["RUNNING"]


def test_a_refused_cancel_goes_out_once_more_and_ends_the_job(world: World, ada: Caller) -> None:
    aurora = world.simulated["aurora"]
    job = world.until(world.submit(seconds=3000), "running", within_s=LONG_S)
    deny = {"kind": "reply_before", "method": "DELETE", "status": 500, "text": DENIED}
    aurora.control("faults/add", **deny)
    person = caller(world.user)
    assert person.post(f"/jobs/{job.uuid}/cancel").status_code == 200
    world.deliver()
    age(job)
    case = settle(ada, "rejected", "resubmit", job)
    (order,) = (row for row in case["evidence"]["orders"] if row["kind"] == "cancel")
    assert (order["state"], "denied" in order["error"]) == ("rejected", True)
    assert order["key"] == case["order"]  # of several orders this is the one
    world.until(job, "cancelled", within_s=LONG_S)
    assert cases(ada, "rejected") == []
    assert under(aurora, attempt_of(job).fence) == ["CANCELLED"]

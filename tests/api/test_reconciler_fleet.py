"""The reconciler's actions against simulated clusters: from the case to what the cluster does."""

from collections.abc import Iterator
from typing import Any

import pytest

from clusters.models import Command
from federation.models import Attempt
from tests import make
from tests.api.world import Caller, caller
from tests.stack import eventually
from tests.world import Simulated, World, like_new, make_world, simulated

LONG_S = 120
ORPHAN, NAMESAKE = "mst-aaaaaaaaaaaa-a1", "mst-bbbbbbbbbbbb-a2"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    aurora = {"nodes": 4, "gpu_type": "h100"}
    with simulated(tmp_path_factory.mktemp("fleet"), aurora=aurora) as clusters:
        yield clusters


@pytest.fixture
def world(fleet: dict[str, Simulated], transactional_db: None) -> World:
    return make_world(like_new(fleet), {"aurora": ("h100", "h100-sxm-80")})


def cases(ada: Caller, kind: str) -> list[dict[str, Any]]:
    answer = ada.get(f"/reconciler/cases?kind={kind}")
    assert answer.status_code == 200, answer.content
    return list(answer.json()["items"])


def offered(ada: Caller, kind: str, action: str) -> dict[str, Any] | None:
    """The one case of the kind, once the action is offered for it."""
    for case in cases(ada, kind):
        for offer in case["actions"]:
            if offer["action"] == action and offer["is_offered"]:
                return case
    return None


def act(ada: Caller, world: World, kind: str, action: str) -> None:
    """Reads the clusters until the action is offered, and does it at once."""

    def done() -> bool:
        world.observe()
        case = offered(ada, kind, action)
        if case is None:
            return False
        answer = ada.post(f"/reconciler/cases/{case['id']}/{action}", {"why": "a test"})
        return bool(answer.status_code == 200)

    eventually(done, within_s=LONG_S, what=f"{action} of a case {kind} is done")


def test_what_a_rebuilt_cluster_lost_runs_once_more_when_an_admin_says_so(world: World) -> None:
    ada = caller(make.admin())
    job = world.until(world.submit(seconds=3), "running", within_s=LONG_S)
    world.simulated["aurora"].control("reset")
    world.until(job, "unknown", within_s=LONG_S)
    world.turn()
    assert Attempt.objects.filter(job=job).count() == 1  # never started again by itself
    act(ada, world, "lost", "resubmit")
    job.refresh_from_db()
    assert job.state == "stopping"
    assert offered(ada, "lost", "resubmit") is None
    world.deliver()  # the cancel; the cluster knows of nothing
    world.pass_lag()
    world.until(job, "succeeded", within_s=LONG_S)
    first, second = Attempt.objects.filter(job=job)
    assert (first.state, first.end_cause) == ("ended", "resubmitted")
    assert Command.objects.get(key=f"cancel:{first.id}").state == "done"
    names = [run["name"] for run in world.simulated["aurora"].runs()]
    assert names == [second.fence]
    assert first.runs[0][1] is not None  # billed up to the moment it was lost


def test_an_orphan_is_ended_and_a_namesake_left_alone(world: World) -> None:
    ada = caller(make.admin())
    aurora = world.simulated["aurora"]
    number = aurora.submit_copy(ORPHAN)
    theirs = aurora.control("foreign/add", name=NAMESAKE, nodes=1, seconds=3600)["job_id"]
    act(ada, world, "orphan", "cancel")
    world.deliver()
    eventually(
        lambda: "CANCELLED" in str(aurora.job_state(number)), within_s=LONG_S, what="it is over"
    )
    world.observe()
    assert cases(ada, "orphan") == []
    (case,) = cases(ada, "foreign_name")
    assert (case["fence"], case["backend_ids"]) == (NAMESAKE, [str(theirs)])
    for offer in case["actions"]:
        path = f"/reconciler/cases/{case['id']}/{offer['action']}"
        assert ada.post(path, {"why": "a test"}).status_code == 409
    world.deliver()
    assert "RUNNING" in str(aurora.job_state(theirs))

"""Orders to signal: what becomes of them when they come late, twice, or without an answer."""

from datetime import datetime, timedelta
from uuid import uuid4

import httpx
import pytest

from clusters.models import Cluster, Command
from clusters.services.deliver import deliver
from clusters.services.orders import SETTLES, Signal, order_cancel, order_signals
from tests import make
from tests.clusters.members import Member, installed
from tests.make import NOW

pytestmark = pytest.mark.django_db
FENCE = "mst-aaaaaaaaaaaa-a1"
ATTEMPT = uuid4()


def ordered(cluster: Cluster, fence: str = FENCE, since: datetime = NOW - SETTLES) -> None:
    signal = Signal(ATTEMPT, cluster.id, fence, "mia", "USR1", since)
    order_signals(signals=[signal], now=NOW)


def deliver_to(cluster: Cluster, at: datetime = NOW) -> int:
    return deliver(
        cluster_id=cluster.id,
        holder="test",
        life=timedelta(seconds=60),
        calls_at_once=1,
        longest=timedelta(seconds=30),
        clock=lambda: at,
    )


def member(
    state: str = "RUNNING", answer: httpx.Response | None = None, *, name: str = FENCE
) -> Member:
    """A member with one job under the fence; `answer` in place of its own to the signal."""

    def first(request: httpx.Request) -> httpx.Response | None:
        return answer if request.method == "DELETE" else None

    made = Member(first)
    made.jobs[7] = {
        "job_id": 7,
        "name": name,
        "comment": f"muster:{name}",
        "user_name": "mia",
        "job_state": state,
        "nodes": "n1",
    }
    return made


@pytest.fixture
def cluster() -> Cluster:
    return make.cluster("aurora", options={"api_version": "v0.0.38", "accounting": "off"})


def only() -> Command:
    return Command.objects.get(kind="signal")


def test_a_signal_is_delivered_once(cluster: Cluster) -> None:
    ordered(cluster)
    with installed(aurora=(there := member())):
        assert (deliver_to(cluster), deliver_to(cluster)) == (1, 0)
    assert there.asked == ["GET jobs", "DELETE job/7"]
    assert (only().state, only().tries) == ("done", 1)


@pytest.mark.parametrize("ahead_s", [-2, 0, 600])  # also by a cluster's clock that runs ahead
def test_what_has_just_begun_is_signalled_when_its_shell_is_there(
    cluster: Cluster, ahead_s: int
) -> None:
    since = NOW + timedelta(seconds=ahead_s)
    ordered(cluster, since=since)
    due = min(since, NOW) + SETTLES
    with installed(aurora=(there := member())):
        assert deliver_to(cluster, due - timedelta(milliseconds=1)) == 0
        assert deliver_to(cluster, due) == 1
    assert there.asked == ["GET jobs", "DELETE job/7"]


@pytest.mark.parametrize("state", ["PENDING", "COMPLETED", "CANCELLED"])
def test_what_does_not_run_is_not_signalled_and_nobody_need_mind(
    cluster: Cluster, state: str
) -> None:
    ordered(cluster)
    with installed(aurora=(there := member(state))):
        deliver_to(cluster)
    assert there.asked == ["GET jobs"]
    assert (only().state, only().answer) == ("dropped", {"code": "not_running"})


def test_what_the_cluster_refuses_is_kept_for_an_admin(cluster: Cluster) -> None:
    ordered(cluster)
    refusal = {"error_number": 2002, "error": "Access/permission denied", "source": "x"}
    answer = httpx.Response(500, json={"errors": [refusal]})
    with installed(aurora=member(answer=answer)):
        deliver_to(cluster)
    assert only().state == "rejected"


def test_an_answer_that_was_lost_is_asked_for_by_signalling_again(cluster: Cluster) -> None:
    ordered(cluster)
    with installed(aurora=member(answer=httpx.Response(500, text="Zero Bytes were transmitted"))):
        deliver_to(cluster)
    assert only().state in {"sent", "waiting"}
    with installed(aurora=(there := member())):
        deliver_to(cluster, NOW + timedelta(minutes=5))
    assert there.asked[-1] == "DELETE job/7"
    assert only().state == "done"


def test_a_cancel_ends_a_signal_that_was_not_delivered(cluster: Cluster) -> None:
    ordered(cluster)
    order_cancel(attempt_id=ATTEMPT, cluster_id=cluster.id, fence=FENCE, account="mia", now=NOW)
    with installed(aurora=(there := member())):
        deliver_to(cluster)
    assert only().state == "dropped"
    assert there.asked == ["GET jobs", "DELETE job/7"], "cancelled, not signalled"


def test_a_namesake_without_our_mark_is_not_signalled(cluster: Cluster) -> None:
    ordered(cluster)
    there = member()
    there.jobs[7]["comment"] = "somebody else's"
    with installed(aurora=there):
        deliver_to(cluster)
    assert only().state == "dropped"


def test_one_that_noted_its_checkpoint_over_our_mark_is(cluster: Cluster) -> None:
    ordered(cluster)
    there = member()
    there.jobs[7]["comment"] = "muster-checkpoint=5"
    with installed(aurora=there):
        deliver_to(cluster)
    assert only().state == "done"

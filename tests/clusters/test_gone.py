"""A cluster leaves, or its row is deleted, at any moment of a round: the round ends quietly."""

import logging
from collections.abc import Callable
from datetime import datetime

import httpx
import pytest

from clusters.models import Cluster, Command, Lease, Observation
from clusters.services.configure import set_secret, update_cluster
from clusters.services.deliver import deliver
from clusters.services.fleet import set_state
from clusters.services.observe import observe
from clusters.services.recall import LEFT, hold_traffic, recall
from federation import tasks
from federation.services.life import leave_cluster
from kit.errors import NotFoundError
from kit.intervals import to_ms
from tenancy.models import AuditEntry, Event
from tests import make
from tests.clusters.backends.fake import reply
from tests.clusters.members import Member, installed
from tests.clusters.test_deliver import LIFE, PINNED, order, states
from tests.make import NOW

MOST_LOOKS = 12  # at the clock, in the longest of these rounds
Act = Callable[[Cluster, Callable[[], datetime]], object]


def leave(cluster: Cluster) -> None:
    leave_cluster(actor=None, cluster=cluster, plan="forget", why="a test", now=NOW)


def delete(cluster: Cluster) -> None:
    Command.objects.filter(cluster=cluster).delete()
    Cluster.everything.filter(pk=cluster.pk).delete()


def tells_time(request: httpx.Request) -> httpx.Response | None:
    is_diag = request.url.path.endswith("/diag")
    return reply(statistics={"req_time": to_ms(NOW) // 1000}) if is_diag else None


def delivers(cluster: Cluster, clock: Callable[[], datetime]) -> object:
    return deliver(
        cluster_id=cluster.id, holder="test", life=LIFE, calls_at_once=2, longest=LIFE, clock=clock
    )


def observes(cluster: Cluster, clock: Callable[[], datetime]) -> object:
    return observe(cluster_id=cluster.id, fences=[], holder="test", life=LIFE, clock=clock)


def at_look(number: int, act: Callable[[], None]) -> Callable[[], datetime]:
    """A clock that does something when it is looked at for this time."""
    looks = [0]

    def clock() -> datetime:
        looks[0] += 1
        if looks[0] == number:
            act()
        return NOW

    return clock


@pytest.mark.django_db
@pytest.mark.parametrize("end", [leave, delete])
@pytest.mark.parametrize("act", [delivers, observes])
@pytest.mark.parametrize("answers", [True, False])
def test_a_round_ends_quietly_whenever_its_cluster_goes(
    act: Act, end: Callable[[Cluster], None], answers: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def first(request: httpx.Request) -> httpx.Response | None:
        if not answers:
            raise httpx.ConnectError("no", request=request)
        return tells_time(request)

    went = 0
    for look in range(MOST_LOOKS):
        cluster = make.cluster(f"c{look}", options=PINNED)
        order(cluster, 4)
        gone: list[int] = []

        def go(cluster: Cluster = cluster, gone: list[int] = gone) -> None:
            end(cluster)
            gone.append(1)

        if look == 0:
            go()
        with installed(**{cluster.name: Member(first)}):
            act(cluster, at_look(look, go))
        if gone:
            went += 1
            assert not Observation.objects.filter(cluster=cluster).exists()
            assert "sent" not in states(cluster)
            assert "waiting" not in states(cluster)
    assert went >= 2
    assert not [row for row in caplog.records if row.levelno >= logging.ERROR]
    if end is leave:
        assert not Event.objects.filter(kind="cluster.silent", subject="c0").exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("task", [tasks.dispatch, tasks.observe])
def test_a_message_about_a_cluster_that_left_is_of_no_effect(task: Callable[[str], None]) -> None:
    cluster = make.cluster("aurora", options=PINNED)
    leave(cluster)
    member = Member(lambda _: None)
    with installed(aurora=member):
        task(str(cluster.id))
        task("00000000-0000-0000-0000-000000000000")
    assert member.asked == []
    assert not Lease.objects.exists()


@pytest.mark.django_db
def test_what_people_do_to_a_cluster_that_just_left_is_not_found() -> None:
    cluster = make.cluster("aurora")
    leave(cluster)
    before = AuditEntry.objects.count()
    draining = Cluster.State.DRAINING
    for act in (
        lambda: set_state(actor=None, cluster=cluster, state=draining, now=NOW),
        lambda: update_cluster(
            actor=None, cluster=cluster, changes={"title": "x"}, expected_etag=None, now=NOW
        ),
        lambda: set_secret(actor=None, cluster=cluster, secret=b"k" * 32, now=NOW),
        lambda: leave_cluster(actor=None, cluster=cluster, now=NOW),
    ):
        with pytest.raises(NotFoundError, match="aurora has left"):
            act()
    assert AuditEntry.objects.count() == before


@pytest.mark.django_db
def test_a_recovery_says_that_a_cluster_left_meanwhile() -> None:
    cluster = make.cluster("aurora", options=PINNED)
    (key,) = hold_traffic(since=NOW, now=NOW)
    with installed(aurora=Member(tells_time)):
        told = recall(cluster_id=key, clock=at_look(1, lambda: leave(cluster)))
        again = recall(cluster_id=key, clock=lambda: NOW)
    assert told == again
    assert (told.name, told.words) == ("aurora", LEFT)
    assert hold_traffic(since=NOW, now=NOW) == []

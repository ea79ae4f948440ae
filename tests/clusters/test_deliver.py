"""Rounds of delivery: what a window keeps of the guarantees, and how hard a member is called."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import httpx
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import Cluster, Command, Lease
from clusters.services import lease
from clusters.services.deliver import deliver
from clusters.services.observe import observe
from clusters.services.results import Result, record
from federation import tasks
from tests import make
from tests.clusters.backends.test_translate import GANG
from tests.clusters.members import Member, installed
from tests.make import NOW
from tests.stack import eventually

LIFE = timedelta(seconds=60)
PINNED = {"api_version": "v0.0.38", "accounting": "off"}


def member_cluster(name: str = "aurora", **limits: int) -> Cluster:
    cluster = make.cluster(name, options=PINNED)
    Cluster.objects.filter(id=cluster.id).update(**limits)
    return cluster


def order(cluster: Cluster, count: int, kind: str = "submit") -> list[str]:
    """So many orders; their fences."""
    fences = [f"mst-{cluster.name}{number}-a1" for number in range(count)]
    Command.objects.bulk_create(
        Command(
            key=f"{kind}:{fence}",
            cluster=cluster,
            kind=kind,
            fence=fence,
            payload=replace(GANG, fence=fence).to_json() if kind == "submit" else CANCEL,
            created_at=NOW,
            not_before=NOW,
        )
        for fence in fences
    )
    return fences


CANCEL = {"v": 1, "account": "mia"}


def deliver_to(cluster: Cluster, at: datetime = NOW, calls_at_once: int = 4) -> int:
    return deliver(
        cluster_id=cluster.id,
        holder="test",
        life=LIFE,
        calls_at_once=calls_at_once,
        longest=timedelta(seconds=30),
        clock=lambda: at,
    )


def states(cluster: Cluster) -> dict[str, int]:
    rows = Command.objects.filter(cluster=cluster).values_list("state", flat=True)
    found = list(rows)
    return {state: found.count(state) for state in set(found)}


def obedient(_: httpx.Request) -> None:
    return None


@pytest.mark.django_db
def test_results_are_one_statement_and_only_of_what_is_still_mine() -> None:
    cluster = member_cluster()
    order(cluster, 4)
    mine, lost, dropped, refused = Command.objects.order_by("id")
    Command.objects.update(state="sent", sent_at=NOW, lease_epoch=7)
    Command.objects.filter(id=lost.id).update(lease_epoch=8)  # another holder sent it since
    Command.objects.filter(id=dropped.id).update(state="dropped", error="cancelled")
    done = Command.State.DONE
    with CaptureQueriesContext(connection) as queries:
        written = record(
            epoch=7,
            results=[
                Result(mine.id, done, 1, NOW, "", {"backend_id": "5"}),
                Result(lost.id, done, 1, NOW, "", {"backend_id": "6"}),
                Result(dropped.id, done, 1, NOW, "", {"backend_id": "7"}),
                Result(refused.id, Command.State.REJECTED, 3, NOW, "no", {"code": "2015"}),
            ],
        )
    assert len(queries) == 1
    assert written == 2
    mine, lost, dropped, refused = Command.objects.order_by("id")
    assert (mine.state, mine.tries, mine.answered_at, mine.answer, mine.not_before) == (
        "done", 1, NOW, {"backend_id": "5"}, NOW,
    )  # fmt: skip
    assert (refused.state, refused.error, refused.answer) == ("rejected", "no", {"code": "2015"})
    assert (lost.state, lost.answer, lost.tries) == ("sent", None, 0)
    assert (dropped.state, dropped.error, dropped.answered_at) == ("dropped", "cancelled", None)


@pytest.mark.django_db
def test_a_lease_lost_in_the_middle_of_a_round_writes_nothing_more() -> None:
    cluster = member_cluster()
    order(cluster, 6)

    member = Member(obedient)
    taken = threading.Event()

    def clock() -> datetime:
        """The edge's clock, read between the calls and their record: there the lease goes."""
        if member.jobs and not taken.is_set():
            taken.set()
            Lease.objects.filter(cluster=cluster).update(expires_at=NOW)
            assert lease.take(
                cluster_id=cluster.id, kind=Lease.Kind.DISPATCH, holder="b", life=LIFE, now=NOW
            )
            Command.objects.filter(state="sent").update(lease_epoch=2)
        return NOW

    with installed(aurora=member):
        made = deliver(
            cluster_id=cluster.id, holder="a", life=LIFE, calls_at_once=4,
            longest=timedelta(seconds=30), clock=clock,
        )  # fmt: skip
    assert taken.is_set()
    assert made == 6
    assert states(cluster) == {"sent": 6}
    assert not Command.objects.exclude(answered_at=None).exists()
    row = Lease.objects.get(cluster=cluster, kind="dispatch")
    assert (row.holder, row.expires_at) == ("b", NOW + LIFE)  # neither given back nor renewed


@pytest.mark.django_db
def test_a_window_is_marked_sent_before_the_first_call_and_costs_few_statements() -> None:
    cluster = member_cluster()
    order(cluster, 32)
    seen: list[int] = []

    def look(request: httpx.Request) -> None:
        if request.url.path.endswith("job/submit"):
            seen.append(1)

    with installed(aurora=Member(look)), CaptureQueriesContext(connection) as queries:
        assert deliver_to(cluster) == 32
    assert states(cluster) == {"done": 32}
    claims = [q["sql"] for q in queries if "SET" in q["sql"] and "'sent'" in q["sql"]]
    assert len(seen) == 32
    assert len([sql for sql in claims if "lease_epoch" in sql and "jsonb" not in sql]) == 2
    assert len(queries) <= 32  # a statement an order, where it was four


@pytest.mark.django_db
@pytest.mark.parametrize(("limit", "most"), [(None, 4), (2, 2), (1, 1)])
def test_no_more_calls_at_once_than_the_cluster_allows(limit: int | None, most: int) -> None:
    cluster = member_cluster(**({"calls_at_once": limit} if limit else {}))
    order(cluster, 12)
    together = threading.Barrier(most)

    def meet(request: httpx.Request) -> None:
        if request.url.path.endswith("job/submit"):
            together.wait(60)  # as many as allowed are there at once, or this breaks

    member = Member(meet)
    with installed(aurora=member):
        deliver_to(cluster)
    assert states(cluster) == {"done": 12}
    assert member.most_at_once == most


@pytest.mark.django_db
def test_a_cluster_that_asks_for_patience_gets_it_and_no_breaker_trips() -> None:
    cluster = member_cluster()
    order(cluster, 10)
    busy = httpx.Response(429, text="slow down", headers={"Retry-After": "7"})
    calls: list[str] = []

    def tell(request: httpx.Request) -> httpx.Response | None:
        calls.append(request.url.path)
        return busy if len(calls) > 2 else None

    with installed(aurora=Member(tell)):
        deliver_to(cluster)
    row = Lease.objects.get(cluster=cluster, kind="dispatch")
    assert (row.expires_at, row.failures) == (NOW + timedelta(seconds=7), 0)
    assert len(calls) <= 2 + 4  # those on their way; the others were not made
    assert states(cluster).get("waiting", 0) + states(cluster).get("sent", 0) == 10
    told = Command.objects.filter(tries=1)
    assert {command.not_before for command in told} == {NOW + timedelta(seconds=7)}
    with installed(aurora=Member(obedient)):
        assert deliver_to(cluster) == 0  # it is left alone until then
        assert deliver_to(cluster, NOW + timedelta(seconds=7)) == 10
    assert states(cluster) == {"done": 10}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "seconds", ["0", "1000000", "9" * 400, "soon", "-4", "Sun, 06 Nov 1994 08:49:37 GMT"]
)
def test_a_patience_that_makes_no_sense_is_bounded(seconds: str) -> None:
    cluster = member_cluster()
    order(cluster, 1)
    busy = httpx.Response(429, text="{}", headers={"Retry-After": seconds})
    with installed(aurora=Member(lambda _: busy)):
        deliver_to(cluster)
    row = Lease.objects.get(cluster=cluster, kind="dispatch")
    assert NOW < row.expires_at <= NOW + lease.REST_CAP


@pytest.mark.django_db
def test_a_reading_waits_as_long_as_the_cluster_asks() -> None:
    cluster = member_cluster()
    busy = httpx.Response(429, text="slow down", headers={"Retry-After": "7"})

    def read(at: datetime) -> bool:
        return observe(cluster_id=cluster.id, fences=[], holder="test", life=LIFE, clock=lambda: at)

    member = Member(lambda _: busy)
    with installed(aurora=member):
        assert not read(NOW)
        assert not read(NOW + timedelta(seconds=6))
    assert len(member.asked) == 1
    row = Lease.objects.get(cluster=cluster, kind="observe")
    assert (row.expires_at, row.failures) == (NOW + timedelta(seconds=7), 0)
    cluster.refresh_from_db()
    assert cluster.failing_since == NOW  # it was not seen, whatever the reason


@pytest.mark.django_db
def test_the_first_call_without_an_answer_spares_the_others() -> None:
    cluster = member_cluster()
    order(cluster, 16)

    def lose(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("late", request=request)

    member = Member(lose)
    with installed(aurora=member):
        assert deliver_to(cluster) == 16
    assert 1 <= len(member.asked) <= 4
    tried = Command.objects.filter(tries=1)
    assert {command.state for command in tried} == {"sent"}  # ambiguous: looked for before a repeat
    assert len(tried) == len(member.asked)
    held_back = Command.objects.filter(tries=0)
    assert {(row.state, row.not_before) for row in held_back} == {("waiting", NOW)}
    row = Lease.objects.get(cluster=cluster, kind="dispatch")
    assert row.failures == 1
    assert row.expires_at > NOW


@pytest.mark.django_db
def test_a_cancel_in_a_window_ends_the_submit_beside_it() -> None:
    cluster = member_cluster()
    order(cluster, 8)
    order(cluster, 3, kind="cancel")
    member = Member(obedient)
    with installed(aurora=member):
        deliver_to(cluster)
    assert states(cluster) == {"done": 8, "dropped": 3}
    assert len(member.jobs) == 5


@pytest.mark.django_db
def test_what_was_accepted_once_and_is_forgotten_is_not_made_anew() -> None:
    """Given once more, to bring duplicates together: whoever forgot it may have run it."""
    cluster = member_cluster()
    order(cluster, 1)
    member = Member(obedient)
    with installed(aurora=member):
        deliver_to(cluster)
        member.jobs.clear()
        Command.objects.update(state="waiting")
        assert deliver_to(cluster) == 1
    assert member.jobs == {}
    order_ = Command.objects.get()
    assert (order_.state, order_.answer) == ("done", {"backend_id": "1", "duplicates": 0})


@pytest.mark.django_db(transaction=True)
def test_clusters_that_hang_do_not_keep_the_worker_from_the_others() -> None:
    """Ten clusters hang for as long as the test wants; the pool of a dispatch worker has eight."""
    end = threading.Event()

    def hang(request: httpx.Request) -> httpx.Response:
        assert end.wait(120)
        raise httpx.ReadTimeout("hung", request=request)

    hung = {f"hung{number}": Member(hang) for number in range(10)}
    healthy = {f"well{number}": Member(obedient) for number in range(2)}
    clusters = {name: member_cluster(name) for name in (*hung, *healthy)}
    for cluster in clusters.values():
        order(cluster, 3)

    def is_done(name: str) -> bool:
        return states(clusters[name]) == {"done": 3}

    def nudge(name: str) -> Callable[[], None]:
        return lambda: tasks.dispatch(str(clusters[name].id))

    with installed(**hung, **healthy), ThreadPoolExecutor(8) as worker:
        for name in (*hung, *healthy):  # the healthy ones come last
            worker.submit(nudge(name))
        try:
            eventually(lambda: all(map(is_done, healthy)), within_s=90, what="healthy are served")
            assert not any(map(is_done, hung))  # they hang all the while
            assert Command.objects.filter(state="sent").count() == 30
        finally:
            end.set()
        eventually(
            lambda: not Command.objects.filter(state="sent", error="").exists(),
            within_s=90,
            what="the hung rounds have ended",
        )
        eventually(lambda: not tasks._ROUNDS._at_work, within_s=60)

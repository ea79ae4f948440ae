"""Simulations as work: taken once, fenced, given back, taken anew from the dead, in their own process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from celery import Celery
from django.db import OperationalError, connection

from federation.core.replay import replay
from federation.models import Job, Simulation
from federation.selectors.history import past_jobs
from federation.services import simulate
from federation.services.retention import prune_simulations
from federation.services.simulate import LEASE, MOST_TRIES, take_simulation, work_off
from federation.services.simulations import (
    MOST_OPEN,
    TooManySimulationsError,
    ask_for,
    cancel,
    delete,
)
from kit.errors import InvalidContentError
from quotas.models import Quota
from quotas.services import requests
from tenancy.models import AuditEntry, Event, User
from tests import make
from tests.federation.past import HOUR, ran
from tests.federation.world import FLAVOR, NOW, World
from tests.stack import ROOT, Stack, broker_url, database_url, eventually

LATER = NOW + 24 * HOUR
QUOTAS = "quotas: [{tenant: acme/vision, flavor: h100-sxm-80, guaranteed: %d}]"
# Forty aliases of one another: a million million letters, were it written out.
LISTS = "\n".join(f"- &l{n} [*l{n - 1}, *l{n - 1}]" for n in range(1, 40))
ENDLESS = (
    "quotas:\n- tenant: acme\n  flavor: h100-sxm-80\n  weight: &l0 [1]\n  guaranteed:\n"
    + "\n".join(f"  {line}" for line in LISTS.splitlines())
)


class Ticking:
    """A clock that goes on a second whenever it is read."""

    def __init__(self, now: datetime = LATER, step: timedelta = timedelta(seconds=1)) -> None:
        self.now, self.step = now, step

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


@pytest.fixture
def ada(db: None) -> User:
    return make.admin()


@pytest.fixture
def world(db: None) -> World:
    """Two jobs that want all of the cluster at once, and one that never ran."""
    made = World()
    ran(made, (1, 3), came=1, wanted_class="spot", options=whole())
    ran(made, (3, 6), came=2, wanted_class="guaranteed", options=whole())
    ran(made, came=2)
    return made


def whole() -> list[dict[str, object]]:
    shape = {"gpus_per_node": 8, "cpus_per_node": 4, "memory_mib_per_node": 1}
    return [{"flavor": FLAVOR, "nodes": 4, **shape}]


def asked(ada: User, **changes: object) -> Simulation:
    window = {"start": NOW, "end": LATER, "now": LATER}
    return ask_for(actor=ada, **{**window, **changes})  # type: ignore[arg-type]


def state(it: Simulation) -> str:
    it.refresh_from_db()
    return it.state


def kinds(it: Simulation) -> list[str]:
    return list(Event.objects.filter(subject=str(it.pk)).values_list("kind", flat=True))


def test_two_policies_on_our_own_past(world: World, ada: User) -> None:
    it = asked(ada, against=QUOTAS % 0)
    assert "guaranteed: 64" in it.quotas
    assert work_off(clock=Ticking()) == 1
    assert state(it) == "done"
    assert (it.progress, it.failure, it.tries, it.lease_until) == (100, "", 1, None)
    result = it.result
    assert (result["jobs"], result["gpus"]) == (2, {FLAVOR: 32})
    assert result["left_out"] == {"that never ran": 1}
    one, two = result["outcomes"]
    assert (one["quotas"], two["quotas"]) == ("quotas", "against")
    assert one["total"]["evictions"] == 1
    (tenant,) = one["tenants"]
    assert (tenant["jobs"], tenant["finished"]) == (2, 2)
    assert tenant["waits"]["guaranteed"]["p50"] == 120  # the victim's grace
    # Without a guarantee the guaranteed job never starts, and the spot one is left in peace.
    assert (two["total"]["never"], two["total"]["evictions"]) == (1, 0)
    told = ["simulation.queued", "simulation.running", "simulation.done"]
    assert list(dict.fromkeys(kinds(it))) == told
    assert Event.objects.filter(subject=str(it.pk)).exclude(tenant=None).count() == 0


def test_nothing_of_the_past_is_changed_and_nothing_to_replay_is_a_result(
    world: World, ada: User
) -> None:
    before = list(Job.objects.order_by("id").values())
    asked(ada)
    empty = asked(ada, start=NOW - 9 * HOUR, end=NOW - 8 * HOUR)
    assert work_off(clock=Ticking()) == 2
    assert list(Job.objects.order_by("id").values()) == before
    empty.refresh_from_db()
    assert empty.result["jobs"] == empty.result["outcomes"][0]["total"]["jobs"] == 0


def test_one_works_at_a_time_and_the_oldest_is_first(world: World, ada: User) -> None:
    first, second = asked(ada), asked(ada)
    assert take_simulation(now=LATER) == first
    assert take_simulation(now=LATER + LEASE / 2) is None
    assert state(second) == "queued"


def test_what_the_dead_had_is_taken_anew_and_their_word_does_not_count(
    world: World, ada: User
) -> None:
    it = asked(ada)
    dead = take_simulation(now=LATER)
    assert dead is not None
    heir = take_simulation(now=LATER + LEASE)
    assert heir is not None
    assert (heir, heir.epoch, heir.tries) == (it, 2, 2)
    simulate._end(dead, LATER, Simulation.State.FAILED, failure="late")
    assert state(it) == "running"
    simulate._end(heir, LATER, Simulation.State.DONE, result={"v": 1}, progress=100)
    assert state(it) == "done"


def test_what_nobody_survives_fails_with_a_reason(world: World, ada: User) -> None:
    it, now = asked(ada), LATER
    for _ in range(MOST_TRIES):
        assert take_simulation(now=now) == it
        now += LEASE
    assert take_simulation(now=now) is None
    assert state(it) == "failed"
    assert it.failure == "Its worker ended 3 times before it did."
    assert it.ended_at == now


def on_each_plan(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Does something before a simulation looks at each plan."""

    def watched(jobs, setting, *, watch):  # type: ignore[no-untyped-def]
        def both(plan: object) -> None:
            act()
            watch(plan)

        return replay(jobs, setting, watch=both)

    patch.setattr(simulate, "replay", watched)


SLOW = timedelta(seconds=3)  # so that each plan is a moment to look up


@pytest.mark.parametrize("act", ["cancel", "delete"])
def test_who_works_stops_when_it_is_cancelled_or_deleted(
    world: World, ada: User, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    it = asked(ada)

    def once() -> None:
        found = Simulation.objects.filter(state="running").first()
        if found is not None:
            {"cancel": cancel, "delete": delete}[act](actor=ada, simulation=found, now=LATER)

    on_each_plan(monkeypatch, once)
    assert work_off(clock=Ticking(step=SLOW)) == 0
    if act == "delete":
        assert not Simulation.objects.exists()
    else:
        assert state(it) == "cancelled"
        assert it.result is None
    acts = AuditEntry.objects.filter(object_type="simulation", object_id=str(it.pk))
    assert list(acts.values_list("action", "actor__username")) == [(act, "ada"), ("ask", "ada")]


def test_who_is_told_to_end_gives_it_back(
    world: World, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    it, seen = asked(ada), []
    on_each_plan(monkeypatch, lambda: seen.append(1))
    assert work_off(clock=Ticking(step=SLOW), goes_on=lambda: not seen) == 0
    assert state(it) == "queued"
    assert (it.tries, it.lease_until) == (0, None)
    assert work_off(clock=Ticking()) == 1


def test_while_it_works_the_lease_grows_and_progress_is_told(
    world: World, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        ran(world, (number, number + 1), came=number)
    it, leases, steps = asked(ada), set(), []

    def look() -> None:
        it.refresh_from_db()
        leases.add(it.lease_until)
        steps.append(it.progress)

    on_each_plan(monkeypatch, look)
    work_off(clock=Ticking(step=SLOW))
    assert len(leases) > 5
    assert steps == sorted(steps)
    assert 0 < steps[-1] < 100
    told = Event.objects.filter(subject=str(it.pk), kind="simulation.running").order_by("id")
    assert len(told) > 3
    assert [one.data["progress"] for one in told] == sorted(one.data["progress"] for one in told)


def test_what_takes_too_long_or_is_too_large_fails_and_says_what_to_do(
    world: World, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = asked(ada)
    work_off(clock=Ticking(step=timedelta(minutes=40)))
    assert (state(long), long.failure) == (
        "failed", "It took longer than an hour; ask for fewer weeks."
    )  # fmt: skip
    large = asked(ada)
    monkeypatch.setattr(simulate, "MOST_JOBS", 1)
    work_off(clock=Ticking())
    assert (state(large), large.failure) == (
        "failed", "It has more than 1 jobs; ask for fewer weeks."
    )  # fmt: skip


def test_a_table_that_does_not_fit_any_more_fails_with_its_words(world: World, ada: User) -> None:
    it = asked(ada, against=QUOTAS % 8)
    world.tenant.path, world.tenant.name = "acme/sight", "sight"
    world.tenant.save()
    assert work_off(clock=Ticking()) == 1
    assert state(it) == "failed"
    assert it.failure.startswith("quotas, row 1, tenant: There is no tenant acme/vision.")


def test_a_fault_of_ours_fails_it_and_is_heard_of(
    world: World, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = asked(ada)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(simulate, "past_jobs", broken)
    with pytest.raises(ZeroDivisionError):
        work_off(clock=Ticking())
    assert state(it) == "failed"
    assert "fault of ours" in it.failure


def test_no_more_than_a_few_wait(world: World, ada: User) -> None:
    for _ in range(MOST_OPEN):
        last = asked(ada)
    with pytest.raises(TooManySimulationsError, match="10 simulations wait or run"):
        asked(ada)
    assert Simulation.objects.count() == MOST_OPEN
    cancel(actor=ada, simulation=last, now=LATER)
    asked(ada)


def test_grants_that_hold_count(world: World, ada: User) -> None:
    request = requests.ask(
        actor=ada, tenant=world.tenant, flavor=world.flavor, wish=requests.Wish(32, NOW),
        why="a paper", now=NOW,
    )  # fmt: skip
    requests.approve(actor=ada, request=request, changes={}, now=NOW)
    it = asked(ada, quotas=QUOTAS % 0)
    work_off(clock=Ticking())
    assert state(it) == "done"
    assert it.result["outcomes"][0]["total"]["never"] == 0


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"end": LATER + HOUR}, "/until", "in_the_future"),
        ({"start": LATER}, "/from", "not_before_until"),
        ({"start": LATER - timedelta(weeks=27)}, "/from", "too_long"),
        ({"quotas": "quotas: ["}, "/quotas/rows", "invalid_yaml"),
        ({"against": "rows: []"}, "/against/rows", "wrong_type"),
        ({"quotas": "x" * 1_000_001}, "/quotas", "too_long"),
        ({"against": "quotas: [{tenant: mars, flavor: h100-sxm-80, guaranteed: 1}]"},
         "/against/rows/1/tenant", "unknown"),
        ({"against": "quotas: [{tenant: acme, flavor: b200, guaranteed: 1}]"},
         "/against/rows/1/flavor", "unknown"),
        ({"quotas": "quotas: [{tenant: acme, flavor: h100-sxm-80, guaranteed: 1, color: x}]"},
         "/quotas/rows/1/color", "unknown_field"),
        ({"quotas": "quotas: [{tenant: acme, flavor: h100-sxm-80, guaranteed: =1+1}]"},
         "/quotas/rows/1/guaranteed", "invalid_number"),
        ({"quotas": ENDLESS}, "/quotas/rows/1/guaranteed", "invalid_number"),
        ({"quotas": QUOTAS % -1}, "/quotas/rows/1/guaranteed", "invalid_number"),
        ({"quotas": QUOTAS % 10**30}, "/quotas/rows/1/guaranteed", "invalid_number"),
        ({"quotas": "quotas:\n" + 2 * "- {tenant: acme, flavor: h100-sxm-80, guaranteed: 1}\n"},
         "/quotas/rows/2/tenant", "duplicate"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_row_and_field_and_nothing_is_written(
    world: World, ada: User, changes: dict[str, object], pointer: str, code: str
) -> None:
    with pytest.raises(InvalidContentError) as refused:
        asked(ada, **changes)
    assert (pointer, code) in [(one.pointer, one.code) for one in refused.value.errors]
    assert not Simulation.objects.exists()
    assert not AuditEntry.objects.filter(object_type="simulation").exists()


def test_both_tables_and_the_window_are_told_at_once(world: World, ada: User) -> None:
    with pytest.raises(InvalidContentError) as refused:
        asked(ada, end=LATER + HOUR, quotas=QUOTAS % -1, against=QUOTAS % -1)
    places = {one.pointer.split("/")[1] for one in refused.value.errors}
    assert places == {"until", "quotas", "against"}


def test_old_ones_go_and_open_ones_stay(world: World, ada: User) -> None:
    old, young, waits = asked(ada), asked(ada), asked(ada)
    cancel(actor=ada, simulation=old, now=LATER)
    cancel(actor=ada, simulation=young, now=LATER + timedelta(days=2))
    assert prune_simulations(now=LATER + timedelta(days=91)) == 1
    assert set(Simulation.objects.all()) == {young, waits}


# In processes of their own.


@contextmanager
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`manage.py run_simulations` on the test's database."""
    with (
        (tmp_path / "child.log").open("ab") as log,
        subprocess.Popen(
            [sys.executable, "manage.py", "run_simulations"], cwd=ROOT, stdout=log, stderr=log,
            env={**os.environ, "DATABASE_URL": database_url()},
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def stuck() -> Iterator[None]:
    """Whoever reads attempts waits: a simulation that goes on for as long as one likes."""
    with psycopg.connect(database_url()) as other:
        other.execute("LOCK TABLE federation_attempt")
        yield


@pytest.mark.django_db(transaction=True)
def test_a_process_killed_in_the_middle_is_followed_by_another(tmp_path: Path) -> None:
    ada, world = make.admin(), World()
    ran(world, (1, 3), came=1)
    it = asked(ada)
    with stuck(), child(tmp_path) as process:
        eventually(lambda: state(it) == "running", within_s=60)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert state(it) == "running"
    Simulation.objects.update(lease_until=NOW)
    with child(tmp_path) as process:
        assert process.wait(60) == 0
    assert (state(it), it.tries, it.result["jobs"]) == ("done", 2, 1)


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_beat_wakes_simulates_beside_its_work_and_may_be_killed(
    tmp_path: Path,
) -> None:
    ada, world = make.admin(), World()
    ran(world, (1, 3), came=1)
    stack = Stack(tmp_path)
    it = asked(ada)
    with Celery(broker=broker_url()) as beat:

        def ticked() -> bool:
            beat.send_task("federation.tasks.simulate", queue="accounting", expires=10)
            return state(it) != "queued"

        try:
            with stuck():
                stack.start("worker-accounting")
                eventually(ticked, every_s=1)
                stack.send("worker-accounting", signal.SIGKILL)
            # Whether its child came to the end or noticed that it is an orphan, nothing is lost.
            stack.start("worker-accounting")
            eventually(lambda: ticked() and state(it) == "done", every_s=1)
        finally:
            stack.stop()
    assert it.result["jobs"] == 1


@pytest.mark.django_db(transaction=True)
def test_two_that_ask_at_once_do_not_pass_the_bound_together(tmp_path: Path) -> None:
    """Counting and adding are one: the lock that both need is held by one of them."""
    ada, _ = make.admin(), World()
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [0x6D75_0002])
        with pytest.raises(OperationalError, match="lock timeout"), short_patience():
            asked(ada)
    assert not Simulation.objects.exists()
    asked(ada)
    assert past_jobs(NOW, LATER, LATER).jobs == []
    assert Quota.objects.count() == 1


@contextmanager
def short_patience() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '300ms'")
        try:
            yield
        finally:
            cursor.execute("SET lock_timeout = 0")

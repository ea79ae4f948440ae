"""Crash points: the table names every one, and a process killed at any of them loses nothing."""

import ast
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from federation.models import Job
from quotas.services.limits import Whose, remove_limit, set_limit
from tests.scenario.machine import ScenarioMachine
from tests.scenario.points import CRASH_POINTS, Place
from tests.scenario.scenario import Scenario

FURNITURE = ScenarioMachine.furniture
# The modules whose transactions are all made by what moves a job: people, workers, arbiter, poster.
WORKING = (
    "accounting.services.posting",
    "clusters.services.deliver",
    "clusters.services.fleet",
    "clusters.services.observe",
    "federation.services.change",
    "federation.services.commit",
    "federation.services.evict",
    "federation.services.rebuilt",
    "federation.services.reconcile",
    "federation.services.submit",
)


@pytest.fixture
def scenario(transactional_db: None) -> Iterator[Scenario]:
    FURNITURE.clusters.clear()  # the database was emptied since
    made = Scenario(FURNITURE)
    yield made
    made.close()


def turn(scenario: Scenario, seconds: int) -> None:
    """A turn; where somebody dies, another one when the lease of the dead has run out."""
    killed = scenario.house.points.killed
    before = -1
    while before != len(killed):
        before = len(killed)
        scenario.turn(seconds)
        scenario.check()
        seconds = 41


def play(scenario: Scenario) -> None:
    """Something of everything: it passes every crash point there is."""
    scenario.submit(nodes=2, seconds=1700)
    scenario.submit(nodes=6, seconds=5, exit_code=3)
    scenario.submit(nodes=1, seconds=1700)
    scenario.submit(nodes=4, seconds=1700)
    scenario.ask("edit", job=1)
    scenario.admin("borealis", "draining")
    scenario.admin("aurora", "rotate")
    turn(scenario, 1)
    scenario.admin("borealis", "active")
    scenario.ask("hold", job=3)
    scenario.wire("aurora", kind="drop_after", method="POST", times=2, ms=0)
    turn(scenario, 3)
    scenario.copy("aurora", attempt=0, user="", seconds=60)
    scenario.ask("cancel", job=2)
    turn(scenario, 5)
    scenario.ask("release", job=3)
    scenario.control("borealis", "slurmctld/down")
    turn(scenario, 8)
    scenario.control("borealis", "slurmctld/up")
    turn(scenario, 30)
    scenario.ask("cancel", job=3)
    turn(scenario, 30)
    scenario.wire("aurora", kind="too_many", method="", times=2, ms=1000)
    scenario.house.observe("aurora")
    scenario.submit(nodes=1, seconds=60)
    scenario.decide()
    scenario.deliver("aurora")
    turn(scenario, 30)
    submit_within_a_limit(scenario)
    scenario.decide()
    scenario.admin("aurora", "cut_off")
    turn(scenario, 30)
    scenario.admin("aurora", "active")
    for _ in range(3):
        scenario.submit(nodes=2, seconds=1700)
    have_saved(scenario)
    scenario.control("aurora", "slurmctld/restart", knows="lost")
    turn(scenario, 90)
    turn(scenario, 30)
    outrank(scenario)


def submit_within_a_limit(scenario: Scenario) -> None:
    """Where what waits is bounded, counting and adding are one transaction."""
    tenant, now, waits = scenario.house.tenant, scenario.lab.clock(), {"waiting_jobs": 1000}
    set_limit(actor=None, tenant=tenant, whose=Whose(), **waits, now=now)
    scenario.submit(nodes=1, seconds=60)
    remove_limit(actor=None, tenant=tenant, whose=Whose(), now=now)


def have_saved(scenario: Scenario) -> None:
    """A job is asked to save, and says in its comment that it did."""
    scenario.submit(nodes=1, seconds=400, saves=2)
    for _ in range(2):
        turn(scenario, 30)
    scenario.ask("checkpoint", job=-1)
    for _ in range(2):
        turn(scenario, 5)
    assert Job.objects.latest("id").saved_step


def outrank(scenario: Scenario) -> None:
    """Low jobs hold both clusters, some of which can save; a more urgent one needs their nodes."""
    for number in range(Job.objects.count()):
        scenario.ask("cancel", job=number)
    for _ in range(3):
        turn(scenario, 61)
    for saves in (2, None) * 4:
        scenario.submit(nodes=2, seconds=1700, priority=100, saves=saves)
    for _ in range(3):
        turn(scenario, 30)
    turn(scenario, 601)  # younger ones are spared
    scenario.submit(nodes=4, seconds=60, priority=900)
    for _ in range(4):
        turn(scenario, 5)
    assert Job.objects.latest("id").state in {"pending", "running", "succeeded"}


def transactions(module: str) -> Iterator[Place]:
    """Where the transactions of a module begin: `with transaction.atomic()`, and the decorator."""
    source = Path(str(sys.modules[module].__file__)).read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            lines = [(line, line.lineno) for line in node.decorator_list]
        elif isinstance(node, ast.With):
            lines = [(item.context_expr, node.lineno) for item in node.items]
        else:
            continue
        for expression, line in lines:
            if "transaction.atomic" in ast.unparse(expression):
                yield module, line


@pytest.mark.django_db(transaction=True)
def test_the_table_is_whole_and_a_process_killed_at_each_point_loses_nothing(
    scenario: Scenario,
) -> None:
    points = scenario.house.points
    points.kill_at_each(CRASH_POINTS)
    play(scenario)
    scenario.quiet()
    assert set(points.passed) == set(CRASH_POINTS)
    assert sorted(points.killed) == sorted(CRASH_POINTS)
    shared = {name: places for name, places in points.places.items() if len(places) > 1}
    assert not shared, "one name for several writes"
    passed = set().union(*points.places.values())
    unpassed = {place for module in WORKING for place in transactions(module)} - passed
    assert not unpassed, "transactions that have no crash point"


@pytest.mark.soak
@pytest.mark.django_db(transaction=True)
def test_a_process_killed_at_any_one_point_loses_nothing(transactional_db: None) -> None:
    FURNITURE.clusters.clear()
    for point in CRASH_POINTS:
        with closing(Scenario(FURNITURE)) as scenario:
            scenario.house.points.kill_at(point)
            play(scenario)
            scenario.quiet()
            assert scenario.house.points.killed == [point]

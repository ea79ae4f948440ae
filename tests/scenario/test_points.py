"""Crash points: the table names every one, and a process killed at any of them loses nothing."""

from collections.abc import Iterator

import pytest

from tests.scenario.machine import ScenarioMachine
from tests.scenario.points import CRASH_POINTS
from tests.scenario.scenario import Scenario

FURNITURE = ScenarioMachine.furniture


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
    turn(scenario, 1)
    scenario.ask("hold", job=3)
    scenario.wire("aurora", kind="drop_after", method="POST", times=2, ms=0)
    turn(scenario, 3)
    scenario.late_copy("aurora", attempt=0)
    scenario.ask("cancel", job=2)
    turn(scenario, 5)
    scenario.ask("release", job=3)
    scenario.control("borealis", "slurmctld/down")
    turn(scenario, 8)
    scenario.control("borealis", "slurmctld/up")
    turn(scenario, 30)
    scenario.ask("cancel", job=3)
    turn(scenario, 30)


@pytest.mark.django_db(transaction=True)
def test_the_table_is_whole_and_a_process_killed_at_each_point_loses_nothing(
    scenario: Scenario,
) -> None:
    scenario.house.points.kill_at_each(CRASH_POINTS)
    play(scenario)
    scenario.quiet()
    assert set(scenario.house.points.passed) == set(CRASH_POINTS)
    assert sorted(scenario.house.points.killed) == sorted(CRASH_POINTS)


@pytest.mark.soak
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_process_killed_at_one_point_loses_nothing(scenario: Scenario, point: str) -> None:
    scenario.house.points.kill_at_each([point])
    play(scenario)
    scenario.quiet()
    assert scenario.house.points.killed == [point]

"""The scenario machine, for a little while each day; `script/soak trust` runs it for long."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.scenario.machine import ScenarioMachine, TwoWorldsMachine


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("machine", [ScenarioMachine, TwoWorldsMachine])
def test_whatever_happens_all_is_where_it_belongs_in_the_end(
    machine: type[ScenarioMachine],
) -> None:
    machine.furniture.clusters.clear()  # the database was emptied since
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=4,
            stateful_step_count=30,
            derandomize=True,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )

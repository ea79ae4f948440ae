"""The machines of the tree, for a little while each day; `script/soak quotas` runs them for long."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.quotas.tree.machine import LiveTreeMachine, VirtualTreeMachine


def everyday(examples: int, steps: int) -> settings:
    """The same steps each day, unshrunk."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )


def test_whatever_happens_to_the_tree_quotas_hold() -> None:
    run_state_machine_as_test(VirtualTreeMachine, settings=everyday(20, 50))


@pytest.mark.django_db(transaction=True)
def test_whatever_happens_to_the_tree_in_the_database_quotas_hold() -> None:
    LiveTreeMachine.furniture.clusters.clear()  # the database was emptied since
    run_state_machine_as_test(LiveTreeMachine, settings=everyday(2, 25))

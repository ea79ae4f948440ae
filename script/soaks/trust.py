"""Random scenarios in virtual time against the invariants: nothing twice, nothing lost.

Steps are those of `tests.scenario`: people, processes killed between any two writes, faults of
clusters. A failure prints its steps; `script/soak replay FILE` runs them again.
"""

from script.soaks._stateful import Machine, soak


def _machine(_: int) -> Machine:
    from tests.scenario.machine import ScenarioMachine

    return ScenarioMachine


if __name__ == "__main__":
    soak("trust", __doc__, _machine)

"""Random trees of tenants against the laws of quotas: in memory, and through the services.

Steps are those of `tests.quotas.tree`: jobs, quotas, grants, moves, closed tenants, policies, faults.
Each tenth seed is played in PostgreSQL with processes that are killed between any two writes; the
others on the pure core. A failure prints its steps; `script/soak replay FILE` runs them again.
"""

from script.soaks._stateful import Machine, soak

LIVE = 10  # of so many seeds one is played through the services


def _machine(number: int) -> Machine:
    from tests.quotas.tree.machine import LiveTreeMachine, VirtualTreeMachine

    return VirtualTreeMachine if number % LIVE else LiveTreeMachine


if __name__ == "__main__":
    soak("quotas", __doc__, _machine)

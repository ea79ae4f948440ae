"""Random scenarios in virtual time against the invariants: nothing twice, nothing lost.

Steps are those of `tests.scenario`: people, processes killed between any two writes, faults of
clusters. A failure prints its steps; `script/soak replay FILE` runs them again.
"""

import argparse
import logging
import secrets
import sys
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from script.benchmarks import report, scratch_database

EXAMPLES = 10  # between two lines of progress


def main() -> None:
    """Run so many steps; the exit code is 0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="script/soak trust", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--length", type=int, default=100, help="steps of one scenario at most")
    parser.add_argument("--shrink", action="store_true", help="look for a shorter failure (slow)")
    chosen = parser.parse_args()
    with scratch_database():
        logging.disable(logging.CRITICAL)
        _run(chosen)


def _run(chosen: argparse.Namespace) -> None:
    from tests.scenario.machine import ScenarioMachine

    phases = [Phase.generate, Phase.shrink] if chosen.shrink else [Phase.generate]
    begun = time.monotonic()
    number = chosen.seed
    while ScenarioMachine.steps < chosen.steps:
        print(f"seed {number}: {ScenarioMachine.steps} steps", file=sys.stderr, flush=True)
        seed(number)(ScenarioMachine)
        run_state_machine_as_test(
            ScenarioMachine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=chosen.length,
                database=None,
                deadline=None,
                print_blob=False,
                suppress_health_check=list(HealthCheck),
                phases=phases,
            ),
        )
        number += 1
    took_s = time.monotonic() - begun
    metrics = {"steps": ScenarioMachine.steps, "steps_per_s": ScenarioMachine.steps / took_s}
    report("trust", metrics, {"seed": chosen.seed, "length": chosen.length})


if __name__ == "__main__":
    main()

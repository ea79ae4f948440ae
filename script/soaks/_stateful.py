"""Runs Hypothesis' state machines for long: seeds one after the other, processes side by side."""

import argparse
import gc
import json
import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from script.benchmarks import report, scratch_database

EXAMPLES = 10  # scenarios of one seed
TOLD_EVERY = 500  # steps between two lines of progress
APART = 1_000_000  # between the seeds of two processes

Machine = type[RuleBasedStateMachine]


def soak(name: str, about: str | None, machine_of: Callable[[int], Machine]) -> None:
    """Run so many steps as the command line says; the exit code is 0 when nothing was found.

    `machine_of` gives the machine for a seed, once Django is set up; each has a list `counters` of
    what is called after every step.
    """
    parser = argparse.ArgumentParser(prog=f"script/soak {name}", description=about)
    parser.add_argument("--steps", type=int, default=100_000, help="of all processes together")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--length", type=int, default=100, help="steps of one scenario at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--shrink", action="store_true", help="look for a shorter failure (slow)")
    chosen = parser.parse_args()
    begun = time.monotonic()
    steps = _run(chosen, machine_of) if chosen.jobs <= 1 else _run_beside(name, chosen)
    metrics = {"steps": steps, "steps_per_s": steps / (time.monotonic() - begun)}
    report(name, metrics, {key: vars(chosen)[key] for key in ("seed", "length", "jobs")})


def _run_beside(name: str, chosen: argparse.Namespace) -> int:
    """Share the steps among processes, each with seeds and a database of its own; steps run."""
    environment = {key: value for key, value in os.environ.items() if key != "MUSTER_TEST_DB"}
    share = -(-chosen.steps // chosen.jobs)
    common = ["--jobs=1", f"--steps={share}", f"--length={chosen.length}"]
    if chosen.shrink:
        common.append("--shrink")
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", f"script.soaks.{name}", f"--seed={number}", *common],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(chosen.seed, chosen.seed + chosen.jobs * APART, APART)
    ]
    answers = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(1)
    return sum(int(json.loads(answer)["metrics"]["steps"]) for answer in answers)


def _run(chosen: argparse.Namespace, machine_of: Callable[[int], Any]) -> int:
    """Run scenarios of one seed after the other until there were enough steps; how many."""
    with scratch_database():
        logging.disable(logging.CRITICAL)
        progress = _Progress(chosen.steps)
        gc.freeze()
        gc.set_threshold(50_000)  # rows come and go by the thousand, and none is in a circle
        number = chosen.seed
        while progress.steps < chosen.steps:
            progress.number = number
            machine = machine_of(number)
            if progress.step not in machine.counters:
                machine.counters.append(progress.step)
            seed(number)(machine)
            run_state_machine_as_test(machine, settings=_settings(chosen))
            number += 1
    return progress.steps


def _settings(chosen: argparse.Namespace) -> settings:
    return settings(
        max_examples=EXAMPLES,
        stateful_step_count=chosen.length,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if chosen.shrink else [Phase.generate],
    )


class _Progress:
    """Counts steps, and tells how many there were and how fast the last ones went."""

    def __init__(self, wanted: int) -> None:
        self.steps, self.number, self._wanted = 0, 0, wanted
        self._told_s = time.monotonic()

    def step(self) -> None:
        """One more."""
        self.steps += 1
        if self.steps % TOLD_EVERY == 0:
            now_s = time.monotonic()
            rate = TOLD_EVERY / (now_s - self._told_s)
            self._told_s = now_s
            words = f"{self.steps} of {self._wanted} steps, {rate:.0f} a second, seed {self.number}"
            print(words, file=sys.stderr, flush=True)

"""Runs a scenario again from what a failure printed: its lines `state.<step>(...)` are the script.

`script/soak replay FILE` does it with a PostgreSQL of its own.
Nothing of the file is run but steps of the machine with plain values.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping

from tests.scenario.machine import ScenarioMachine

_STEP = re.compile(r"\bstate\.(\w+)(\(.*\))\s*$")
_NO_STEPS = {"holds", "teardown"}


def steps_of(text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The steps in a text, each as its name and its values.

    Raises:
        ValueError: a line names no step of the machine, or its values are no plain ones.
    """
    for line in text.splitlines():
        match = _STEP.search(line)
        if match is None or match[1] in _NO_STEPS:
            continue
        if not _is_step(getattr(ScenarioMachine, match[1], None)):
            raise ValueError(f"no such step: {line.strip()}")
        call = ast.parse(f"step{match[2]}", mode="eval").body
        assert isinstance(call, ast.Call)
        yield match[1], {str(part.arg): ast.literal_eval(part.value) for part in call.keywords}


def _is_step(method: object) -> bool:
    """Whether Hypothesis draws it: `rule` and `initialize` leave these marks."""
    marks = ("hypothesis_stateful_rule", "hypothesis_stateful_initialize_rule")
    return any(hasattr(method, mark) for mark in marks)


def replay(text: str) -> int:
    """Runs the steps of a text, with every check; how many there were."""
    machine = ScenarioMachine()
    number = 0
    try:
        machine.holds()
        for name, values in steps_of(text):
            sys.stderr.write(f"{machine.scenario.lab.clock():%H:%M:%S.%f} {name} {dict(values)}\n")
            getattr(machine, name)(**values)
            machine.holds()
            number += 1
    finally:
        machine.teardown()
    return number

"""Runs a scenario again from what a failure printed: its lines `state.<step>(...)` are the script.

`script/soak replay FILE` does it with a PostgreSQL of its own.
Nothing of the file is run but steps of the machine with plain values.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tests.scenario.machine import ScenarioMachine

_STEP = re.compile(r"\bstate\.(\w+)(\(.*\))\s*$")
_NO_STEPS = {"holds", "teardown"}


def steps_of(text: str, kind: type) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The steps of a kind of machine in a text, each as its name and its values.

    Raises:
        ValueError: a line names no step of the machine, or its values are no plain ones.
    """
    for line in text.splitlines():
        match = _STEP.search(line)
        if match is None or match[1] in _NO_STEPS:
            continue
        if not _is_step(getattr(kind, match[1], None)):
            raise ValueError(f"no such step: {line.strip()}")
        call = ast.parse(f"step{match[2]}", mode="eval").body
        assert isinstance(call, ast.Call)
        yield match[1], {str(part.arg): ast.literal_eval(part.value) for part in call.keywords}


def _is_step(method: object) -> bool:
    """Whether Hypothesis draws it: `rule` and `initialize` leave these marks."""
    marks = ("hypothesis_stateful_rule", "hypothesis_stateful_initialize_rule")
    return any(hasattr(method, mark) for mark in marks)


def replay(text: str, kind: type[Any] = ScenarioMachine) -> int:
    """Runs the steps of a text on a machine, with every check; how many there were."""
    machine = kind()
    number = 0
    try:
        machine.holds()
        for name, values in steps_of(text, kind):
            sys.stderr.write(f"{machine.moment} {name} {dict(values)}\n")
            getattr(machine, name)(**values)
            machine.holds()
            number += 1
    finally:
        machine.teardown()
    return number

"""A program beside a long-lived process: one at a time, yielding to others, its end noticed."""

import os
import sys
from pathlib import Path

from kit.child import NICENESS, Child
from tests.stack import eventually

SCRIPT = """
import os, pathlib, time
with open("begun", "a") as notes:
    notes.write(f"{os.getppid()} {os.nice(0)}\\n")
while not pathlib.Path("end").exists():
    time.sleep(0.02)
"""


def test_one_runs_at_a_time_and_its_end_is_noticed(tmp_path: Path) -> None:
    child = Child([sys.executable, "-c", SCRIPT], tmp_path)
    assert child.is_over()
    for _ in range(3):
        child.start()
    begun = tmp_path / "begun"
    eventually(lambda: begun.exists() and begun.read_text().endswith("\n"))
    assert begun.read_text() == f"{os.getpid()} {os.nice(0) + NICENESS}\n"
    assert not child.is_over()
    (tmp_path / "end").touch()
    eventually(child.is_over)
    child.start()
    eventually(lambda: len(begun.read_text().splitlines()) == 2)
    eventually(child.is_over)

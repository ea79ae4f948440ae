"""Scripts as people write them, each with the job or the refusal that it becomes."""

import json
import time
from pathlib import Path

import pytest

from federation.intake.job import ForeignJob
from federation.intake.sbatch import read_sbatch
from tests.federation.intake.place import outcome, read

MOST = (1 << 20) - 100
SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.sh"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_becomes_what_is_written_beside_it(path: Path) -> None:
    assert outcome(path.read_bytes().decode()) == json.loads(path.with_suffix(".json").read_text())


def test_there_are_many_and_each_has_its_outcome() -> None:
    assert len(SCRIPTS) >= 40
    beside = {path.stem for path in SCRIPTS[0].parent.glob("*.json")}
    assert beside == {path.stem for path in SCRIPTS}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_refusal_names_line_and_reason(path: Path) -> None:
    made = read(path.read_bytes().decode())
    if isinstance(made, ForeignJob):
        return
    for problem in made:
        line = problem.pointer.removeprefix("/lines/")
        assert line.isdigit()
        assert problem.detail.startswith((f"line {line}: ", f"line {line}, ")), problem
        assert problem.detail.endswith((".", "?")), problem


def test_two_megabytes_are_refused_at_once() -> None:
    script = read_sbatch("#!/bin/bash\n#SBATCH --gres=gpu:8 --time=60\n" + "x" * (2 << 20))
    assert [(p.pointer, p.code) for p in script.findings.problems] == [("/lines/1", "too_long")]


def test_a_hundred_problems_are_enough() -> None:
    made = read("#!/bin/bash\n" + "#SBATCH --colour=red -y stray\n" * 30_000)
    assert len(made) == 100


@pytest.mark.parametrize(
    "text",
    [
        "#SBATCH -" + "v" * MOST,
        "#SBATCH " + "a " * (MOST // 2),
        "#SBATCH " + "\"'" * (MOST // 2),
        "#SBATCH --mem=1\n" * (MOST // 16),
        "#SBATCH --export=" + "a" * MOST + '\\"',
        "#SBATCH --gpus=8 --time=60\ntorchrun 'x\n" + "a b\n" * (MOST // 4),
        "true\n" + "#SBATCH -x\n" * (MOST // 11),
    ],
    ids=["flags", "words", "quotes", "repeated", "export", "open quote", "late"],
)
def test_the_time_that_a_script_takes_grows_with_its_length_only(text: str) -> None:
    """A megabyte of what could be quadratic: minutes if it were, some tenths of a second else."""
    began_s = time.process_time()
    read("#!/bin/sh\n" + text)
    assert time.process_time() - began_s < 8


def test_the_script_for_sixteen_nodes_is_warned_about() -> None:
    """The script that the project began with: 8 tasks a node, each a torchrun of 8 processes."""
    text = next(path for path in SCRIPTS if path.stem == "megatron_16_nodes").read_text()
    made = read(text)
    (warning,) = made.warnings
    assert (warning.code, warning.option) == ("torchrun_per_task", "--ntasks-per-node")
    assert "64 processes for 8 GPUs" in warning.detail

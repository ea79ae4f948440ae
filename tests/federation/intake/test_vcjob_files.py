"""Volcano Jobs as people write them, each with the job or the refusal that it becomes."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from federation.core.spec import parse_spec
from federation.intake.job import ForeignJob
from federation.intake.vcjob import read_vcjob
from tests.federation.intake.jobs import outcome, read

FILES = sorted(Path(__file__).with_name("vcjob").glob("*.yaml"))
DDP = next(path for path in FILES if path.stem == "pytorch_ddp_master_worker").read_text()


def text_of(path: Path) -> str:
    return path.read_bytes().decode()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_becomes_what_is_written_beside_it(path: Path) -> None:
    assert outcome(text_of(path)) == json.loads(path.with_suffix(".json").read_text())


def test_there_are_many_and_each_has_its_outcome() -> None:
    assert len(FILES) >= 80
    beside = {path.stem for path in FILES[0].parent.glob("*.json")}
    assert beside == {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_refusal_names_line_and_reason(path: Path) -> None:
    text = text_of(path)
    made = read(text)
    if isinstance(made, ForeignJob):
        assert parse_spec(made.body) == made.spec
        return
    for problem in made:
        line = problem.pointer.removeprefix("/lines/")
        assert 1 <= int(line) <= text.count("\n") + 1
        assert problem.detail.startswith((f"line {line}: ", f"line {line}, ")), problem
        assert problem.detail.endswith((".", "?")), problem


def test_two_megabytes_are_refused_at_once() -> None:
    document = read_vcjob(DDP + "# x\n" * (1 << 19))
    assert [(p.pointer, p.code) for p in document.findings.problems] == [("/lines/1", "too_long")]


def test_a_hundred_problems_are_enough() -> None:
    typos = "".join(f"  colour{n}: red\n" for n in range(10_000))
    assert len(read(DDP + typos)) == 100


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "{a: " * 250_000,
        "- " * 500_000,
        "a: b\n" * 200_000,
        "- a\n" * 250_000,
        "? " * 400_000,
        "'" + "x" * 1_000_000,
        "a: |\n" + "  x\n" * 250_000,
        "&a [*a]\n" * 100_000,
        "".join(f"k{n}: &a{n} 1\n" for n in range(60_000)),
        "--- x\n" * 150_000,
        "x: " + "\\n" * 300_000,
    ],
    ids=[
        "lists", "fields", "dashes", "twice", "items", "questions", "quote", "block", "itself",
        "anchors", "documents", "escapes",
    ],
)  # fmt: skip
def test_the_time_that_a_file_takes_is_bounded(text: str) -> None:
    began_s = time.process_time()
    assert isinstance(read(text), tuple)
    assert time.process_time() - began_s < 8


def test_a_thousand_aliases_are_enough() -> None:
    items = ", ".join(["*a"] * 1_001)
    made = read(f"a: &a x\nb: [{items}]\n")
    assert [one.code for one in made] == ["too_large"]


@pytest.mark.parametrize(("retries", "restarts"), [(0, 2), (1, 0), (3, 2), (101, 100)])
def test_volcano_counts_runs_and_muster_restarts(retries: int, restarts: int) -> None:
    made = read(DDP.replace("maxRetry: 3", f"maxRetry: {retries}"))
    assert made.spec.max_restarts == restarts


def test_a_value_that_only_our_parser_refuses_is_told_at_its_line() -> None:
    made = read(DDP.replace("maxRetry: 3", "maxRetry: 200"))
    assert [(one.pointer, one.code) for one in made] == [("/lines/11", "out_of_range")]


def test_a_tenant_without_quota_is_told_so() -> None:
    assert [one.code for one in read(DDP, entitled=())] == ["no_flavor"]


def test_flavors_that_the_caller_names_are_narrowed_by_the_resource() -> None:
    made = read(DDP, asked=("ascend-910b", "h100-sxm-80"))
    assert made.body["flavors"] == ["h100-sxm-80"]
    refused = read(DDP, asked=("ascend-910b",))
    assert [(one.pointer, one.code) for one in refused] == [("/lines/34", "flavor_not_accepted")]


@pytest.mark.parametrize(("first", "index", "rank"), [(0, 0, "0"), (3, 0, "3"), (64, 2, "66")])
def test_the_shell_before_a_command_sets_what_the_plugin_would(
    first: int, index: int, rank: str
) -> None:
    command = '["sh", "-c", "echo $RANK of $WORLD_SIZE: $0 $1", "a b", "$(c)"]'
    old = '["bash", "-c", "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK train.py"]'
    made = read(DDP.replace(old, command))
    pod = {
        "MUSTER_FIRST_RANK": str(first),
        "VC_TASK_INDEX": str(index),
        **made.body["environment"],
    }
    said = subprocess.run(  # noqa: S603 (our own words)
        made.body["run"]["command"], env=pod, capture_output=True, text=True, check=True
    )
    assert said.stdout == f"{rank} of 4: a b $(c)\n"


def test_a_worker_s_number_is_the_one_of_its_task() -> None:
    old = "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK train.py"
    made = read(DDP.replace(old, "echo $VC_TASK_INDEX $VC_WORKER_NUM $VC_MASTER_HOSTS"))
    said = []
    for rank in range(3):
        pod = {"MUSTER_FIRST_RANK": str(rank), "VC_TASK_INDEX": "0", "MASTER_ADDR": "m"}
        said.append(
            subprocess.run(  # noqa: S603 (our own words)
                made.body["run"]["command"],
                env={"PATH": os.environ["PATH"], **pod, **made.body["environment"]},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert said == ["0 3 m\n", "0 3 m\n", "1 3 m\n"]

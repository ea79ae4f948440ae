"""A script that names an image: what goes to Kubernetes of it, and why the rest does not."""

import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from federation.core.spec import parse_spec
from federation.intake.job import ForeignJob
from federation.intake.sbatch.shell import Variable, literal, read_words
from tests.federation.intake.place import read

HEAD = """\
#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --gres=gpu:8
#SBATCH --ntasks-per-node={tasks}
#SBATCH --time=60
"""
SRUN = "srun --container-image=a/b:1 torchrun --rdzv-endpoint=$MASTER_ADDR:1 train.py\n"


def script(body: str, *options: str, nodes: int = 2, tasks: int = 1) -> str:
    return HEAD.format(nodes=nodes, tasks=tasks) + "".join(f"#SBATCH {o}\n" for o in options) + body


def run_of(text: str) -> dict[str, Any]:
    made = read(text)
    assert isinstance(made, ForeignJob), made
    return dict(made.body["run"])


def test_an_image_on_the_srun_line_makes_a_job_for_both_worlds() -> None:
    text = script(
        "set -euo pipefail\n"
        "export NCCL_DEBUG=INFO\n"
        "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n"
        "export MASTER_PORT=$((10000 + 5))\n"
        "NNODES=$SLURM_NNODES\n"
        "ARGS_LR='3e-4'\n"
        "# the run\n"
        "srun -l --container-image nvcr.io#nvidia/pytorch:24.01-py3 \\\n"
        '  torchrun --nnodes=$NNODES --node-rank "$SLURM_NODEID" --nproc-per-node=8 \\\n'
        '  --rdzv-endpoint="${MASTER_ADDR}:$MASTER_PORT" train.py --lr $ARGS_LR\n'
        "echo done\n"
    )
    made = read(text)
    assert isinstance(made, ForeignJob), made
    assert made.body["run"] == {
        "script": text,
        "image": "nvcr.io/nvidia/pytorch:24.01-py3",
        "command": [
            "torchrun", "--nnodes=$(NNODES)", "--node-rank", "$(NODE_RANK)", "--nproc-per-node=8",
            "--rdzv-endpoint=$(MASTER_ADDR):$(MASTER_PORT)", "train.py", "--lr", "3e-4",
        ],
    }  # fmt: skip
    assert made.body["environment"] == {"NCCL_DEBUG": "INFO"}
    assert made.spec.run.forms == ["script", "image"]
    assert not made.warnings


def test_an_image_in_a_directive_makes_a_job_for_kubernetes() -> None:
    options = ('--container-image="nvcr.io#nvidia/pytorch:24.01-py3"', "--output=x.log")
    made = read(script(SRUN.replace("--container-image=a/b:1 ", ""), *options))
    assert isinstance(made, ForeignJob), made
    assert made.body["run"] == {
        "image": "nvcr.io/nvidia/pytorch:24.01-py3",
        "command": ["torchrun", "--rdzv-endpoint=$(MASTER_ADDR):1", "train.py"],
    }
    assert [(one.line, one.code) for one in made.warnings] == [(6, "image_only")]
    assert [(one.line, one.option) for one in made.dropped] == [(7, "--output")]


def test_a_directory_in_the_container() -> None:
    options = ("--container-image=a/b:1", "--container-workdir=/workspace")
    plain = SRUN.replace("--container-image=a/b:1 ", "")
    assert run_of(script(plain, *options))["workdir"] == "/workspace"
    refused = read(script("true\n", options[1]))
    assert [(one.pointer, one.code) for one in refused] == [("/lines/6", "refused")]


def test_the_image_of_the_srun_wins() -> None:
    made = read(script(SRUN, "--container-image=c/d:2"))
    assert isinstance(made, ForeignJob), made
    assert (made.body["run"]["image"], "script" in made.body["run"]) == ("a/b:1", True)
    assert [one.option for one in made.dropped] == ["--container-image"]


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ("nvcr.io#nvidia/pytorch:24.01", "nvcr.io/nvidia/pytorch:24.01"),
        ("docker://ubuntu:24.04", "ubuntu:24.04"),
        ("registry.example:5000#a/b", "registry.example:5000/a/b"),
        ("a/b@sha256:0a", "a/b@sha256:0a"),
        ("ubuntu", "ubuntu"),
    ],
)
def test_names_of_images(given: str, image: str) -> None:
    assert run_of(script(SRUN.replace("a/b:1", given)))["image"] == image


UNREAD = {
    "a file of the cluster": SRUN.replace("a/b:1", "/images/train.sqsh"),
    "another source": SRUN.replace("a/b:1", "dockerd://train"),
    "mounts": SRUN.replace("torchrun", "--container-mounts=/data:/data torchrun"),
    "a directory on both": SRUN.replace("torchrun", "--container-workdir=/w torchrun"),
    "a part of the nodes": SRUN.replace("torchrun", "--nodes=1 torchrun"),
    "two of them": SRUN + SRUN,
    "a loop": f"for i in 1 2; do\n{SRUN}done\n",
    "a pipe": SRUN.replace("train.py", "train.py | tee log"),
    "a background": SRUN.replace("train.py", "train.py &"),
    "a substitution": SRUN.replace("train.py", "train.py --at $(date)"),
    "old quotes": SRUN.replace("train.py", "train.py --at `date`"),
    "a command beside": "module load cuda\n" + SRUN,
    "a command behind the address": "MASTER_ADDR=$(hostname); rm -rf /tmp/x\n" + SRUN,
    "a value of the moment": "export RUN_ID=$SLURM_JOB_ID\n" + SRUN,
    "a variable of Slurm's": SRUN.replace("train.py", "train.py --id $SLURM_JOB_ID"),
    "a variable of Slurm's, later": SRUN.replace("train.py", "train.py '$SLURM_PROCID'"),
    "a python for each GPU": SRUN.replace("torchrun", "python"),
    "a shell": SRUN.replace("torchrun", "bash run.sh"),
    "nothing": "srun --container-image=a/b:1\n",
    "no value": "srun --container-image\n",
    "a pattern": SRUN.replace("train.py", "train.py data/*.bin"),
    "an open quote": SRUN.replace("train.py", "'train.py"),
}  # fmt: skip


@pytest.mark.parametrize("body", UNREAD.values(), ids=UNREAD)
def test_what_cannot_be_read_safely_stays_a_script_for_slurm(body: str) -> None:
    text = script(body)
    made = read(text)
    assert isinstance(made, ForeignJob), made
    assert made.body["run"] == {"script": text}
    assert "image_not_read" in [one.code for one in made.warnings]


@pytest.mark.parametrize("body", UNREAD.values(), ids=UNREAD)
def test_what_cannot_be_read_is_refused_where_only_a_directive_names_the_image(body: str) -> None:
    plain = body.replace("--container-image=a/b:1", "--label").replace("--container-image", "-l")
    image = "/x.sqsh" if ".sqsh" in body or "dockerd" in body else "a/b:1"
    refused = read(
        script(plain.replace("--container-workdir=/w", "-n1"), f"--container-image={image}")
    )
    assert [(one.pointer, one.code) for one in refused] == [("/lines/6", "not_supported")]


def test_an_unquoted_hash_in_a_directive_is_told() -> None:
    refused = read(script("srun torchrun x\n", "--container-image=nvcr.io#nvidia/pytorch:24.01"))
    assert "use quotes" in refused[0].detail


def test_a_python_on_one_node_is_a_pod() -> None:
    body = "srun --container-image=a/b:1 python -u train.py\n"
    assert run_of(script(body, nodes=1))["command"] == ["python", "-u", "train.py"]
    assert "image" not in run_of(script(body, nodes=1, tasks=8))


def test_a_torchrun_is_one_a_node_whatever_the_tasks() -> None:
    """The script that the project began with, its task count as warned."""
    made = read(script(SRUN.replace("train.py", "--nproc-per-node=8 t.py"), nodes=16, tasks=8))
    assert isinstance(made, ForeignJob), made
    assert made.body["run"]["command"][0] == "torchrun"
    assert made.body["run"]["tasks_per_node"] == 8
    assert [one.code for one in made.warnings] == ["torchrun_per_task"]


def test_a_rank_that_a_large_gang_has_not_is_not_read() -> None:
    body = SRUN.replace("train.py", "--node-rank=$SLURM_NODEID train.py")
    assert "image" in run_of(script(body, nodes=64))
    assert "image" not in run_of(script(body, nodes=65))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
        ("a''b \"\" c#d", ["ab", "", "c#d"]),
        ("\"a\\\"b\\n\"", ['a"b\\n']),
        ("a=b", ["a=b"]),
    ],
)  # fmt: skip
def test_words_of_a_shell(text: str, words: list[str]) -> None:
    assert [literal(word) for word in read_words(text) or ()] == words


def test_variables_of_a_shell() -> None:
    (word,) = read_words("a${B}c\"$D-\"'$E'") or ()
    assert word == ("a", Variable("B"), "c", Variable("D"), "-", "$E")


@pytest.mark.parametrize(
    "text", ["a;b", "a|b", "a &", "$(a)", "`a`", "a > b", "(a)", "'a", "~", "$1"]
)
def test_more_than_a_simple_command(text: str) -> None:
    assert read_words(text) is None


PARTS = st.sampled_from(
    ["srun ", "torchrun ", "$X", "${X}", '"', "'", "\\", "\n", " ", "--container-image=", "a/b:1 ",
     "export ", "X=1", "#", "$(", ")", "MASTER_ADDR=", "$SLURM_NNODES", "-l ", "=", "$"]
)  # fmt: skip


@given(
    st.one_of(st.text(max_size=40), st.lists(PARTS, max_size=25).map("".join)),
    st.sampled_from([(), ("--container-image=a/b:1",)]),
)
@example("srun --container-image=a/b:1 \\", ())
@example("# srun --container-image=x\nsrun torchrun t\n", ())
def test_any_body_is_read_or_not(body: str, options: tuple[str, ...]) -> None:
    made = read(script(body, *options))
    if isinstance(made, ForeignJob):
        assert parse_spec(made.body) == made.spec
    else:
        assert made


def test_a_script_that_was_fine_stays_fine() -> None:
    for line in ("export MUSTER_NODES=a", "\n".join(f"export A{n}=1" for n in range(300))):
        made = read(script(f"{line}\n{SRUN}"))
        assert isinstance(made, ForeignJob), made
        assert "image" not in made.body["run"]
        assert [one.code for one in made.warnings] == ["image_not_read"]


@pytest.mark.parametrize("piece", ["'", '"a', "$A ", "\\\n", "a='b' \n", "MASTER_ADDR=$(a\n"])
def test_a_long_body_is_not_read(piece: str) -> None:
    began_s = time.process_time()
    made = read(script(piece * (500_000 // len(piece)) + "\n" + SRUN))
    assert "image_not_read" in [one.code for one in made.warnings]
    assert time.process_time() - began_s < 8


def test_values_that_double_end_soon() -> None:
    lines = ["A0=xxxxxxxx", *(f"A{n + 1}=$A{n}$A{n}" for n in range(60)), SRUN]
    made = read(script("\n".join(lines)))
    assert "image_not_read" in [one.code for one in made.warnings]

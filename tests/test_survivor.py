"""The example of docs/how-to/survive-preemption.md as processes, against a real server."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from clusters.models import Command
from federation.core.proof import resume_environment
from federation.core.spec import parse_spec
from federation.models import Attempt, Job
from kit.job_token import job_token
from tests.federation.world import World

EXAMPLE = Path("docs/examples/survive-preemption").absolute()
SCONTROL = '#!/bin/sh\necho "$@" >> "$SCONTROL_LOG"\n'
RANKS = 2


class Gang:
    """The ranks of one attempt, as `srun` would start them."""

    def __init__(self, directory: Path, steps: int, **variables: str) -> None:
        self.directory = directory
        tools = directory / "bin"
        tools.mkdir(parents=True, exist_ok=True)
        (tools / "scontrol").write_text(SCONTROL)
        (tools / "scontrol").chmod(0o755)
        shared = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "SCONTROL_LOG": str(directory / "scontrol.log"),
            "STORE": str(directory / "store"),
            "SLURM_JOB_ID": "4711",
            "SLURM_NTASKS": str(RANKS),
            **variables,
        }
        command = [sys.executable, str(EXAMPLE / "train.py"), str(steps), "0.02"]
        self.ranks = [
            subprocess.Popen(  # noqa: S603 - our own example
                command,
                env={**shared, "SLURM_PROCID": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(RANKS)
        ]

    def until_training(self) -> None:
        """Each rank has said that it begins: then it traps the signal."""
        for rank in self.ranks:
            assert rank.stdout is not None
            while "trains from" not in (line := rank.stdout.readline()):
                assert line, "it ended before it trained"

    def signal(self, *ranks: int) -> None:
        for rank in ranks:
            self.ranks[rank].send_signal(signal.SIGUSR1)

    def saved(self) -> list[int]:
        """Steps of whole checkpoints."""
        return sorted(int(path.name[5:]) for path in (self.directory / "store").glob("step-*"))

    def until_saved(self, count: int = 1) -> int:
        """Waits for so many checkpoints; the last one's step."""
        end = time.monotonic() + 20
        while len(self.saved()) < count:
            assert time.monotonic() < end, "no checkpoint came"
            assert all(rank.poll() is None for rank in self.ranks), "a rank ended"
            time.sleep(0.02)
        return self.saved()[-1]

    def comments(self) -> list[str]:
        log = self.directory / "scontrol.log"
        return log.read_text().splitlines() if log.exists() else []

    def cancel(self) -> None:
        """As Muster does after the proof."""
        for rank in self.ranks:
            rank.terminate()
        for rank in self.ranks:
            rank.communicate(timeout=10)

    def finish(self) -> list[str]:
        """What each rank says until it is done."""
        said = [rank.communicate(timeout=30)[0] for rank in self.ranks]
        assert [rank.returncode for rank in self.ranks] == [0] * RANKS
        return said


@pytest.fixture
def gangs(tmp_path: Path) -> Iterator[Any]:
    """Starts gangs; none outlives its test."""
    with ExitStack() as stack:

        def start(steps: int, **variables: str) -> Gang:
            gang = Gang(tmp_path, steps, **variables)
            stack.callback(gang.cancel)
            return gang

        yield start


def losses(store: Path, step: int) -> list[float]:
    paths = [store / f"step-{step:09d}" / f"rank-{rank}.json" for rank in range(RANKS)]
    return [json.loads(path.read_text())["loss"] for path in paths]


def running(world: World) -> Attempt:
    """A job of ours that runs."""
    job = world.job(state="running")
    return Attempt.objects.create(
        job=job,
        number=1,
        fence="mst-abcdefghijkl-a1",
        cluster=world.clusters["c1"],
        flavor=world.flavor,
        service_class="spot",
        nodes=["n1", "n2"],
        gpus_per_node=8,
        cpus_per_node=8,
        memory_mib_per_node=0,
        exclusive=False,
        tier="leaf",
        account="mia_there",
        state="running",
        bound_at=timezone.now(),
    )


def told(attempt: Attempt, url: str) -> dict[str, str]:
    """What Muster gives the attempt."""
    return {
        "MUSTER_URL": url,
        "MUSTER_JOB_ID": str(attempt.job.uuid),
        "MUSTER_JOB_TOKEN": job_token(attempt.fence),
        "MUSTER_FENCE": attempt.fence,
    }


@pytest.mark.django_db(transaction=True)
def test_it_saves_when_asked_proves_it_and_resumes_there(live_server: Any, gangs: Any) -> None:
    attempt = running(World())
    first = gangs(100_000, **told(attempt, live_server.url))
    first.until_training()
    first.signal(0, 1)
    step = first.until_saved()
    first.signal(1)  # one rank alone is enough: they agree
    second_step = first.until_saved(2)
    end = time.monotonic() + 10
    while (stands := Job.objects.get().saved_step) != second_step:
        assert time.monotonic() < end, f"{stands} is proven, not {second_step}"
        time.sleep(0.05)
    first.cancel()
    attempt.refresh_from_db()
    assert 0 < step < second_step == attempt.saved_step
    store = first.directory / "store"
    assert attempt.saved_path == str(store / f"step-{second_step:09d}")
    assert first.comments() == [], "it told Muster itself"
    assert losses(store, second_step) == pytest.approx([100 * 0.999**second_step] * RANKS)
    again = gangs(second_step + 5, **resume_environment(attempt.saved_step, attempt.saved_path))
    for rank, said in enumerate(again.finish()):
        assert f"rank {rank} resumes at step {second_step}" in said
        assert (
            f"is done at step {second_step + 5}, loss {100 * 0.999 ** (second_step + 5):.6f}"
            in said
        )


def test_without_a_way_to_muster_its_comment_says_the_step(gangs: Any) -> None:
    first = gangs(100_000)
    first.until_training()
    first.signal(0, 1)
    step = first.until_saved()
    end = time.monotonic() + 10
    while not first.comments():
        assert time.monotonic() < end, "no comment came"
        time.sleep(0.02)
    first.cancel()
    assert first.comments() == [f"update JobId=4711 Comment=muster-checkpoint={step}"]
    assert all(
        f"resumes at step {step}" in said
        for said in gangs(step + 1, **resume_environment(step, "")).finish()
    )


@pytest.mark.django_db(transaction=True)
def test_what_muster_refuses_is_said_in_the_comment(live_server: Any, gangs: Any) -> None:
    attempt = running(World())
    refused = {
        **told(attempt, live_server.url),
        "MUSTER_JOB_TOKEN": job_token("mst-another12345-a1"),
    }
    first = gangs(100_000, **refused)
    first.until_training()
    first.signal(0)
    step = first.until_saved()
    end = time.monotonic() + 10
    while not first.comments():
        assert time.monotonic() < end, "no comment came"
        time.sleep(0.02)
    assert first.comments() == [f"update JobId=4711 Comment=muster-checkpoint={step}"]
    assert not Command.objects.exists()


def test_half_a_checkpoint_has_no_name(gangs: Any) -> None:
    """A rank is lost while the others save: nothing is left that looks whole."""
    gang = gangs(100_000)
    gang.until_training()
    gang.ranks[1].kill()
    gang.ranks[1].wait(timeout=10)
    gang.signal(0)
    time.sleep(0.5)
    assert gang.saved() == []
    assert gang.comments() == []


def test_it_saves_by_itself_too(gangs: Any) -> None:
    gang = gangs(25, SAVE_EVERY="10")
    gang.finish()
    assert gang.saved() == [10, 20]
    assert [words.rpartition("=")[2] for words in gang.comments()] == ["10", "20"]


def test_the_job_and_its_script_are_what_the_page_shows() -> None:
    body = json.loads((EXAMPLE / "job.json").read_text())
    script = (EXAMPLE / "train.sh").read_text()
    body["run"]["script"] = script
    spec = parse_spec(body)
    assert not isinstance(spec, tuple), spec
    assert spec.checkpoint is not None
    assert spec.checkpoint.signal == "USR1"
    page = Path("docs/how-to/survive-preemption.md").read_text()
    (line,) = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert line in page
    assert shlex.split(line)[:2] == ["srun", "--kill-on-bad-exit=1"]

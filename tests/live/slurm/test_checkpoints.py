"""The checkpoint contract on real Slurm: `srun` on two nodes, both ways of proving, and resuming."""

import re
from pathlib import Path
from shutil import copy

import pytest

from tests.live.slurm.books import agree
from tests.live.slurm.federation import Job, Muster, give
from tests.stack import eventually

pytestmark = pytest.mark.live
EXAMPLE = Path("docs/examples/survive-preemption")

# As torchrun does: it knows nothing of USR1, and its worker is in a session of its own.
LAUNCHER = """#!/usr/bin/python3
import subprocess, sys
sys.exit(subprocess.Popen(["python3", "train.py", *sys.argv[1:]], start_new_session=True).wait())
"""
LAUNCHED = """#!/bin/bash
unset MUSTER_URL
srun bash -c 'trap "" USR1; exec ./launcher 100000'
"""


def saved(muster: Muster, job: str, above: int = -1) -> Job:
    """Waits until the job has proven a step beyond that; what stands then."""
    found: list[Job] = []

    def there() -> bool:
        told = muster.job(job)["checkpoint_saved"]
        found[:] = [told] if told and told["step"] > above else []
        return bool(found)

    eventually(there, within_s=60, every_s=0.2, what=f"{job} proves more than {above}")
    return found[0]


def ask(muster: Muster, job: str) -> None:
    answer = muster.mia.post(f"/jobs/{job}/checkpoint")
    assert answer.status_code == 200, answer.text


def until_said(path: Path, words: str, times: int = 2) -> list[str]:
    """Waits until the ranks have said it; what they said."""
    pattern = re.compile(words)
    eventually(
        lambda: path.exists() and len(pattern.findall(path.read_text())) >= times,
        within_s=60,
        what=f"{times} x {words} in {path}",
    )
    return pattern.findall(path.read_text())


def test_a_gang_saves_when_asked_proves_it_and_resumes_where_it_was(muster: Muster) -> None:
    """One job tells Muster, behind a plain `srun`; the other its comment, behind a launcher."""
    team, home = muster.team("checkpoints"), muster.people["mia"].home
    copy(EXAMPLE / "train.py", home)
    (home / "launcher").write_text(LAUNCHER)
    (home / "launcher").chmod(0o755)
    ways = {"job": (EXAMPLE / "train.sh").read_text(), "comment": LAUNCHED}
    jobs: dict[str, str] = {}
    for way, script in ways.items():
        store = home / f"store-{way}"
        store.mkdir()
        give(store, "mia")
        body = muster.body(
            team,
            nodes=2,
            gpus=4,
            run={"script": script},
            environment={"STORE": str(store)},
            checkpoint={"signal": "USR1", "grace": 60},
        )
        jobs[way] = muster.submit(body)
    first: dict[str, Job] = {}
    for job in jobs.values():
        fence = muster.until(job, "running")["attempt"]["fence"]
        until_said(home / f"{fence}.out", "trains from step 0")
        ask(muster, job)
        ask(muster, job)  # twice does no harm
    for way, job in jobs.items():
        first[way] = saved(muster, job)
        kept = home / f"store-{way}" / f"step-{first[way]['step']:09d}"
        assert {path.name for path in kept.iterdir()} == {"rank-0.json", "rank-1.json"}
        assert muster.job(job)["state"] == "running"
        assert ("checkpointed", way) in muster.events(job)
    assert first["job"]["path"] == str(home / "store-job" / f"step-{first['job']['step']:09d}")
    assert first["comment"]["path"] is None

    for job in jobs.values():
        assert muster.mia.post(f"/jobs/{job}/hold").status_code == 200
    for job in jobs.values():
        muster.until(job, "held")
        assert muster.mia.post(f"/jobs/{job}/release").status_code == 200
    for job in jobs.values():
        attempt = muster.until(job, "running")["attempt"]
        assert attempt["number"] == 2
        proven = muster.job(job)["checkpoint_saved"]["step"]
        output = home / f"{attempt['fence']}.out"
        assert until_said(output, r"resumes at step (\d+)") == [str(proven)] * 2
        ask(muster, job)
        assert saved(muster, job, above=proven)["step"] > proven
        muster.cancel(job)
    for job in jobs.values():
        muster.until(job, "cancelled")
    stays = agree(muster, team, list(jobs.values()))
    assert [len(stays[job]) for job in jobs.values()] == [2, 2]

"""An owner takes back what is its own: two real clusters, two teams' spot gangs, one guarantee."""

from pathlib import Path
from shutil import copy

import pytest

from tests.live.slurm.books import agree
from tests.live.slurm.federation import A100, H100, Job, Muster, give
from tests.live.slurm.test_checkpoints import EXAMPLE, until_said
from tests.stack import eventually

pytestmark = pytest.mark.live
GRACE_S = 45


def spot(muster: Muster, team: str, flavor: str, store: Path) -> str:
    """A spot gang of four whole nodes, one leaf, that saves when asked."""
    store.mkdir()
    give(store, "mia")
    body = muster.body(
        team,
        nodes=4,
        flavors=[flavor],
        run={"script": (EXAMPLE / "train.sh").read_text()},
        environment={"STORE": str(store), "SAVE_EVERY": "1000000"},
        checkpoint={"signal": "USR1", "grace": GRACE_S},
        **{"class": "spot"},
    )
    job = muster.submit(body)
    attempt = muster.until(job, "running")["attempt"]
    until_said(muster.people["mia"].home / f"{attempt['fence']}.out", "trains from step 0", 4)
    return job


def waiting_for_reclaim(muster: Muster, job: str) -> Job:
    """The reason of a job whose nodes are being freed."""
    found: list[Job] = []

    def waits() -> bool:
        reasons = muster.job(job)["reasons"]
        found[:] = [one for one in reasons if one["code"] == "waiting_for_reclaim"]
        return bool(found)

    eventually(waits, within_s=20, every_s=0.1, what="it waits for what is freed for it")
    return found[0]


def reclaimed(muster: Muster, jobs: list[str]) -> dict[str, int]:
    """Those of the jobs that had to go, each with the step that it proved in its grace."""
    steps = {}
    for job in jobs:
        first = muster.attempts(job)[0]
        if first["end_cause"] != "reclaimed":
            continue
        assert first["cluster"] == "alpha"
        assert first["checkpoint_saved"] is not None, "it had its grace, and saved in it"
        steps[job] = first["checkpoint_saved"]["step"]
        told = muster.events(job)
        assert told.index(("evicting", "reclaimed")) < told.index(("stopping", "reclaimed"))
    return steps


def resumes(muster: Muster, job: str, step: int) -> None:
    """It runs again as spot, at the step that it had proven, and no restart is counted."""
    told = muster.until(job, "running")
    attempt = told["attempt"]
    assert (attempt["number"], attempt["class"], told["restarts"]) == (2, "spot", 0)
    output = muster.people["mia"].home / f"{attempt['fence']}.out"
    assert until_said(output, r"resumes at step (\d+)", 4) == [str(step)] * 4


def test_a_guaranteed_gang_reclaims_from_two_teams_and_they_resume_where_they_were(
    muster: Muster,
) -> None:
    owner = muster.team("owner", guaranteed=64)
    teams = [muster.team(name, guaranteed=0) for name in ("borrower-a", "borrower-b")]
    home = muster.people["mia"].home
    copy(EXAMPLE / "train.py", home)
    jobs: dict[str, list[str]] = {team: [] for team in teams}
    for flavor in (H100, A100):
        for number in range(4):
            team = teams[number % 2]
            jobs[team].append(spot(muster, team, flavor, home / f"store-{flavor}-{number}"))
    everybody = [job for team in teams for job in jobs[team]]

    body = muster.body(owner, "srun sleep 12", nodes=8, **{"class": "guaranteed"})
    gang = muster.submit(body)
    reason = waiting_for_reclaim(muster, gang)
    assert (reason["cluster"], reason["needed"], reason["unit"]) == ("alpha", 64, "gpus")
    attempt = muster.until(gang, "running", within_s=GRACE_S + 30)["attempt"]
    assert (attempt["cluster"], len(attempt["nodes"])) == ("alpha", 8)
    steps = reclaimed(muster, everybody)
    assert [len(steps.keys() & set(jobs[team])) for team in teams] == [1, 1]
    muster.until(gang, "succeeded", within_s=60)
    for job, step in steps.items():
        resumes(muster, job, step)

    for job in everybody:
        muster.cancel(job)
    for job in everybody:
        muster.until(job, "cancelled")
    (stay,) = agree(muster, owner, [gang])[gang]
    assert (stay.qos, stay.gpus) == ("guaranteed", 64)
    for team in teams:
        stays = agree(muster, team, jobs[team])
        assert {one.qos for found in stays.values() for one in found} == {"spot"}
        assert [len(stays[job]) for job in jobs[team]] == [1 + (job in steps) for job in jobs[team]]

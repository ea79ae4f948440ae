"""Gangs on real Slurm, from the request to the bill: whole or not at all, where they asked to be."""

import pytest

from tests.live.slurm.books import agree
from tests.live.slurm.federation import A100, H100, Job, Muster
from tests.stack import eventually

pytestmark = pytest.mark.live
LEAF = 4
RANKS = "srun --ntasks=128 --ntasks-per-node=8 bash -c 'echo $SLURM_PROCID $SLURMD_NODENAME'"


def leaves(nodes: list[str]) -> set[int]:
    """The leaves that hold these nodes: alpha-n000 to -n003 are the first, and so on."""
    return {int(node[-3:]) // LEAF for node in nodes}


def tiers(job: Job) -> tuple[str, str]:
    return job["attempt"]["tier_promised"], job["attempt"]["tier_seen"]


def test_a_gang_of_a_whole_cluster_runs_whole_as_its_user(muster: Muster) -> None:
    team = muster.team("whole")
    job = muster.submit(muster.body(team, f"{RANKS}\nid -un", nodes=16))
    done = muster.until(job, "succeeded", within_s=90)
    attempt = done["attempt"]
    assert attempt["nodes_seen"] == attempt["nodes"] == [f"alpha-n{n:03d}" for n in range(16)]
    assert tiers(done) == ("spine", "spine")

    output = muster.people["mia"].home / f"{attempt['fence']}.out"
    assert output.owner() == "mia"
    *lines, user = output.read_text().splitlines()
    assert user == "mia"
    ranks = dict(line.split() for line in lines)
    assert {int(rank) for rank in ranks} == set(range(128))
    assert set(ranks.values()) == set(attempt["nodes"])

    (stay,) = agree(muster, team, [job])[job]
    assert (stay.nodes, stay.gpus, stay.user) == (16, 128, "mia")


def test_a_plain_srun_starts_as_many_tasks_on_each_node_as_were_asked_for(muster: Muster) -> None:
    team = muster.team("tasks")
    run = {"script": "#!/bin/bash\nsrun bash -c 'echo $SLURM_PROCID $SLURMD_NODENAME'\n"}
    job = muster.submit(muster.body(team, nodes=2, run={**run, "tasks_per_node": 8}))
    attempt = muster.until(job, "succeeded")["attempt"]
    output = muster.people["mia"].home / f"{attempt['fence']}.out"
    ranks = dict(line.split() for line in output.read_text().splitlines())
    assert {int(rank) for rank in ranks} == set(range(16))
    assert sorted(ranks.values()) == sorted(attempt["nodes"] * 8)
    agree(muster, team, [job])


def test_tiers_required_and_preferred(muster: Muster) -> None:
    """Four nodes within one leaf; six that prefer a leaf take the lowest tier that fits."""
    team = muster.team("tiers")
    required = muster.submit(muster.body(team, nodes=4, topology={"required": "leaf"}))
    preferred = muster.submit(
        muster.body(team, nodes=6, flavors=[A100], topology={"preferred": "leaf"})
    )
    leaf, wide = (muster.until(job, "succeeded") for job in (required, preferred))
    assert tiers(leaf) == ("leaf", "leaf")
    assert len(leaves(leaf["attempt"]["nodes_seen"])) == 1
    assert tiers(wide) == ("spine", "spine")
    assert len(leaves(wide["attempt"]["nodes_seen"])) == 2
    agree(muster, team, [required, preferred])


def test_two_gangs_that_exceed_a_cluster_one_runs_whole_the_other_holds_nothing(
    muster: Muster,
) -> None:
    team = muster.team("two")
    first, second = (
        muster.submit(muster.body(team, f"sleep {seconds}", nodes=nodes))
        for nodes, seconds in ((10, 6), (9, 1))
    )
    running = muster.until(first, "running")
    assert len(running["attempt"]["nodes_seen"]) == 10
    eventually(lambda: muster.job(second)["reasons"], what="a reason for the second")
    waiting = muster.job(second)
    assert (waiting["state"], waiting["attempt"]) == ("queued", None)
    (reason,) = waiting["reasons"]
    assert (reason["code"], reason["cluster"], reason["flavor"]) == ("no_capacity", "alpha", H100)
    assert (reason["needed"], reason["available"], reason["unit"]) == (9, 6, "nodes")
    assert muster.job(first)["state"] == "running"
    muster.until(second, "succeeded")
    one, other = agree(muster, team, [first, second]).values()
    assert one[0].end_s is not None
    assert one[0].end_s <= other[0].start_s


def test_two_hundred_small_jobs_over_both_clusters(muster: Muster) -> None:
    """One batch; either flavor, either class; more than fits at once.

    What runs as spot may have to give way to those inside the guarantee, and then runs anew;
    nothing else may run more than once.
    """
    team = muster.team("small")
    bodies = [
        muster.body(
            team,
            f"sleep 0.{n % 7}",
            nodes=1 + n % 2,
            gpus=1 + n % 8,
            flavors=[H100, A100] if n % 3 else [A100, H100],
            **{"class": "spot" if n % 5 == 0 else "auto"},
        )
        for n in range(200)
    ]
    answer = muster.mia.post("/jobs/batch", json={"jobs": bodies})
    assert answer.status_code == 201, answer.text
    jobs = [job["id"] for job in answer.json()["jobs"]]
    assert len(set(jobs)) == 200
    muster.until_all(team, "succeeded", within_s=240)
    stays = agree(muster, team, jobs)
    for job in (job for job in jobs if len(stays[job]) != 1):
        *before, last = muster.attempts(job)
        assert {(row["class"], row["end_cause"]) for row in before} == {("spot", "reclaimed")}
        assert last["class"] == "spot"
    every = [stay for found in stays.values() for stay in found]
    assert {stay.cluster for stay in every} == {"alpha", "beta"}
    assert {stay.qos for stay in every} == {"guaranteed", "spot"}
    for job, body in zip(jobs, bodies, strict=True):
        gang = body["gang"]
        for stay in stays[job]:
            assert stay.gpus == gang["nodes"] * gang["gpus_per_node"]

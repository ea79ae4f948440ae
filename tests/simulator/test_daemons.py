"""Deeds on slurmctld, slurmdbd and the clock, as Slurm's REST shows the result."""

import pytest

from tests.simulator.harness import FENCE, Lab, is_unknown, running, states

# slurmctld's state


def test_a_restart_that_lost_its_state_gives_ids_out_again(lab: Lab) -> None:
    job = running(lab, nodes=2)
    lab.control("slurmctld/restart", knows="lost", unknown_ms=0)
    assert is_unknown(lab, job)
    assert lab.node("alpha-n000")["gres_used"] == "gpu:h100:0(IDX:N/A)"
    assert lab.submit(name="another") == job
    lab.wait(700)
    # the record of the job that was lost stays open for ever; both bear one id
    found = [(row["name"], row["state"]["current"]) for row in lab.runs(job)]
    assert found == [(FENCE, "RUNNING"), ("another", "COMPLETED")]
    assert lab.job(job)["name"] == "another"


def test_a_cold_start_closes_what_accounting_had_open(lab: Lab) -> None:
    job = running(lab)
    lab.control("slurmctld/restart", knows="lost", cold=True)
    lab.wait(1)
    (row,) = lab.runs(job)
    assert row["state"]["current"] == "CANCELLED"
    assert row["time"]["elapsed"] > 0


def test_an_older_state_has_forgotten_the_release(lab: Lab) -> None:
    job = lab.submit(name=FENCE, hold=True, requeue=False)
    lab.wait(5)
    lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"hold": False})
    later = running(lab, name="later")
    lab.control("slurmctld/restart", knows="older", ago_ms=3000, unknown_ms=0)
    assert (lab.job(job)["job_state"], lab.job(job)["state_reason"]) == ("PENDING", "JobHeldUser")
    assert is_unknown(lab, later)
    assert lab.submit(name="again") == later
    lab.wait(1)
    assert states(lab, job) == ["PENDING"]  # its first run has left no trace
    lab.control("jobs/release", job_id=job)
    lab.wait(2)
    assert states(lab, job) == ["RUNNING"]
    stays = lab.client.get("/_control/stays").json()["stays"]
    assert [(stay["name"], stay["end_ms"] > 0) for stay in stays] == [
        (FENCE, True),  # but the laboratory knows
        ("later", True),
        ("again", False),
        (FENCE, False),
    ]


def test_an_older_state_does_not_know_what_was_lost_before_it(lab: Lab) -> None:
    lab.submit(name="before")
    lost = lab.submit(name=FENCE)
    lab.wait(1)
    lab.control("slurmctld/restart", knows="lost")
    lab.wait(5)
    lab.submit(name="again")
    lab.wait(2)
    lab.control("slurmctld/restart", knows="older", ago_ms=1000)
    assert is_unknown(lab, lost)  # its record is open for ever, its job is not back
    lab.control("slurmctld/restart", knows="older", ago_ms=7500)
    assert lab.job(lost)["name"] == FENCE


@pytest.mark.parametrize(
    ("requeue", "controller", "accounting"),
    [(False, "NODE_FAIL", ["NODE_FAIL"]), (True, "PENDING", ["NODE_FAIL", "PENDING"])],
)
def test_an_older_state_misses_what_has_ended_since(
    lab: Lab, requeue: bool, controller: str, accounting: list[str]
) -> None:
    job = lab.submit(script="#!/bin/sh\nsleep 10\n", requeue=requeue)
    steady = running(lab, name="steady", nodes=2)
    before = lab.job(steady)
    lab.wait(13)
    assert lab.job(job)["job_state"] == "COMPLETED"
    lab.control("slurmctld/restart", knows="older", ago_ms=8000)
    lab.wait(1)
    assert lab.job(job)["job_state"] == controller
    assert states(lab, job) == accounting
    assert lab.job(steady) == before


def test_a_kept_state_changes_nothing_but_the_nodes(lab: Lab) -> None:
    job = running(lab)
    before = lab.job(job)
    lab.control("slurmctld/restart")
    assert lab.job(job) == before
    assert lab.node("alpha-n000")["state"] == "unknown"
    lab.wait(5)
    assert lab.node("alpha-n000")["state"] != "unknown"


@pytest.mark.parametrize(("ended", "recorded"), [(None, "RUNNING"), ("COMPLETED", "COMPLETED")])
def test_a_job_can_vanish_from_slurmctld(lab: Lab, ended: str | None, recorded: str) -> None:
    job = running(lab)
    lab.control("slurmctld/forget", name=FENCE, ended=ended)
    lab.wait(1)
    assert is_unknown(lab, job)
    assert states(lab, job) == [recorded]
    assert lab.submit() == job + 1


def test_finished_jobs_can_be_forgotten_at_once(lab: Lab) -> None:
    over, alive = lab.submit(script="#!/bin/sh\nsleep 1\n"), lab.submit()
    lab.wait(5)
    assert lab.control("slurmctld/forget_finished") == {"jobs": [over]}
    assert is_unknown(lab, over)
    assert states(lab, over) == ["COMPLETED"]
    assert lab.job(alive)["job_state"] == "RUNNING"


def test_the_next_id_passes_over_living_jobs(lab: Lab) -> None:
    first = running(lab)
    lab.control("slurmctld/next_id", job_id=first)
    assert lab.submit() == first + 1
    lab.control("slurmctld/next_id", job_id=500)
    assert lab.submit() == 500


# Accounting


def test_accounting_can_lag(lab: Lab) -> None:
    lab.control("slurmdbd/lag", ms=60_000)
    job = running(lab)
    lab.wait(58)
    assert lab.runs(job) == []
    lab.wait(2)
    assert states(lab, job) == ["RUNNING"]
    lab.call("DELETE", f"/slurm/v0.0.38/job/{job}")
    lab.wait(59)
    assert states(lab, job) == ["RUNNING"]
    lab.control("slurmdbd/lag", ms=0)
    assert states(lab, job) == ["CANCELLED"]


def test_accounting_can_lose_a_job_and_never_get_one(lab: Lab) -> None:
    job = running(lab)
    lab.wait(1)
    assert lab.control("slurmdbd/lose", name=FENCE) == {"records": 1}
    lab.control("slurmdbd/deaf")
    unheard = running(lab, name="unheard")
    lab.control("slurmdbd/deaf", deaf=False)
    heard = running(lab, name="heard")
    lab.wait(2)
    assert [lab.runs(number) != [] for number in (job, unheard, heard)] == [False, False, True]
    assert [lab.job(number)["job_state"] for number in (job, unheard)] == ["RUNNING", "RUNNING"]


def test_accounting_can_miss_an_end(lab: Lab) -> None:
    job = running(lab)
    lab.control("slurmdbd/freeze", job_id=job)
    lab.control("jobs/cancel", job_id=job)
    lab.wait(400)
    assert is_unknown(lab, job)
    assert states(lab, job) == ["RUNNING"]


# Clocks


def test_a_skewed_clock_shows_in_all_timestamps(lab: Lab) -> None:
    job = running(lab)
    fields = ("submit_time", "start_time", "end_time", "eligible_time")
    before, told = lab.job(job), lab.call("GET", "/slurm/v0.0.38/diag").json()["statistics"]
    lab.control("clock/skew", ms=-90_000)
    after, now = lab.job(job), lab.call("GET", "/slurm/v0.0.38/diag").json()["statistics"]
    assert [after[f] - before[f] for f in fields] == [-90] * 4
    assert now["req_time"] - told["req_time"] == -90
    lab.wait(1)
    (row,) = lab.runs(job)
    assert row["time"]["start"] == after["start_time"]


def test_a_jump_leaves_what_was_written_and_stretches_what_runs(lab: Lab) -> None:
    job = running(lab)
    began = lab.job(job)["start_time"]
    lab.control("clock/jump", ms=1_800_000)
    lab.wait(10)
    assert lab.job(job)["start_time"] == began
    assert lab.runs(job)[0]["time"]["elapsed"] == pytest.approx(1810, abs=2)
    lab.control("clock/jump", ms=-3_600_000)
    assert lab.runs(job)[0]["time"]["elapsed"] == 0
    assert lab.job(job)["job_state"] == "RUNNING"
    lab.wait(600)
    assert lab.job(job)["job_state"] == "COMPLETED"


def test_a_begin_time_is_read_by_the_clusters_clock(lab: Lab) -> None:
    lab.control("clock/skew", ms=-60_000)
    job = lab.submit(begin_time="now+30s")
    lab.wait(29)
    assert lab.job(job)["job_state"] == "PENDING"
    lab.wait(2)
    assert lab.job(job)["job_state"] == "RUNNING"


def test_tokens_are_checked_by_the_clusters_clock(lab: Lab) -> None:
    lab.control("clock/skew", ms=7_200_000)
    assert lab.call("GET", "/slurm/v0.0.38/jobs").status_code == 500


def test_a_clock_is_off_by_a_year_at_most(lab: Lab) -> None:
    for deed in ("clock/skew", "clock/jump"):
        answer = lab.client.post(f"/_control/{deed}", json={"ms": 400 * 86_400_000})
        assert answer.status_code == 400
    assert lab.client.post("/_control/clock/advance", json={"ms": -1}).status_code == 400

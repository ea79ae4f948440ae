"""Deeds of the side door, over its JSON and as Slurm's REST shows the result.

Deeds on daemons and clocks are in `test_daemons`, faults on real sockets in `test_server`.
"""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.config import Partition
from simulator.control import DEEDS, do
from simulator.engine.model import RefusedError
from tests.simulator.harness import FENCE, Lab, lab_cluster, running, states

# Nodes


def test_a_node_that_blinks_fails_its_jobs_and_is_back(lab: Lab) -> None:
    job = running(lab, nodelist="alpha-n003")
    lab.control("nodes/blink", nodes="alpha-n003", ms=700)
    assert lab.node("alpha-n003")["state"] == "down"
    lab.wait(0.7)
    assert lab.node("alpha-n003")["state"] == "idle"
    assert lab.node("alpha-n003")["reason"] == ""
    assert lab.job(job)["job_state"] == "NODE_FAIL"


def test_an_operator_has_the_last_word_on_a_node_that_blinks(lab: Lab) -> None:
    lab.control("nodes/blink", nodes="alpha-n[000-001]", ms=700)
    lab.control("nodes/down", nodes="alpha-n000", reason="fan")
    lab.control("nodes/drain", nodes="alpha-n001", reason="disk")
    lab.wait(1)
    assert (lab.node("alpha-n000")["state"], lab.node("alpha-n000")["reason"]) == ("down", "fan")
    assert lab.node("alpha-n001")["state_flags"] == ["DRAIN"]


def test_a_silent_node_keeps_its_job_and_starts_nothing(lab: Lab) -> None:
    job = running(lab, nodelist="alpha-n003", gres="gpu:h100:2")
    lab.control("nodes/silent", nodes="alpha-n003", ms=2000)
    assert lab.node("alpha-n003")["state_flags"] == ["NOT_RESPONDING"]
    other = lab.submit(nodelist="alpha-n003", gres="gpu:h100:2")
    lab.wait(1)
    found = [lab.job(number)["job_state"] for number in (job, other)]
    assert found == ["RUNNING", "PENDING"]
    lab.wait(2)
    assert lab.node("alpha-n003")["state_flags"] == []
    assert lab.job(other)["job_state"] == "RUNNING"


def test_a_node_can_fail_under_a_job(lab: Lab) -> None:
    job = running(lab, nodes=3)
    held = lab.running.world.jobs[job].shares
    struck = lab.control("nodes/fail_under", name=FENCE, which=1)["nodes"]
    assert struck == [list(held)[1]]
    assert lab.job(job)["job_state"] == "NODE_FAIL"
    assert lab.node(struck[0])["state"] == "down"


# An operator's hand


def test_a_requeue_by_hand_makes_a_second_run_under_the_same_id(lab: Lab) -> None:
    job = running(lab)
    lab.control("jobs/requeue", job_id=job)
    row = lab.job(job)
    found = (row["job_state"], row["state_reason"], row["restart_cnt"])
    assert found == ("PENDING", "BeginTime", 1)
    lab.wait(10)
    assert states(lab, job) == ["REQUEUED", "RUNNING"]
    first, second = lab.runs(job)
    assert first["time"]["end"] <= second["time"]["start"]
    lab.control("jobs/cancel", name=FENCE)
    assert lab.runs(job)[0]["time"] == first["time"]


def test_a_finished_job_can_be_requeued_and_a_waiting_one_not(lab: Lab) -> None:
    job = lab.submit(script="#!/bin/sh\nsleep 1\n")
    lab.wait(5)
    lab.control("jobs/requeue", job_id=job)
    lab.wait(10)
    assert states(lab, job) == ["COMPLETED", "COMPLETED"]
    held = lab.submit(hold=True)
    with pytest.raises(RefusedError):
        do(lab.running, "jobs/requeue", job_id=held)


def test_what_an_operator_holds_its_owner_cannot_release(lab: Lab) -> None:
    job = lab.submit(hold=True)
    lab.control("jobs/hold", job_id=job)
    assert lab.job(job)["state_reason"] == "JobHeldAdmin"
    assert lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"hold": False}).status_code == 500
    lab.control("jobs/release", job_id=job)
    lab.wait(1)
    assert lab.job(job)["job_state"] == "RUNNING"


def test_a_job_is_moved_by_hand(tmp_path: Path) -> None:
    partitions = [Partition("batch", default=True), Partition("small", "alpha-n[000-003]")]
    lab = Lab(lab_cluster(tmp_path, partitions=partitions))
    job = lab.submit(hold=True, nodelist="alpha-n006", partition="batch")
    lab.control("jobs/move", job_id=job, partition="small", nodes="alpha-n002")
    lab.control("jobs/release", job_id=job)
    lab.wait(1)
    row = lab.job(job)
    assert (row["partition"], row["nodes"]) == ("small", "alpha-n002")
    assert lab.runs(job)[0]["partition"] == "small"
    for wrong in ({"job_id": job, "partition": "batch"}, {"job_id": 99, "partition": "batch"}):
        assert lab.client.post("/_control/jobs/move", json=wrong).status_code == 400


def test_a_time_limit_changed_by_hand_strikes(lab: Lab) -> None:
    job = running(lab, time_limit=60)
    lab.control("jobs/time_limit", job_id=job, minutes=1)
    assert lab.job(job)["time_limit"] == 1
    lab.wait(59)
    assert lab.job(job)["job_state"] == "COMPLETING"
    assert lab.runs(job)[0]["state"]["current"] in {"RUNNING", "TIMEOUT"}
    lab.wait(2)
    assert states(lab, job) == ["TIMEOUT"]


def test_an_operator_cancels_anybodys_job(lab: Lab) -> None:
    job = running(lab)
    assert lab.control("jobs/cancel", name=FENCE) == {"jobs": [job]}
    lab.wait(2)
    (row,) = lab.runs(job)
    assert (row["state"]["current"], row["kill_request_user"]) == ("CANCELLED", "root")


def test_an_operator_edits_the_mark_a_job_is_known_by(lab: Lab) -> None:
    job = lab.submit(comment="muster:run", dependency="singleton")
    lab.control("jobs/edit", job_id=job, comment="", priority=7)
    row = lab.job(job)
    assert (row["comment"], row["priority"]) == ("", 7)
    held = lab.submit(hold=True)
    answer = lab.client.post("/_control/jobs/edit", json={"job_id": held, "priority": 7})
    assert answer.status_code == 400


# Foreign objects and load


def test_anybody_can_bear_our_fence(lab: Lab) -> None:
    ours = running(lab)
    made = lab.control(
        "foreign/add", user="eve", name=FENCE, comment="not yours", nodes=1, seconds=60, hold=True
    )
    row = lab.job(made["job_id"])
    assert (row["name"], row["user_name"], row["comment"]) == (FENCE, "eve", "not yours")
    assert (row["state_reason"], made["job_id"]) == ("JobHeldUser", ours + 1)


def test_foreign_load_takes_given_nodes_ahead_of_everybody(lab: Lab) -> None:
    taken = lab.control("foreign/take", nodes="alpha-n[002-003]")
    assert taken["state"] == "RUNNING"
    assert lab.job(taken["job_id"])["nodes"] == "alpha-n[002-003]"


def test_an_ambush_takes_what_was_chosen_just_before(lab: Lab) -> None:
    lab.control("foreign/ambush", times=1, seconds=30)
    free, pinned = lab.submit(), lab.submit(nodelist="alpha-n[004-005]", nodes=2, hold=True)
    lab.control("jobs/release", job_id=pinned)
    lab.wait(1)
    assert lab.job(free)["job_state"] == "RUNNING"
    assert lab.job(pinned)["job_state"] == "PENDING"
    assert lab.job(pinned - 1)["nodes"] == "alpha-n[004-005]"
    again = running(lab, nodelist="alpha-n006")
    assert again == pinned + 1
    lab.wait(40)
    assert lab.job(pinned)["job_state"] == "RUNNING"


# The door itself


@pytest.mark.parametrize(
    ("deed", "body", "word"),
    [
        ("nodes/blink", {"nodes": "alpha-n000"}, "ms"),
        ("nodes/blink", {"nodes": "alpha-n000", "ms": 0}, "ms: must be from 1"),
        ("nodes/blink", {"nodes": "alpha-n000", "ms": "5"}, "ms: must be int"),
        ("nodes/down", {"nodes": "beta-n000"}, "Invalid node name"),
        ("jobs/hold", {}, "job_id or name"),
        ("jobs/hold", {"job_id": 77}, "Invalid job id"),
        ("jobs/hold", {"job_id": True}, "job_id: must be"),
        ("slurmctld/up", {"know": "lost"}, "know"),
        ("slurmctld/up", {"knows": "much"}, "kept"),
        ("slurmctld/forget", {"job_id": 1, "ended": "RUNNING"}, "COMPLETED"),
        ("slurmdbd/lose", {"job_id": 77}, "no such job"),
    ],
)
def test_a_deed_that_makes_no_sense_is_refused(
    lab: Lab, deed: str, body: dict[str, Any], word: str
) -> None:
    answer = lab.client.post(f"/_control/{deed}", json=body)
    assert answer.status_code == 400
    assert word in answer.json()["error"]


def test_the_readme_tells_of_every_deed_and_every_kind_of_fault(lab: Lab) -> None:
    told = (Path(__file__).parents[2] / "simulator" / "README.md").read_text()
    listed = lab.client.get("/_control").json()
    assert listed["deeds"].keys() == DEEDS.keys()
    rows = re.findall(r"^\| (`.*?) \|", told, re.MULTILINE)
    words = {word for row in rows for word in re.findall(r"`([a-z0-9_/]+)`", row)}
    assert {name for name in DEEDS if not {name, name.split("/")[-1]} & words} == set()
    assert set(listed["faults"]) <= words


def test_the_same_deeds_at_the_same_times_make_the_same_history(tmp_path: Path) -> None:
    first, second = (a_bad_day(Lab(lab_cluster(tmp_path))) for _ in range(2))
    assert first == second
    assert len(set(first)) == 3


def a_bad_day(lab: Lab) -> list[str]:
    """Something of everything; what each part of the cluster says at the end."""
    lab.control("foreign/ambush")
    pinned = lab.submit(nodelist="alpha-n001", name=FENCE)
    lab.control("nodes/blink", nodes="alpha-n[000-002]", ms=900)
    lab.control("faults/add", kind="delay_before", path="job/submit", ms=60_000)
    with pytest.raises(httpx.ReadTimeout):
        lab.submit(name=FENCE)
    lab.control("clock/jump", ms=-5000)
    lab.submit(nodes=4, hold=True)
    lab.control("slurmctld/restart", knows="older", ago_ms=4000)
    lab.control("jobs/edit", job_id=pinned, priority=9)
    lab.wait(70)
    lab.control("slurmdbd/lag", ms=2000)
    paths = ["slurm/v0.0.38/jobs", "slurm/v0.0.38/nodes", "slurmdb/v0.0.38/jobs"]
    return [lab.call("GET", f"/{path}").text for path in paths]


# Without sockets


def test_a_client_that_gives_up_does_not_stop_the_cluster(lab: Lab) -> None:
    """A late duplicate: the submit happens when its time comes, whoever waits."""
    lab.control("faults/add", kind="delay_before", path="job/submit", ms=8000)
    began = lab.running.now_ms()
    with pytest.raises(httpx.ReadTimeout):
        lab.try_submit(name=FENCE)  # httpx waits five seconds
    assert lab.running.now_ms() == began + 5000
    second = lab.submit(name=FENCE)
    lab.wait(3)
    names = [job["name"] for job in lab.call("GET", "/slurm/v0.0.38/jobs").json()["jobs"]]
    assert names == [FENCE, FENCE]
    assert lab.job(second + 1)["submit_time"] == (began + 8000) // 1000


def test_a_slow_answer_takes_the_clusters_own_time(lab: Lab) -> None:
    lab.control("faults/add", kind="delay_after", path="job/submit", ms=2000)
    began = lab.running.now_ms()
    job = lab.submit()
    assert lab.running.now_ms() == began + 2000
    assert lab.job(job)["submit_time"] == began // 1000


def test_faults_look_to_a_client_as_they_do_on_a_wire(lab: Lab) -> None:
    expected = {
        "reset_before": httpx.ReadError,
        "drop_after": httpx.RemoteProtocolError,
        "truncate": httpx.RemoteProtocolError,
    }
    for kind, error in expected.items():
        lab.control("faults/add", kind=kind, path="job/submit")
        with pytest.raises(error):
            lab.submit()
    lab.control("wire/refuse", ms=1000)
    with pytest.raises(httpx.ConnectError):
        lab.submit()
    lab.running.advance_ms(1000)
    assert lab.submit() == 3

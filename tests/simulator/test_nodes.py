"""Nodes that fail, drain and come back, and load that is not ours."""

from dataclasses import replace
from pathlib import Path

from simulator.config import Foreign
from tests.simulator.harness import Lab, lab_cluster


def test_a_lost_node_ends_a_gang_that_may_not_requeue(lab: Lab) -> None:
    job = lab.submit(nodes=2, nodelist="alpha-n[004-005]", no_requeue=True)
    lab.wait(3)
    lab.control("nodes/down", nodes="alpha-n004", reason="crash")
    row = lab.job(job)
    assert (row["job_state"], row["state_reason"]) == ("NODE_FAIL", "NodeDown")
    node = lab.node("alpha-n004")
    assert (node["state"], node["reason"], node["reason_set_by_user"]) == ("down", "crash", "root")
    assert lab.node("alpha-n005")["state"] == "idle"
    lab.control("nodes/up", nodes="alpha-n004")
    assert lab.node("alpha-n004")["state"] == "idle"
    assert lab.node("alpha-n004")["reason"] == ""


def test_a_requeued_gang_runs_elsewhere_under_the_same_id(lab: Lab) -> None:
    job = lab.submit(nodes=2)
    lab.wait(3)
    first = lab.job(job)["nodes"]
    lab.control("nodes/down", nodes="alpha-n000")
    row = lab.job(job)
    assert (row["job_state"], row["state_reason"], row["restart_cnt"]) == (
        "PENDING",
        "BeginTime",
        1,
    )
    assert row["eligible_time"] == row["submit_time"] + 6
    lab.wait(8)
    again = lab.job(job)
    assert again["job_state"] == "RUNNING"
    assert again["nodes"] != first
    lab.wait(1)
    assert [run["state"]["current"] for run in lab.runs(job)] == ["NODE_FAIL", "RUNNING"]
    # Without a flag `jobs` gives the last run only, with skip_steps every one.
    for query, states in (("", ["RUNNING"]), ("&skip_steps=true", ["NODE_FAIL", "RUNNING"])):
        rows = lab.call("GET", f"/slurmdb/v0.0.38/jobs?job_name=run{query}").json()["jobs"]
        assert [r["state"]["current"] for r in rows] == states


def test_a_job_pinned_to_a_lost_node_waits_and_blocks_nobody(lab: Lab) -> None:
    lab.control("nodes/down", nodes="alpha-n004")
    lab.control("nodes/drain", nodes="alpha-n005", reason="maint")
    pinned = lab.submit(nodelist="alpha-n[004-005]", nodes=2)
    whole = lab.submit(nodes=8)
    free = lab.submit(nodes=6)
    lab.wait(2)
    row = lab.job(pinned)
    assert row["state_reason"] == "ReqNodeNotAvail"
    assert row["state_description"].endswith("UnavailableNodes:alpha-n[004-005]")
    assert lab.job(whole)["state_reason"] == "Resources"
    assert lab.job(whole)["state_description"].startswith("Nodes required for job are DOWN")
    assert lab.job(free)["job_state"] == "RUNNING"
    lab.control("nodes/up", nodes="alpha-n[004-005]")
    lab.wait(1)
    assert lab.job(pinned)["job_state"] == "RUNNING"


def test_a_draining_node_finishes_what_runs_and_starts_nothing(lab: Lab) -> None:
    job = lab.submit(nodelist="alpha-n003", script="#!/bin/sh\nsleep 5\n")
    lab.wait(1)
    lab.control("nodes/drain", nodes="alpha-n003", reason="maint")
    node = lab.node("alpha-n003")
    assert (node["state"], node["state_flags"]) == ("mixed", ["DRAIN"])
    lab.wait(10)
    assert lab.job(job)["job_state"] == "COMPLETED"
    after = lab.submit(nodelist="alpha-n003")
    lab.wait(2)
    assert lab.job(after)["job_state"] == "PENDING"
    lab.control("nodes/undrain", nodes="alpha-n003")
    lab.wait(1)
    assert lab.job(after)["job_state"] == "RUNNING"


def test_foreign_load_keeps_its_share_and_is_ordinary_jobs(tmp_path: Path) -> None:
    stream = Foreign(percent=50, nodes=[1, 3], seconds=[60, 90], every_seconds=30)
    lab = Lab(lab_cluster(tmp_path, foreign=stream))
    again = Lab(lab_cluster(tmp_path, foreign=stream))
    lab.wait(400)
    again.wait(400)
    jobs = lab.call("GET", "/slurm/v0.0.38/jobs").json()["jobs"]
    assert jobs == again.call("GET", "/slurm/v0.0.38/jobs").json()["jobs"]
    busy = [j for j in jobs if j["job_state"] == "RUNNING"]
    assert 3 <= sum(j["node_count"] for j in busy) <= 4
    assert {j["user_name"] for j in jobs} <= {"nadia", "otto"}
    assert lab.call("DELETE", f"/slurm/v0.0.38/job/{busy[0]['job_id']}").status_code == 500
    lab.control("foreign/remove", stream=False)
    lab.wait(200)
    assert all(
        n["state"] == "idle" for n in lab.call("GET", "/slurm/v0.0.38/nodes").json()["nodes"]
    )


def test_a_foreign_job_can_be_added_and_removed_by_hand(lab: Lab) -> None:
    job = lab.control("foreign/add", nodes=3, seconds=600)["job_id"]
    lab.wait(1)
    row = lab.job(job)
    assert (row["job_state"], row["node_count"], row["name"]) == ("RUNNING", 3, "foreign")
    assert lab.control("foreign/remove", job_id=job)["cancelled"] == [job]


def test_speed_divides_durations_and_leaves_the_clock_alone(tmp_path: Path) -> None:
    config = replace(lab_cluster(tmp_path), speed=60.0)
    lab = Lab(config)
    begin = lab.now
    job = lab.submit(script="#!/bin/sh\nsleep 600\n", time_limit=60)
    lab.wait(1)
    row = lab.job(job)
    assert (row["submit_time"], row["time_limit"]) == (begin, 60)
    assert row["end_time"] - row["start_time"] == 60
    lab.wait(11)
    (run,) = lab.runs(job)
    assert (run["state"]["current"], run["time"]["elapsed"]) == ("COMPLETED", 10)


def test_the_topology_shows_as_features_only(tmp_path: Path) -> None:
    lab = Lab(lab_cluster(tmp_path))
    features = [n["features"] for n in lab.call("GET", "/slurm/v0.0.38/nodes").json()["nodes"]]
    assert features == ["h100,leaf000"] * 4 + ["h100,leaf001"] * 4

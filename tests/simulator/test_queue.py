"""Queueing, running and ending, seen over the wire on a clock moved by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.engine.commands import submit
from simulator.engine.model import Request
from tests.simulator.harness import Lab, lab_cluster


def test_two_phase_submit_runs_one_and_only_one(lab: Lab) -> None:
    wanted = {"hold": True, "dependency": "singleton", "nodes": 2, "nodelist": "alpha-n[002-003]"}
    first, second = lab.submit(**wanted), lab.submit(**wanted)
    lab.wait(2)
    assert {lab.job(j)["state_reason"] for j in (first, second)} == {"JobHeldUser"}
    lab.call("POST", f"/slurm/v0.0.38/job/{first}", {"hold": False})
    lab.call("DELETE", f"/slurm/v0.0.38/job/{second}")
    lab.wait(2)
    assert (lab.job(first)["job_state"], lab.job(first)["nodes"]) == ("RUNNING", "alpha-n[002-003]")
    assert lab.job(second)["job_state"] == "CANCELLED"
    assert [run["state"]["current"] for run in lab.runs(second)] == ["CANCELLED"]


def test_singleton_runs_one_of_a_name_at_a_time(lab: Lab) -> None:
    first = lab.submit(dependency="singleton", script="#!/bin/sh\nsleep 5\n")
    second = lab.submit(dependency="singleton")
    other = lab.submit(user="games", dependency="singleton")
    lab.wait(2)
    assert lab.job(second)["state_reason"] == "Dependency"
    assert lab.job(second)["dependency"] == "singleton(unfulfilled)"
    assert lab.job(other)["job_state"] == "RUNNING"
    lab.wait(6)
    assert lab.job(first)["job_state"] == "COMPLETED"
    assert lab.job(second)["job_state"] == "RUNNING"


def test_of_two_gangs_that_exceed_the_cluster_one_holds_nothing(lab: Lab) -> None:
    first, second = lab.submit(nodes=6), lab.submit(nodes=6)
    lab.wait(2)
    assert lab.job(first)["node_count"] == 6
    waiting = lab.job(second)
    assert (waiting["job_state"], waiting["state_reason"], waiting["nodes"]) == (
        "PENDING",
        "Resources",
        "",
    )
    assert waiting["start_time"] == lab.job(first)["end_time"]
    assert "job_resources" not in waiting


def test_a_gang_is_packed_on_one_leaf_and_a_bracket_demands_it(lab: Lab) -> None:
    lab.submit(nodes=1)
    lab.wait(1)
    packed = lab.submit(nodes=4)
    strict = lab.submit(nodes=4, constraints="[leaf000|leaf001]")
    lab.wait(2)
    assert lab.job(packed)["nodes"] == "alpha-n[004-007]"
    assert lab.job(strict)["job_state"] == "PENDING"
    assert (
        lab.try_submit(nodes=5, constraints="[leaf000|leaf001]").json()["errors"][0]["error_code"]
        == 2014
    )


def test_a_later_job_passes_only_if_it_delays_nobody(lab: Lab) -> None:
    lab.submit(nodes=6, time_limit=30)
    lab.wait(1)
    blocked = lab.submit(nodes=8)
    short, long = lab.submit(nodes=2, time_limit=10), lab.submit(nodes=2, time_limit=120)
    lab.wait(2)
    assert lab.job(short)["job_state"] == "RUNNING"
    assert (lab.job(long)["job_state"], lab.job(long)["state_reason"]) == ("PENDING", "Priority")
    assert lab.job(blocked)["state_reason"] == "Resources"


def test_priority_goes_before_age(lab: Lab) -> None:
    lab.submit(nodes=8, script="#!/bin/sh\nsleep 5\n", time_limit=1)
    lab.wait(1)
    low, high = lab.submit(nodes=8), lab.submit(nodes=8, qos="high")
    lab.wait(7)
    assert (lab.job(low)["job_state"], lab.job(high)["job_state"]) == ("PENDING", "RUNNING")
    assert lab.call("POST", f"/slurm/v0.0.38/job/{low}", {"priority": 7}).status_code == 500
    lab.call("POST", f"/slurm/v0.0.38/job/{low}", {"priority": 7}, user="slurm")
    assert lab.job(low)["priority"] == 7


def test_nodes_are_shared_by_gpu(lab: Lab) -> None:
    jobs = [lab.submit(gres=f"gpu:h100:{n}", nodelist="alpha-n003") for n in (4, 2, 4)]
    lab.wait(2)
    assert [lab.job(j)["job_state"] for j in jobs] == ["RUNNING", "RUNNING", "PENDING"]
    node = lab.node("alpha-n003")
    assert (node["gres_used"], node["state"]) == ("gpu:h100:6(IDX:0-5)", "mixed")
    lab.call("DELETE", f"/slurm/v0.0.38/job/{jobs[0]}")
    lab.wait(3)
    assert lab.job(jobs[2])["gres_detail"] == ["gpu:h100:4(IDX:0-3)"]
    alone = lab.submit(exclusive="exclusive", gres=..., nodelist="alpha-n003")
    lab.wait(2)
    assert lab.job(alone)["job_state"] == "PENDING"


@pytest.mark.parametrize(
    ("script", "limit", "state", "reason", "exit_code"),
    [
        ("#!/bin/sh\nsleep 5\n", 60, "COMPLETED", "None", 0),
        ("#!/bin/sh\nsleep 5\nexit 3\n", 60, "FAILED", "NonZeroExitCode", 768),
        ("#!/bin/sh\n# simulate: forever\n", 1, "TIMEOUT", "TimeLimit", 0),
        ("no shebang", 60, "FAILED", "NonZeroExitCode", 2048),
    ],
)
def test_how_jobs_end(
    lab: Lab, script: str, limit: int, state: str, reason: str, exit_code: int
) -> None:
    job = lab.submit(script=script, time_limit=limit)
    lab.wait(70)
    row = lab.job(job)
    assert (row["job_state"], row["state_reason"], row["exit_code"]) == (state, reason, exit_code)
    (run,) = lab.runs(job)
    assert run["state"]["current"] == state
    assert run["time"]["elapsed"] == run["time"]["end"] - run["time"]["start"]


def test_a_cancelled_job_completes_before_its_nodes_are_free(lab: Lab) -> None:
    job = lab.submit(nodes=8)
    lab.wait(1)
    after = lab.submit(nodes=8)
    lab.call("DELETE", f"/slurm/v0.0.38/job/{job}")
    row = lab.job(job)
    assert (row["job_state"], row["exit_code"], row["gres_detail"]) == ("COMPLETING", 15, [])
    assert lab.node("alpha-n000")["gres_used"] == "gpu:h100:8(IDX:0-7)"
    lab.wait(0.5)
    assert lab.job(after)["job_state"] == "PENDING"
    lab.wait(1.5)
    assert lab.job(job)["job_state"] == "CANCELLED"
    assert lab.job(after)["job_state"] == "RUNNING"


def test_a_trapped_signal_is_noted_and_an_untrapped_one_kills(lab: Lab) -> None:
    trapping = lab.submit(script="#!/bin/sh\n# simulate: forever checkpoint_on=USR1\n")
    plain = lab.submit()
    lab.wait(1)
    for job in (trapping, plain):
        answer = lab.call("DELETE", f"/slurm/v0.0.38/job/{job}?signal=SIGUSR1")
        assert answer.json()["errors"] == []
    lab.wait(2)
    assert lab.job(trapping)["job_state"] == "RUNNING"
    assert (lab.job(plain)["job_state"], lab.job(plain)["exit_code"]) == ("FAILED", 10)
    seen = lab.client.get(f"/_control/jobs/{trapping}").json()["signals"]
    assert [signal["number"] for signal in seen] == [10]


def test_what_saves_says_so_in_its_comment_a_while_after_the_signal(lab: Lab) -> None:
    script = "#!/bin/sh\n# simulate: forever checkpoint_on=USR1 saves=2\n"
    job, ended = lab.submit(script=script), lab.submit(script=script)
    lab.wait(5)
    for asked in (job, ended):
        lab.call("DELETE", f"/slurm/v0.0.38/job/{asked}?signal=USR1")
    lab.call("DELETE", f"/slurm/v0.0.38/job/{ended}")
    lab.wait(1)
    assert "checkpoint" not in lab.job(job)["comment"]
    lab.wait(2)
    said = lab.job(job)["comment"]
    lab.wait(5)
    lab.call("DELETE", f"/slurm/v0.0.38/job/{job}?signal=USR1")
    lab.wait(3)
    assert said.startswith("muster-checkpoint=")
    steps = [int(comment.partition("=")[2]) for comment in (said, lab.job(job)["comment"])]
    assert 5 <= steps[0] < steps[1] <= 20
    assert (lab.job(job)["job_state"], lab.job(ended)["comment"]) == ("RUNNING", "")


def test_jobs_leave_the_controller_but_not_accounting(lab: Lab) -> None:
    job = lab.submit(script="#!/bin/sh\nsleep 1\n")
    lab.wait(400)
    gone = lab.call("GET", f"/slurm/v0.0.38/job/{job}")
    assert (gone.status_code, gone.json()["errors"][0]["error_number"]) == (500, 2017)
    assert lab.call("GET", "/slurm/v0.0.38/jobs").json()["jobs"] == []
    assert lab.runs(job)[0]["state"]["current"] == "COMPLETED"


def test_begin_time_and_dependencies_are_waited_for(lab: Lab) -> None:
    first = lab.submit(script="#!/bin/sh\nsleep 30\nexit 1\n")
    later = lab.submit(begin_time="now+1min")
    any_end = lab.submit(dependency=f"afterany:{first}")
    success = lab.submit(dependency=f"afterok:{first}")
    lab.wait(2)
    begins = lab.job(later)
    assert begins["state_reason"] == "BeginTime"
    assert begins["start_time"] == begins["eligible_time"] == begins["submit_time"] + 60
    assert lab.job(any_end)["state_reason"] == "Dependency"
    lab.wait(40)
    assert lab.job(any_end)["job_state"] == "RUNNING"
    assert lab.job(success)["state_reason"] == "DependencyNeverSatisfied"
    lab.wait(30)
    assert lab.job(later)["job_state"] == "RUNNING"


def test_a_held_job_is_released_only_by_who_may(lab: Lab) -> None:
    lab.control("scheduling/pause")
    job = lab.submit()
    lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"hold": True}, user="slurm")
    assert lab.job(job)["state_reason"] == "JobHeldAdmin"
    held = lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"priority": 50}, user="slurm")
    assert held.json()["errors"][0]["error_number"] == 2042
    refused = lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"hold": False})
    assert refused.json()["errors"][0]["error_number"] == 2002
    lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"hold": False}, user="slurm")
    lab.control("scheduling/resume")
    lab.wait(1)
    assert lab.job(job)["job_state"] == "RUNNING"


def test_an_update_changes_what_it_names(lab: Lab) -> None:
    job = lab.submit(hold=True)
    changes = {"comment": "x", "time_limit": 10, "nodelist": "alpha-n006", "name": "ignored"}
    assert lab.call("POST", f"/slurm/v0.0.38/job/{job}", changes).json()["errors"] == []
    row = lab.job(job)
    assert (row["comment"], row["time_limit"], row["required_nodes"], row["name"]) == (
        "x",
        10,
        "alpha-n006",
        "run",
    )
    lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"hold": False})
    lab.wait(1)
    assert lab.job(job)["nodes"] == "alpha-n006"
    lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"time_limit": 1})
    lab.wait(70)
    assert lab.job(job)["job_state"] == "TIMEOUT"


def test_unchanged_lists_are_answered_with_304(lab: Lab) -> None:
    lab.submit()
    lab.wait(5)
    for what in ("jobs", "nodes", "partitions", "reservations"):
        path = f"/slurm/v0.0.38/{what}?update_time="
        assert lab.call("GET", f"{path}{lab.now}").status_code == 304
        assert lab.call("GET", f"{path}5").status_code == 200
    lab.submit()
    assert lab.call("GET", f"/slurm/v0.0.38/jobs?update_time={lab.now}").status_code == 200


def submit_error(lab: Lab, **job: object) -> int:
    answer = lab.try_submit(**job)
    assert answer.status_code in {400, 500}
    assert "job_id" not in answer.json()
    errors = answer.json()["errors"]
    number: int = errors[0].get("error_code", errors[0].get("error_number"))
    return number


def test_what_can_never_run_is_refused_with_slurms_numbers(lab: Lab) -> None:
    expected = [
        (2000, {"partition": "nope"}),
        (2006, {"nodes": 9}),
        (2006, {"nodes": 0}),
        (2006, {"nodes": 2, "nodelist": "alpha-n[000-003]"}),
        (2014, {"gres": "gpu:h100:9"}),
        (2014, {"gres": "gpu:a100:8"}),
        (2014, {"memory_per_node": "2000G"}),
        (2014, {"cpus_per_task": 200}),
        (2018, {"nodelist": "alpha-n099"}),
        (2029, {"constraints": "nosuch"}),
        (2038, {"dependency": "sometime"}),
        (2045, {"account": "nope"}),
        (2051, {"time_limit": 9_999_999}),
        (2051, {"time_limit": -5}),
        (2066, {"qos": "nope"}),
        (2123, {"nice": -5}),
        (2018, {"nodelist": "a[1"}),
        (9202, {"tasks": "abc"}),
        (-1, {"time_limit": "abc"}),
        (-1, {"nodes": "x"}),
        (9202, {"nodes": {}}),
    ]
    for number, job in expected:
        assert submit_error(lab, **job) == number, job
    assert lab.call("GET", "/slurm/v0.0.38/jobs").json()["jobs"] == []
    nobody = lab.try_submit(user="nobody")
    assert nobody.json()["errors"][0]["error_code"] == 2045


def test_bodies_that_are_no_job(lab: Lab) -> None:
    path = "/slurm/v0.0.38/job/submit"
    headers = lab.headers("www-data")
    broken = lab.client.post(path, content=b'{"a":', headers=headers)
    assert (broken.status_code, broken.text) == (400, "Unable to parse query.")
    for body in ([1], None, {"job": {"nodes": 1}}):
        assert lab.call("POST", path, body).json()["errors"][0]["error_code"] == 2009


def test_accounting_filters(lab: Lab) -> None:
    begin = lab.now
    one = lab.submit(name="one", script="#!/bin/sh\nsleep 1\n")
    two = lab.submit(name="two", nodelist="alpha-n005")
    lab.wait(10)

    def found(query: str) -> list[int]:
        answer = lab.call("GET", f"/slurmdb/v0.0.38/jobs?{query}")
        assert answer.status_code == 200, answer.text
        return [job["job_id"] for job in answer.json()["jobs"]]

    assert found("job_name=one") == [one]
    assert found("job_name=one%2Ctwo&skip_steps=true") == [one, two]
    assert found("node=alpha-n005") == [two]
    assert found(f"start_time=uts{begin}&end_time=uts{lab.now}&state=COMPLETED") == [one]
    assert found(f"start_time=uts{lab.now - 2}") == [two]
    assert found("account=ml&partition=batch&cluster=alpha") == [one, two]
    assert found("cluster=beta") == []
    for query in ("job_name=one,two", "start_time=2026-11-29T20:00:00"):
        answer = lab.call("GET", f"/slurmdb/v0.0.38/jobs?{query}")
        assert (answer.status_code, answer.text) == (400, "Unable to parse query.")
    steps = lab.call("GET", "/slurmdb/v0.0.38/jobs?job_name=two").json()["jobs"][0]["steps"]
    assert [step["step"]["id"] for step in steps] == ["batch"]


def test_accounting_lags_behind_the_controller(lab: Lab) -> None:
    job = lab.submit(hold=True)
    assert lab.runs(job) == []
    lab.wait(1)
    assert lab.runs(job)[0]["state"]["current"] == "PENDING"


def test_a_thousand_nodes_and_five_thousand_jobs_are_read_whole(tmp_path: Path) -> None:
    lab = Lab(lab_cluster(tmp_path, nodes=1024))
    request = Request(
        user="www-data",
        uid=33,
        name="many",
        account="ml",
        partition="batch",
        qos="low",
        script="#!/bin/sh\n# simulate: seconds=36000\n",
        nodes_min=2,
        nodes_max=2,
        gpus_per_node=8,
        gpu_type="h100",
    )
    for _ in range(5000):
        submit(lab.running.world, request, lab.running.now_ms())
    lab.wait(1)
    jobs = lab.call("GET", "/slurm/v0.0.38/jobs").json()["jobs"]
    nodes = lab.call("GET", "/slurm/v0.0.38/nodes").json()["nodes"]
    assert (len(jobs), len(nodes)) == (5000, 1024)
    assert sum(job["job_state"] == "RUNNING" for job in jobs) == 512
    assert all(node["gres_used"] == "gpu:h100:8(IDX:0-7)" for node in nodes)
    # What has not changed is not rendered again.
    texts = [
        lab.running.rows.row("job", job["job_id"], revision(lab, job["job_id"]), never)
        for job in jobs
    ]
    assert [json.loads(text) for text in texts] == jobs


def revision(lab: Lab, number: int) -> tuple[int, int]:
    job = lab.running.world.jobs[number]
    return job.revision, job.last_evaluated_ms


def never() -> dict[str, Any]:
    raise AssertionError("rendered again")


def test_a_held_job_that_never_fits_is_found_out_when_it_is_released(lab: Lab) -> None:
    job = lab.submit(hold=True, gres="gpu:h100:9")
    assert lab.job(job)["state_reason"] == "JobHeldUser"
    lab.call("POST", f"/slurm/v0.0.38/job/{job}", {"hold": False})
    lab.wait(2)
    row = lab.job(job)
    assert (row["job_state"], row["state_reason"], row["priority"]) == (
        "PENDING",
        "BadConstraints",
        0,
    )

"""The simulator's replies beside those recorded from slurmrestd 22.05.8: same keys, same kinds."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulator.harness import Lab, recording


def differences(real: Any, ours: Any, where: str = "") -> list[str]:
    """Where two values differ in keys or in kind; null goes with anything, lists by their first."""
    if isinstance(real, dict) and isinstance(ours, dict):
        found = [f"{where}: keys {set(real) ^ set(ours)}"] if set(real) != set(ours) else []
        for key in set(real) & set(ours):
            found += differences(real[key], ours[key], f"{where}/{key}")
        return found
    if isinstance(real, list) and isinstance(ours, list):
        return differences(real[0], ours[0], f"{where}/0") if real and ours else []
    if real is None or ours is None or type(real) is type(ours):
        return []
    return [f"{where}: {type(real).__name__} is {type(ours).__name__}"]


def only_lab_cores(row: dict[str, Any]) -> dict[str, Any]:
    """Which cores a job gets is drawn differently, so their numbers are no part of the shape."""
    for node in row.get("job_resources", {}).get("allocated_nodes", []):
        node["sockets"] = {}
    return row


def held(lab: Lab) -> dict[str, Any]:
    return lab.job(lab.submit(hold=True))


def running(lab: Lab) -> dict[str, Any]:
    job = lab.submit()
    lab.wait(1)
    return lab.job(job)


def cancelled_held(lab: Lab) -> dict[str, Any]:
    job = lab.submit(nodes=2, hold=True, dependency="singleton", nodelist="alpha-n[002-003]")
    lab.call("DELETE", f"/slurm/v0.0.38/job/{job}")
    return lab.job(job)


def failed(lab: Lab) -> dict[str, Any]:
    job = lab.submit(script="#!/bin/bash\nexit 3\n")
    lab.wait(3)
    return lab.job(job)


def node_fail(lab: Lab) -> dict[str, Any]:
    job = lab.submit(nodelist="alpha-n[004-005]", nodes=2, no_requeue=True)
    lab.wait(1)
    lab.control("nodes/down", nodes="alpha-n004", reason="crash")
    lab.wait(1)
    return lab.job(job)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("job_held", held),
        ("job_running", running),
        ("job_cancelled_held", cancelled_held),
        ("job_failed", failed),
        ("job_node_fail", node_fail),
    ],
)
def test_a_job_has_the_recorded_keys_and_states(
    lab: Lab, name: str, make: Callable[[Lab], dict[str, Any]]
) -> None:
    real, ours = recording(name)["body"]["jobs"][0], make(lab)
    assert differences(only_lab_cores(real), only_lab_cores(ours)) == []
    for key in (
        "job_state",
        "state_reason",
        "exit_code",
        "restart_cnt",
        "node_count",
        "batch_flag",
    ):
        assert ours[key] == real[key], key
    assert bool(ours["gres_detail"]) == bool(real["gres_detail"])


def test_resources_of_a_running_job_read_as_recorded(lab: Lab) -> None:
    real, ours = recording("job_running")["body"]["jobs"][0], running(lab)
    for key in ("tres_req_str", "tres_alloc_str", "tres_per_node", "gres_detail", "nodes", "cpus"):
        assert ours[key] == real[key], key


@pytest.mark.parametrize(
    "name",
    [
        "ping",
        "diag",
        "partition",
        "reservations",
        "accounting_clusters",
        "accounting_associations",
        "limits_users",
    ],
)
def test_plain_reads_have_the_recorded_keys(lab: Lab, name: str) -> None:
    real = recording(name)
    ours = lab.call(real["request"]["method"], real["request"]["path"])
    assert ours.status_code == real["status"]
    assert differences(real["body"], ours.json()) == []


def test_partition_and_cluster_totals_are_those_of_the_real_lab(lab: Lab) -> None:
    for name, key in (("partition", "partitions"), ("accounting_clusters", "clusters")):
        real = recording(name)
        ours = lab.call("GET", real["request"]["path"]).json()[key][0]
        for field in ("nodes", "tres"):
            wanted = real["body"][key][0][field]
            if field == "tres" and isinstance(wanted, list):
                wanted = [t for t in wanted if t["type"] not in {"fs", "vmem", "pages"}]
            assert ours[field] == wanted


@pytest.mark.parametrize(
    "name",
    [
        "limits_set",
        "limits_not_counted",
        "limits_no_right",
        "limits_unknown_account",
        "limits_no_list",
    ],
)
def test_limits_are_set_and_refused_as_recorded(lab: Lab, name: str) -> None:
    real = recording(name)
    body = real["request"]["body"]
    for one in body.get("associations", ()):
        is_known = one["account"] == "speech"
        one |= {"cluster": lab.running.config.name, "account": "ml" if is_known else one["account"]}
    user = "slurm" if real["request"]["user"] == "slurm" else "www-data"
    ours = lab.call("POST", real["request"]["path"], body, user=user)
    assert ours.status_code == real["status"]
    assert ours.json() == real["body"]


def test_the_gpus_that_are_counted_are_those_of_the_real_lab(lab: Lab) -> None:
    real = recording("limits_tres")
    ours = lab.call("GET", real["request"]["path"]).json()["TRES"]
    counted = [row for row in real["body"]["TRES"] if row["type"] == "gres"]
    assert [row for row in ours if row["type"] == "gres"] == counted


def test_accounting_diag_is_for_administrators(lab: Lab) -> None:
    assert lab.call("GET", "/slurmdb/v0.0.38/diag").json()["errors"][0]["error_number"] == 2002
    ours = lab.call("GET", "/slurmdb/v0.0.38/diag", user="root")
    assert differences(recording("accounting_diag")["body"], ours.json()) == []


@pytest.mark.parametrize("name", ["node_mixed", "node_draining"])
def test_a_node_has_the_recorded_keys_and_resources(lab: Lab, name: str) -> None:
    lab.submit(nodelist="alpha-n004")
    lab.submit(nodelist="alpha-n005", exclusive="exclusive")
    lab.wait(1)
    lab.control("nodes/drain", nodes="alpha-n005", reason="maint")
    real = recording(name)["body"]["nodes"][0]
    ours = lab.node(real["name"])
    assert differences(real, ours) == []
    for key in ("state", "state_flags", "features", "gres", "gres_used", "tres", "reason"):
        assert ours[key] == real[key], key


def requeued(lab: Lab) -> int:
    job = lab.submit(nodelist="alpha-n006")
    lab.wait(6)
    lab.control("nodes/down", nodes="alpha-n006")
    lab.wait(10)
    lab.control("nodes/up", nodes="alpha-n006")
    lab.wait(5)
    return job


def signalled(lab: Lab) -> int:
    job = lab.submit()
    lab.wait(2)
    lab.call("DELETE", f"/slurm/v0.0.38/job/{job}?signal=USR1")
    lab.wait(2)
    return job


def stopped_before_start(lab: Lab) -> int:
    job = lab.submit(nodes=2, hold=True, memory_per_node="512G", cpus_per_task=8)
    lab.wait(2)
    lab.call("DELETE", f"/slurm/v0.0.38/job/{job}")
    lab.wait(2)
    return job


def waiting(lab: Lab) -> int:
    lab.control("scheduling/pause")
    job = lab.submit(nodes=8)
    lab.wait(2)
    return job


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("accounting_requeued", requeued),
        ("accounting_signalled", signalled),
        ("accounting_cancelled_held", stopped_before_start),
        ("accounting_pending", waiting),
    ],
)
def test_accounting_has_the_recorded_runs(lab: Lab, name: str, make: Callable[[Lab], int]) -> None:
    job = make(lab)
    ours, real = lab.runs(job), recording(name)["body"]["jobs"]
    assert [run["state"]["current"] for run in ours] == [r["state"]["current"] for r in real]
    for ours_run, real_run in zip(ours, real, strict=True):
        assert differences(real_run, ours_run) == []
        for key in ("exit_code", "nodes", "kill_request_user", "allocation_nodes"):
            assert ours_run[key] == real_run[key], key
        assert ours_run["tres"]["allocated"] == real_run["tres"]["allocated"]
        for key in ("start", "end"):
            assert (ours_run["time"][key] in {0, None}) == (real_run["time"][key] in {0, None})


ERRORS = [
    "submit_unknown_account",
    "submit_unknown_key",
    "submit_disabled_key",
    "submit_no_environment",
    "submit_bad_exclusive",
    "submit_bad_begin",
    "submit_unknown_gres",
    "submit_no_job",
    "submit_held",
    "job_unknown",
    "cancel_unknown",
    "accounting_nothing",
    "accounting_unknown_query",
    "partition_unknown",
    "node_unknown",
    "method_not_allowed",
    "url_unknown",
]


@pytest.mark.parametrize("name", ERRORS)
def test_a_refusal_is_the_recorded_one(lab: Lab, name: str) -> None:
    real = recording(name)
    request = real["request"]
    ours = lab.call(request["method"], request["path"], request["body"], request["user"])
    assert ours.status_code == real["status"]
    assert ours.headers["content-type"].startswith(real["ctype"])
    if isinstance(real["body"], str):
        assert ours.text == real["body"]
    else:
        assert ours.json() == real["body"]


def no_port(errors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some texts name the client's port, and all name the job's id."""
    text = [{k: re.sub(r"\d+", "N", str(v)) for k, v in e.items()} for e in errors]
    return text


@pytest.mark.parametrize(
    ("name", "user", "state"),
    [
        ("update_unknown_key", "www-data", "waiting"),
        ("update_priority_by_user", "www-data", "waiting"),
        ("update_finished", "www-data", "cancelled"),
        ("update_released", "www-data", "waiting"),
        ("cancel_not_mine", "games", "running"),
        ("signal_pending", "www-data", "waiting"),
        ("signal_unknown", "www-data", "running"),
    ],
)
def test_a_refused_change_is_the_recorded_one(lab: Lab, name: str, user: str, state: str) -> None:
    real = recording(name)
    job = lab.submit(hold=state != "running")
    lab.wait(1)
    if state == "cancelled":
        lab.call("DELETE", f"/slurm/v0.0.38/job/{job}")
    path = re.sub(r"/job/\d+", f"/job/{job}", real["request"]["path"])
    ours = lab.call(real["request"]["method"], path, real["request"]["body"], user)
    assert ours.status_code == real["status"]
    assert no_port(ours.json()["errors"]) == no_port(real["body"]["errors"])


def test_a_bad_token_is_answered_as_recorded_everywhere(lab: Lab) -> None:
    headers = {"X-SLURM-USER-NAME": "www-data", "X-SLURM-USER-TOKEN": "abc"}
    for request, real in recording("bad_token").items():
        method, path = request.split()
        ours = lab.client.request(method, path, headers=headers)
        assert ours.status_code == real["status"], request
        body = ours.json()
        assert set(body) == {"meta", *real["body"]}, request
        assert no_port(body["errors"]) == no_port(real["body"]["errors"]), request


@pytest.mark.parametrize("name", ["down_jobs", "down_submit", "down_cancel", "down_ping"])
def test_without_the_controller_calls_fail_as_recorded(lab: Lab, name: str) -> None:
    lab.control("slurmctld/down")
    real = recording(name)
    request = real["request"]
    ours = lab.call(request["method"], request["path"], request["body"])
    assert ours.status_code == real["status"]
    assert ours.json() == real["body"]


@pytest.mark.parametrize("name", ["down_accounting_jobs", "down_accounting_clusters"])
def test_without_the_database_accounting_fails_as_recorded(lab: Lab, name: str) -> None:
    lab.control("slurmdbd/down")
    real = recording(name)
    ours = lab.call("GET", real["request"]["path"])
    assert (ours.status_code, ours.json()) == (real["status"], real["body"])
    assert lab.try_submit().status_code == 200

"""The program as it is run: its own process, real sockets, signals, files, and faults on the wire."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.config import Config, dump
from simulator.examples import example_config
from simulator.slurm.tokens import mint
from tests.simulator.harness import lab_cluster

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "simulator"]


def start(config: Path, *options: str) -> tuple["subprocess.Popen[str]", dict[str, int]]:
    process = subprocess.Popen(  # noqa: S603
        [*COMMAND, "--config", str(config), *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    word, _, ports = process.stdout.readline().partition(" ")
    assert word == "ready", process.communicate()
    return process, json.loads(ports)


def stop(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def client(port: int, key: bytes = b"k" * 32, user: str = "www-data") -> httpx.Client:
    token = mint(key, user, now=int(time.time()))
    headers = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token}
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60)


def body(seconds: float, **job: Any) -> dict[str, Any]:
    wanted = {"nodes": 1, "gres": "gpu:h100:8", "environment": {"A": "b"}, **job}
    return {"script": f"#!/bin/sh\n# simulate: seconds={seconds}\n", "job": wanted}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    directory = tmp_path_factory.mktemp("served")
    config = directory / "clusters.json"
    cluster = lab_cluster(directory, clock="wall", speed=60.0, completing_ms=50)
    config.write_text(dump(Config([cluster])))
    process, ports = start(config)
    with client(ports["alpha"]) as http:
        yield http
        http.post("/_control/wire/refuse", json={"ms": 60_000})
    # It ends behind a shut door too.
    assert stop(process) == (0, "")


def until(http: httpx.Client, job: int, state: str) -> dict[str, Any]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        row: dict[str, Any] = http.get(f"/slurm/v0.0.38/job/{job}").json()["jobs"][0]
        if row["job_state"] == state:
            return row
        time.sleep(0.05)
    raise AssertionError(row["job_state"])


def test_a_job_goes_its_way_in_real_time(served: httpx.Client) -> None:
    before = int(time.time())
    job = served.post("/slurm/v0.0.38/job/submit", json=body(60)).json()["job_id"]
    row = until(served, job, "COMPLETED")
    assert before <= row["submit_time"] <= row["start_time"] <= row["end_time"] <= time.time()
    time.sleep(0.6)
    (run,) = served.get(f"/slurmdb/v0.0.38/job/{job}").json()["jobs"]
    assert 0 <= run["time"]["elapsed"] <= 2


def jobs_named(http: httpx.Client, name: str) -> int:
    return sum(j["name"] == name for j in http.get("/slurm/v0.0.38/jobs").json()["jobs"])


def test_a_slow_answer_does_not_hold_up_others(served: httpx.Client) -> None:
    """On a machine that is slow itself it may look so; not every time."""
    for attempt in range(10):
        fault = {"kind": "delay_after", "path": "job/submit", "ms": 2500, "method": "POST"}
        served.post("/_control/faults/add", json=fault)
        began = time.monotonic()
        slow = body(60, name=f"slow{attempt}")
        with pytest.raises(httpx.ReadTimeout):
            served.post("/slurm/v0.0.38/job/submit", json=slow, timeout=0.5)
        assert jobs_named(served, f"slow{attempt}") == 1
        if time.monotonic() - began < 2.5:
            return
    raise AssertionError("others had to wait for it")


@pytest.mark.parametrize(
    ("kind", "done"),
    [("drop_before", 0), ("drop_after", 1), ("truncate", 1)],
)
def test_a_lost_answer_says_nothing_about_the_deed(
    served: httpx.Client, kind: str, done: int
) -> None:
    served.post("/_control/faults/add", json={"kind": kind, "path": "job/submit"})
    with pytest.raises(httpx.RemoteProtocolError):
        served.post("/slurm/v0.0.38/job/submit", json=body(60, name=kind))
    assert jobs_named(served, kind) == done
    # The fault struck once; the next submit is answered.
    assert served.post("/slurm/v0.0.38/job/submit", json=body(60, name=kind)).status_code == 200


@pytest.mark.parametrize(("kind", "done"), [("reply_before", 0), ("reply_after", 1)])
def test_an_answer_can_be_replaced(served: httpx.Client, kind: str, done: int) -> None:
    fault = {"kind": kind, "path": "job/submit", "status": 502, "text": "bad gateway"}
    served.post("/_control/faults/add", json=fault)
    answer = served.post("/slurm/v0.0.38/job/submit", json=body(60, name=kind))
    assert (answer.status_code, answer.text) == (502, "bad gateway")
    assert jobs_named(served, kind) == done


@pytest.mark.parametrize(("kind", "done"), [("reset_before", 0), ("reset_after", 1)])
def test_a_connection_can_be_reset(served: httpx.Client, kind: str, done: int) -> None:
    served.post("/_control/faults/add", json={"kind": kind, "path": "job/submit"})
    with pytest.raises(httpx.ReadError):
        served.post("/slurm/v0.0.38/job/submit", json=body(60, name=kind))
    assert jobs_named(served, kind) == done


@pytest.mark.parametrize(
    ("kind", "done", "status", "word"),
    [
        ("errors_in_200", 0, 200, "Unable to contact slurm controller"),
        ("errors_in_200_after", 1, 200, "Unable to contact slurm controller"),
        ("bad_token", 0, 500, "Zero Bytes were transmitted or received"),
        ("token_dies", 1, 500, "Zero Bytes were transmitted or received"),
        ("controller_dies", 1, 500, "Unable to contact slurm controller"),
        ("too_many", 0, 429, "Too Many Requests"),
        ("bad_gateway", 1, 502, "Bad Gateway"),
        ("half_json", 1, 200, '"meta"'),
        ("empty_answer", 1, 200, ""),
    ],
)
def test_an_answer_can_be_wrong_in_slurms_own_words(
    served: httpx.Client, kind: str, done: int, status: int, word: str
) -> None:
    served.post("/_control/faults/add", json={"kind": kind, "path": "job/submit", "ms": 1500})
    answer = served.post("/slurm/v0.0.38/job/submit", json=body(60, name=kind))
    assert answer.status_code == status
    assert word in answer.text
    assert answer.headers.get("Retry-After") == ("2" if kind == "too_many" else None)
    assert jobs_named(served, kind) == done


def test_a_token_can_die_between_two_reads(served: httpx.Client) -> None:
    fault = {"kind": "token_dies", "path": "slurm/|slurmdb/", "skip": 1, "times": 2}
    served.post("/_control/faults/add", json=fault)
    paths = ["slurm/v0.0.38/nodes", "slurm/v0.0.38/jobs", "slurmdb/v0.0.38/jobs"]
    answers = [served.get(f"/{path}") for path in [*paths, paths[0]]]
    assert [answer.status_code for answer in answers] == [200, 500, 200, 200]
    numbers = [[e["error_number"] for e in answer.json()["errors"]] for answer in answers]
    assert numbers == [[], [-1], [1007], []]


def test_a_shut_door_refuses_and_opens_again(served: httpx.Client) -> None:
    """A client that comes too late finds the door open: then it is shut once more."""
    refused, end = False, time.monotonic() + 60
    while not refused and time.monotonic() < end:
        served.post("/_control/wire/refuse", json={"ms": 400})
        refused = not answers(served)
    assert refused
    while not answers(served):
        assert time.monotonic() < end
        time.sleep(0.05)


def answers(http: httpx.Client) -> bool:
    """Does it answer? False if the connection is refused; one that has just ended is made anew."""
    while True:
        try:
            return http.get("/slurm/v0.0.38/ping").status_code == 200
        except httpx.ConnectError:
            return False
        except (httpx.RemoteProtocolError, httpx.ReadError):
            continue


def test_a_fault_that_cannot_be_is_refused(served: httpx.Client) -> None:
    for fault in ({"kind": "nonsense"}, {"kind": "truncate", "path": "["}, {"colour": "red"}):
        assert served.post("/_control/faults/add", json=fault).status_code == 400
    assert served.post("/_control/no/such").status_code == 404
    assert "faults/add" in served.get("/_control").json()["deeds"]


def test_the_controller_goes_and_comes_back(served: httpx.Client) -> None:
    job = served.post("/slurm/v0.0.38/job/submit", json=body(6000)).json()["job_id"]
    until(served, job, "RUNNING")
    served.post("/_control/slurmctld/down")
    assert served.get("/slurm/v0.0.38/jobs").status_code == 500
    assert served.get(f"/slurmdb/v0.0.38/job/{job}").status_code == 200
    served.post("/_control/slurmctld/up", json={"unknown_ms": 300})
    states = {n["state"] for n in served.get("/slurm/v0.0.38/nodes").json()["nodes"]}
    assert states == {"unknown"}
    time.sleep(0.4)
    states = {n["state"] for n in served.get("/slurm/v0.0.38/nodes").json()["nodes"]}
    assert "unknown" not in states
    assert until(served, job, "RUNNING")["restart_cnt"] == 0


def test_state_survives_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "alpha.state.json"
    cluster = lab_cluster(tmp_path, clock="wall", state_file=str(state))
    config = tmp_path / "clusters.json"
    config.write_text(dump(Config([cluster])))
    process, ports = start(config)
    with client(ports["alpha"]) as http:
        job = http.post("/slurm/v0.0.38/job/submit", json=body(3600)).json()["job_id"]
        before = until(http, job, "RUNNING")
    assert stop(process, signal.SIGINT) == (0, "")
    process, ports = start(config)
    with client(ports["alpha"]) as http:
        assert until(http, job, "RUNNING") == before
        other = http.post("/slurm/v0.0.38/job/submit", json=body(1)).json()["job_id"]
        assert other == job + 1
        assert http.post("/_control/reset").json()["jobs"] == 0
    assert stop(process) == (0, "")
    state.write_text("{")
    answer = subprocess.run(  # noqa: S603
        [*COMMAND, "--config", str(config)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert "not a state file" in answer.stderr


def test_the_example_runs_three_clusters_with_keys_of_their_own(tmp_path: Path) -> None:
    example = example_config(tmp_path, first_port=0)
    for cluster in example.clusters:
        Path(cluster.jwt_key_file).write_bytes(os.urandom(32))
    config = tmp_path / "clusters.json"
    config.write_text(dump(example))
    process, ports = start(config, "--port", "0")
    shapes = {}
    for cluster in example.clusters:
        key = Path(cluster.jwt_key_file).read_bytes()
        with client(ports[cluster.name], key, "mia") as http:
            nodes = http.get("/slurm/v0.0.38/nodes").json()["nodes"]
            shapes[cluster.name] = (len(nodes), nodes[-1]["gres"], nodes[-1]["features"])
    key = Path(example.clusters[0].jwt_key_file).read_bytes()
    with client(ports["borealis"], key, "mia") as http:
        assert http.get("/slurm/v0.0.38/nodes").status_code == 500
    assert shapes == {
        "aurora": (16, "gpu:h100:8", "h100,leaf003,spine1"),
        "borealis": (32, "gpu:a100:8", "a100,leaf007,spine1,core0"),
        "cirrus": (12, "gpu:l40s:4", "l40s,leaf002"),
    }
    assert stop(process) == (0, "")


def test_a_taken_port_is_said_plainly(tmp_path: Path) -> None:
    config = tmp_path / "clusters.json"
    config.write_text(dump(Config([lab_cluster(tmp_path, clock="wall")])))
    process, ports = start(config)
    answer = subprocess.run(  # noqa: S603
        [*COMMAND, "--config", str(config), "--port", str(ports["alpha"])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert f"port {ports['alpha']}" in answer.stderr
    assert stop(process) == (0, "")

"""A Volcano cluster beside a Slurm one in one process, over real sockets."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from simulator.config import Config, ConfigError, dump, load, parse
from tests.simulator.harness import lab_cluster as slurm_cluster
from tests.simulator.volcano.harness import JOBS, PODS, gang, lab_cluster, task

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    directory = tmp_path_factory.mktemp("served")
    config = directory / "clusters.json"
    clusters = [slurm_cluster(directory, clock="wall"), lab_cluster(clock="wall", speed=60.0)]
    config.write_text(dump(Config(clusters)))
    assert load(config) == Config(clusters)
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "simulator", "--config", str(config)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    word, _, ports = process.stdout.readline().partition(" ")
    assert word == "ready", process.communicate()
    headers = {"Authorization": "Bearer root-token"}
    base = f"http://127.0.0.1:{json.loads(ports)['volc']}"
    with httpx.Client(base_url=base, headers=headers, timeout=30) as client:
        yield client
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def phase(client: httpx.Client, name: str) -> str:
    return str(client.get(f"{JOBS}/{name}").json()["status"]["state"]["phase"])


def test_a_gang_runs_and_a_watch_sees_it(served: httpx.Client) -> None:
    version = served.get(PODS).json()["metadata"]["resourceVersion"]
    assert served.post(JOBS, json=gang("a", task(run_for="30s"))).status_code == 201
    seen = set()
    path = f"{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=20"
    with served.stream("GET", path) as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        for line in answer.iter_lines():
            told = json.loads(line)
            seen.add((told["type"], told["object"]["status"]["phase"]))
            if ("MODIFIED", "Succeeded") in seen:
                break
    assert {("ADDED", "Pending"), ("MODIFIED", "Running")} <= seen
    deadline = time.monotonic() + 10
    while phase(served, "a") != "Completed" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert phase(served, "a") == "Completed"


@pytest.mark.parametrize("abrupt", [False, True])
def test_a_watch_is_cut(served: httpx.Client, abrupt: bool) -> None:
    error: Exception | None = None
    begun = time.monotonic()
    with served.stream("GET", f"{PODS}?watch=1&timeoutSeconds=60&allowWatchBookmarks=1") as answer:
        served.post("/_control/watches/cut", json={"abrupt": abrupt})
        try:
            list(answer.iter_lines())
        except httpx.RemoteProtocolError as lost:
            error = lost
    assert time.monotonic() - begun < 20
    assert (error is not None) is abrupt


def test_faults_strike_connections(served: httpx.Client) -> None:
    fault = {"kind": "drop_after", "method": "POST", "path": JOBS}
    assert served.post("/_control/faults/add", json=fault).status_code == 200
    with pytest.raises(httpx.RemoteProtocolError):
        served.post(JOBS, json=gang("dropped"))
    assert served.post(JOBS, json=gang("dropped")).status_code == 409
    fault = {"kind": "truncate", "method": "GET", "path": PODS}
    assert served.post("/_control/faults/add", json=fault).status_code == 200
    with pytest.raises(httpx.RemoteProtocolError):
        served.get(PODS)


def test_the_side_door_tells_what_can_be_done(served: httpx.Client) -> None:
    deeds = served.get("/_control").json()["deeds"]
    assert "watches/cut" in deeds
    assert served.get("/_control/state").json()["objects"]["nodes"] == 16
    assert served.get("/_control/jobs/1").status_code == 404
    assert served.post("/_control/nodes/silent", json={"nodes": "nope"}).status_code == 400
    assert served.post("/_control/clock/advance", json={"ms": 5}).status_code == 400


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "nomad"}, "kind is"),
        ({"kind": "volcano"}, "volcano/tokens"),
        ({"kind": "volcano", "volcano": {"tokens": [{}]}}, "token: is needed"),
        (
            {"kind": "volcano", "volcano": {"tokens": [{"token": "t", "rights": [["a"]]}]}},
            "three or four words",
        ),
        (
            {
                "kind": "volcano",
                "volcano": {"tokens": [{"token": "t"}], "schedule_period_ms": 0},
            },
            "schedule_period_ms",
        ),
    ],
)
def test_a_configuration_that_cannot_be(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse({"clusters": [{"name": "v", **changes}]})

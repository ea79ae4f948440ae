"""The contract on the simulator, a process of its own that shares no code with the backend.

Times are as in the scenarios' scripts, only faster: `SPEED` seconds of theirs pass in one of ours.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from clusters.backends.slurm.client import forget_versions
from clusters.core.backend import Connection
from tests.clusters.backends import contract
from tests.clusters.backends.contract import Scenario
from tests.clusters.backends.site import Site

KEY = b"a key of thirty-two bytes, no more"
SPEED = 5.0


@dataclass(frozen=True)
class SimulatorHands:
    """The simulator's control door as an admin's hands."""

    endpoint: str

    def post(self, deed: str, **body: object) -> None:
        httpx.post(f"{self.endpoint}/_control/{deed}", json=body).raise_for_status()

    def requeue(self, job_id: str) -> None:
        self.post("jobs/requeue", job_id=int(job_id))

    def node_down(self, node: str) -> None:
        self.post("nodes/down", nodes=node, reason="contract")

    def node_up(self, node: str) -> None:
        self.post("nodes/up", nodes=node)

    def forget_finished(self, seconds: int) -> None:
        """The cluster `brief` forgets by itself; see the configuration."""


def _cluster(directory: Path, name: str, min_job_age_ms: int) -> dict[str, object]:
    return {
        "name": name,
        "jwt_key_file": str(directory / "key"),
        "nodes": 4,
        "cpus": 8,
        "tiers": [{"name": "leaf", "nodes": 2}, {"name": "spine", "nodes": 4}],
        "accounts": ["vision", "ml"],
        "users": [
            {"name": "mia", "uid": 3001, "accounts": ["vision"]},
            {"name": "ben", "uid": 3002, "accounts": ["vision"]},
        ],
        "qos": {"normal": 0, "guaranteed": 1000, "spot": 10},
        "speed": SPEED,
        "control": True,
        "min_job_age_ms": min_job_age_ms,
    }


@pytest.fixture(scope="module")
def endpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    directory = tmp_path_factory.mktemp("simulator")
    (directory / "key").write_bytes(KEY)
    clusters = [_cluster(directory, "steady", 300_000), _cluster(directory, "brief", 3_000)]
    config = directory / "config.json"
    config.write_text(json.dumps({"clusters": clusters}))
    command = [sys.executable, "-m", "simulator", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        word, _, ports = process.stdout.readline().partition(" ")
        assert word == "ready"
        yield {name: f"http://127.0.0.1:{port}" for name, port in json.loads(ports).items()}
        process.terminate()


@pytest.fixture
def site(endpoints: dict[str, str], request: pytest.FixtureRequest) -> Iterator[Site]:
    scenario = request.node.callspec.params["scenario"]
    is_brief = scenario is contract.remembers_what_the_controller_forgot
    endpoint = endpoints["brief" if is_brief else "steady"]
    hands = SimulatorHands(endpoint)
    hands.post("reset")
    forget_versions()
    wire = httpx.HTTPTransport()
    connection = Connection("simulated", endpoint, KEY, "slurm", {})
    site = Site(connection, wire, hands, "7", pause_s=0.05, patience=400, speed=SPEED)
    yield site
    site.close()
    wire.close()


@pytest.mark.parametrize("scenario", contract.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_simulator(site: Site, scenario: Scenario) -> None:
    scenario(site)

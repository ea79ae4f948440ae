"""A simulated cluster in the same process, with a clock that tests move by hand."""

import json
import time
from pathlib import Path
from typing import Any

import httpx

from simulator.config import Cluster, Tier, User
from simulator.inprocess import InProcess
from simulator.runtime import Running
from simulator.slurm.tokens import mint

RECORDINGS = Path(__file__).parent / "recordings"
SCRIPT = "#!/bin/bash\nsleep 600\n"
FENCE = "mst-0123456789ab-a1"


def lab_cluster(directory: Path, **changes: Any) -> Cluster:
    """The cluster the recordings were made on: 8 nodes of 8 H100, leaves of 4."""
    key = directory / "alpha.key"
    key.write_bytes(b"k" * 32)
    settings: dict[str, Any] = {
        "nodes": 8,
        "tiers": [Tier("leaf", 4)],
        "accounts": ["ml"],
        "users": [User("www-data", 33, ["ml"]), User("games", 5, ["ml"])],
        "clock": "manual",
        "control": True,
        "completing_ms": 1000,
        "controller_timeout_ms": 20,
        **changes,
    }
    return Cluster(name="alpha", jwt_key_file=str(key), **settings)


class Lab:
    """A cluster, a client for it, and the calls that tests repeat."""

    def __init__(self, config: Cluster) -> None:
        self.running = Running(config)
        self.client = httpx.Client(transport=InProcess(self.running), base_url="http://lab")

    @property
    def now(self) -> int:
        return self.running.now_ms() // 1000

    def headers(self, user: str) -> dict[str, str]:
        clock = self.now if self.running.config.clock == "manual" else int(time.time())
        token = mint(self.running.key, user, now=clock)
        return {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token}

    def call(
        self, method: str, path: str, body: Any = None, user: str = "www-data"
    ) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        return self.client.request(method, path, content=content, headers=self.headers(user))

    def submit(self, user: str = "www-data", script: str = SCRIPT, **job: Any) -> int:
        number: int = self.try_submit(user, script, **job).json()["job_id"]
        return number

    def try_submit(
        self, user: str = "www-data", script: str = SCRIPT, **job: Any
    ) -> httpx.Response:
        wanted = {
            "name": "run",
            "nodes": 1,
            "tasks_per_node": 1,
            "gres": "gpu:h100:8",
            "time_limit": 60,
            "environment": {"PATH": "/bin"},
            **job,
        }
        wanted = {k: v for k, v in wanted.items() if v is not ...}
        return self.call(
            "POST", "/slurm/v0.0.38/job/submit", {"script": script, "job": wanted}, user
        )

    def job(self, number: int) -> dict[str, Any]:
        row: dict[str, Any] = self.call("GET", f"/slurm/v0.0.38/job/{number}").json()["jobs"][0]
        return row

    def node(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = self.call("GET", f"/slurm/v0.0.38/node/{name}").json()["nodes"][0]
        return row

    def runs(self, number: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.call("GET", f"/slurmdb/v0.0.38/job/{number}").json()[
            "jobs"
        ]
        return rows

    def control(self, deed: str, **data: Any) -> Any:
        answer = self.client.post(f"/_control/{deed}", json=data)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, seconds: float) -> None:
        self.control("clock/advance", ms=round(seconds * 1000))


def recording(name: str) -> dict[str, Any]:
    """A request to slurmrestd 22.05.8 and its reply."""
    data: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return data


def states(lab: Lab, job: int) -> list[str]:
    """What accounting says of each run."""
    return [row["state"]["current"] for row in lab.runs(job)]


def running(lab: Lab, **job: Any) -> int:
    number = lab.submit(**{"requeue": False, "name": FENCE, **job})
    lab.wait(1)
    assert lab.job(number)["job_state"] == "RUNNING"
    return number


def is_unknown(lab: Lab, job: int) -> bool:
    answer = lab.call("GET", f"/slurm/v0.0.38/job/{job}")
    return not answer.json()["jobs"] and answer.json()["errors"][0]["error_number"] == 2017

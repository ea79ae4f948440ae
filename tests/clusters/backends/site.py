"""A place where the contract runs: real Slurm, a recording of it, or the simulator."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import httpx

from clusters.backends.slurm import SlurmBackend
from clusters.backends.slurm.client import SlurmClient
from clusters.backends.slurm.values import Json
from clusters.core.backend import Connection
from clusters.core.gang import Gang
from clusters.core.observation import GangSeen, GangState, Observation
from clusters.core.resources import GangShape, NodeShape

T = TypeVar("T")
NOW_MS = 1_800_000_000_000  # our own clock: the contract asks only that it comes back


class Hands(Protocol):
    """What an admin of the cluster can do to it."""

    def requeue(self, job_id: str) -> None: ...
    def node_down(self, node: str) -> None: ...
    def node_up(self, node: str) -> None: ...
    def forget_finished(self, seconds: int) -> None: ...


@dataclass
class Site:
    """A cluster and how to wait on it. `salt` makes fences new in every run."""

    connection: Connection
    transport: httpx.BaseTransport
    hands: Hands
    salt: str
    user: str = "mia"
    stranger: str = "ben"
    charge: str = "vision"
    pause_s: float = 0.4
    patience: int = 400
    speed: float = 1.0
    made: list[SlurmBackend] = field(default_factory=list)

    def backend(self, transport: httpx.BaseTransport | None = None, **options: str) -> SlurmBackend:
        """A backend of this site; over `transport` if given, with other options if any."""
        connection = replace(self.connection, options={**self.connection.options, **options})
        client = SlurmClient(connection, transport=transport or self.transport)
        self.made.append(SlurmBackend(client))
        return self.made[-1]

    def fence(self, label: str) -> str:
        return f"mst-{label}{self.salt}-a1"

    def nodes(self) -> list[str]:
        """The names of all nodes, read once per scenario."""
        return [node.name for node in self.backend().observe(NOW_MS, []).nodes]

    def gang(
        self, label: str, nodes: list[str], script: str = "sleep 60", **changes: object
    ) -> Gang:
        """Whole nodes with all their GPUs for a short script."""
        base = Gang(
            fence=self.fence(label),
            title="Größe 7 $(reboot) `x`",
            account=self.user,
            charge=self.charge,
            queue="batch",
            service_class="spot",
            shape=GangShape(len(nodes), NodeShape(8, 2, 2000), exclusive=True),
            device="h100",
            nodes=tuple(nodes),
            time_limit_s=601,
            script=f"#!/bin/bash\n{script}\n",
            workdir="",
            output="",
            error="",
            environment={"NCCL_DEBUG": "WARN"},
        )
        return replace(base, **changes)  # type: ignore[arg-type]

    def outsider(self, name: str, node: str, script: str, **job: object) -> int:
        """A job of somebody else, submitted without Muster; its id."""
        client = SlurmClient(self.connection, transport=self.transport)
        body = {
            "name": name,
            "account": self.charge,
            "partition": "batch",
            "nodes": 1,
            "nodelist": node,
            "gres": "gpu:3",
            "cpus_per_task": 2,
            "memory_per_node": "3000M",
            "time_limit": 5,
            "current_working_directory": "/",
            "standard_output": "/dev/null",
            "environment": {"PATH": "/usr/bin:/bin"},
            **job,
        }
        request: Json = {"job": body, "script": f"#!/bin/bash\n{script}\n"}
        reply = client.write("POST", "job/submit", self.stranger, request, fine=())
        return int(reply.part("job_id"))

    def comment(self, job_id: str, text: str) -> None:
        """What a job of ours does to its own comment, as the user it runs as."""
        client = SlurmClient(self.connection, transport=self.transport)
        client.write("POST", f"job/{job_id}", self.user, {"comment": text}, fine=())

    def end_outsider(self, job_id: int) -> None:
        client = SlurmClient(self.connection, transport=self.transport)
        client.write("DELETE", f"job/{job_id}", self.stranger, fine=())

    def look(self, *fences: str) -> Observation:
        return self.backend().observe(NOW_MS, fences)

    def seen(self, fence: str) -> list[GangSeen]:
        return [gang for gang in self.look(fence).gangs if gang.fence == fence]

    def until(self, read: Callable[[], T | None], what: str) -> T:
        """Wait for a value; the number of tries is part of a recording."""
        for _ in range(self.patience):
            value = read()
            if value:
                return value
            if self.pause_s:
                time.sleep(self.pause_s)
        raise AssertionError(f"never came: {what}; last look: {self.look().gangs}")

    def until_state(self, fence: str, *states: GangState) -> GangSeen:
        """Wait until the attempt (its lowest object) is in one of these states."""

        def read() -> GangSeen | None:
            gangs = self.seen(fence)
            first = min(gangs, key=lambda gang: int(gang.backend_id), default=None)
            return first if first is not None and first.state in states else None

        return self.until(read, f"{fence} {'/'.join(states)}")

    def close(self) -> None:
        for backend in self.made:
            backend.close()

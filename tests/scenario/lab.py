"""Simulated clusters in this process, on the scenario's clock, and the wire to them.

`connect` takes the place of the Slurm backend in the registry: the real backend, the real client,
and a transport that hands requests to the simulator instead of a socket.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from clusters import backends
from clusters.backends.slurm.backend import SlurmBackend
from clusters.backends.slurm.client import SlurmClient, forget_versions
from clusters.core.backend import Connection
from simulator.config import Cluster, Tier, User
from simulator.control import do
from simulator.engine.clocks import seconds
from simulator.engine.model import Job, Run, State
from simulator.inprocess import InProcess
from simulator.runtime import Running
from tests.scenario.clock import START_MS, Clock
from tests.scenario.points import Points, request_name

MODULE = "tests.scenario.lab"
KEY = b"k" * 32
ACCOUNT = "mia"


def mark_of(fence: str) -> str:
    """The comment that Muster puts on its own."""
    return f"muster:{fence}"


@dataclass
class Laboratory:
    """The clusters by name, the clock, and what a request may stumble over."""

    clock: Clock
    points: Points
    clusters: dict[str, "Simulated"] = field(default_factory=dict)
    meanwhile: tuple[int, Callable[[], None]] | None = None

    def pass_request(self) -> None:
        """Counts a request down to the one before which something else happens."""
        if self.meanwhile is None:
            return
        left, act = self.meanwhile
        self.meanwhile = (left - 1, act) if left > 0 else None
        if left <= 0:
            act()


@dataclass
class Simulated:
    """One simulated cluster: its side door, and the truth about it, read without asking."""

    name: str
    endpoint: str
    running: Running

    def control(self, deed: str, **data: Any) -> dict[str, Any]:
        """Pulls a lever of the laboratory."""
        return dict(do(self.running, deed, **data))

    @property
    def jobs(self) -> list[Job]:
        """What the controller has, by job id."""
        self.running.now_ms()
        return list(self.running.world.jobs.values())

    @property
    def runs(self) -> list[Run]:
        """Every run that got nodes: what is to be billed."""
        self.running.now_ms()
        return [run for run in self.running.world.records if run.start_ms > 0]

    def shown_ms(self, ms: int) -> int:
        """A moment as the cluster's accounting writes it: its own clock's, in whole seconds."""
        return seconds(self.running.world, ms) * 1000

    def is_ours(self, job: Job) -> bool:
        """Whether it bears the mark that Muster puts on its own."""
        return job.request.comment == mark_of(job.request.name)

    def living(self) -> list[Job]:
        """Our objects that wait or run."""
        return [
            job
            for job in self.jobs
            if self.is_ours(job) and (job.state in {State.PENDING, State.RUNNING} or job.completing)
        ]


class Wire(InProcess):
    """Carries a client's requests to one simulated cluster, in the scenario's time."""

    def __init__(self, laboratory: Laboratory, cluster: Running) -> None:
        super().__init__(cluster, laboratory.clock.advance)
        self._laboratory = laboratory

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer, or the error of httpx that a socket would cause."""
        self._laboratory.pass_request()
        try:
            return super().handle_request(request)
        finally:
            if request.method != "GET":
                self._laboratory.points.reach(request_name())


_current: Laboratory | None = None


def connect(connection: Connection) -> SlurmBackend:
    """The Slurm backend of a cluster of the laboratory that is installed."""
    laboratory = _current
    assert laboratory is not None, "no laboratory is installed"
    cluster = laboratory.clusters[connection.name]
    clock = laboratory.clock
    client = SlurmClient(
        connection,
        transport=Wire(laboratory, cluster.running),
        clock=lambda: clock.now_ms // 1000,
    )
    return SlurmBackend(client)


@contextmanager
def laboratory(points: Points, directory: Path) -> Iterator[Laboratory]:
    """Two clusters: one of eight nodes in two leaves, one of four whose clock is 42 s ahead."""
    global _current
    clock = Clock()
    made = Laboratory(clock, points)
    key = directory / "key"
    key.write_bytes(KEY)
    for number, (name, nodes, ahead_ms) in enumerate((("aurora", 8, 0), ("borealis", 4, 42_300))):
        config = Cluster(
            name=name,
            jwt_key_file=str(key),
            nodes=nodes,
            tiers=[Tier("leaf", 4)],
            users=[User(ACCOUNT, 3001, ["ml"]), User("otto", 3102, ["ml"])],
            clock="manual",
            start_ms=START_MS,
            skew_ms=ahead_ms,
            control=True,
        )
        running = Running(config)
        clock.follow(running.advance_ms)
        made.clusters[name] = Simulated(name, f"http://127.0.0.1:{7001 + number}", running)
    patch = pytest.MonkeyPatch()
    patch.setitem(backends.BACKENDS, "slurm", MODULE)
    _current = made
    forget_versions()
    try:
        yield made
    finally:
        patch.undo()
        forget_versions()
        _current = None

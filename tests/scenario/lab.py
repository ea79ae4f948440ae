"""Simulated clusters in this process, on the scenario's clock, and the wire to them.

`connect` takes the place of the Slurm backend in the registry: the real backend, the real client,
and a transport that hands requests to the simulator instead of a socket.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from clusters import backends
from clusters.backends.slurm.backend import SlurmBackend
from clusters.backends.slurm.client import SlurmClient, forget_versions
from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.warm import forget
from clusters.core.backend import Backend, Connection
from clusters.services import deliver
from kit.ids import is_fence
from simulator.config import Cluster, Tier, User
from simulator.control import do
from simulator.deeds.daemons import ENDED
from simulator.engine.clocks import offset_at, seconds
from simulator.engine.model import Job, RefusedError, Run, State
from simulator.inprocess import InProcess
from simulator.runtime import Running
from simulator.volcano.cluster import VolcanoCluster
from tests.scenario.clock import START_MS, Clock
from tests.scenario.known import Known
from tests.scenario.pods import Pods, pods_cluster
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
    clusters: dict[str, "Place"] = field(default_factory=dict)
    meanwhile: tuple[int, Callable[[], None]] | None = None

    def pass_request(self) -> None:
        """Counts a request down to the one before which something else happens."""
        if self.meanwhile is None:
            return
        left, act = self.meanwhile
        self.meanwhile = (left - 1, act) if left > 0 else None
        if left <= 0:
            act()


def _key(run: Run) -> tuple[str, int, int]:
    return run.request.name, run.job_id, run.start_ms


def _is_marked(run: Run) -> bool:
    who = run.request
    is_noted = who.comment.startswith("muster-checkpoint=") and who.user == ACCOUNT
    return who.comment == mark_of(who.name) or (is_noted and is_fence(who.name))


@dataclass
class Simulated:
    """One simulated Slurm cluster: its side door, and the truth about it, read without asking."""

    name: str
    endpoint: str
    running: Running
    doubtful: set[str] = field(default_factory=set)
    _known: dict[tuple[str, int, int], Known] = field(default_factory=dict)
    _outcomes: dict[tuple[str, int, int], tuple[State, int]] = field(default_factory=dict)
    _over: set[tuple[str, int, int]] = field(default_factory=set)  # name, number, time of submit

    @property
    def nodes(self) -> list[str]:
        """Its nodes' names."""
        return list(self.running.world.nodes)

    def next_key(self) -> bytes:
        """Another key than the one it has."""
        return bytes([self.running.key[0] % 99 + 1]) * 32

    def take_key(self, key: bytes) -> None:
        """Only what this key signs is good from now on."""
        self.running.key = key

    @property
    def key(self) -> bytes:
        """The key that it has now."""
        return self.running.key

    def control(self, deed: str, **data: Any) -> dict[str, Any]:
        """Pulls a lever of the laboratory."""
        return dict(do(self.running, deed, **data))

    def mend(self) -> None:
        """Ends every fault and lets it work."""
        self.control("faults/clear")
        for deed in ("nodes/up", "nodes/undrain"):
            self.control(deed, nodes=",".join(self.nodes))
        self.control("scheduling/resume")
        self.control("slurmdbd/lag", ms=500)
        self.control("slurmdbd/deaf", deaf=False)
        for job in self.jobs:
            if self.is_ours(job) and job.waiting and job.held_by_admin:
                self.control("jobs/release", job_id=job.id)
        for job in self.jobs:
            if job.request.foreign and not self.is_ours(job):
                self.control("foreign/remove", job_id=job.id)

    def operator(self, deed: str, job: int, value: int) -> None:
        """Somebody of the cluster does something to an object of ours that counts; or is refused."""
        living = [found for found in self.living() if found.priority > 0]
        if not living:
            return
        chosen = living[job % len(living)]
        data: dict[str, object] = {}
        if deed == "jobs/time_limit":
            data = {"minutes": 1 + value}
        elif deed == "jobs/edit":
            data = {"priority": 1 + value * 100}
        elif deed == "jobs/move":
            names = self.nodes
            chosen_nodes = [names[(value + at) % len(names)] for at in range(chosen.demand.nodes)]
            data = {"nodes": ",".join(chosen_nodes)}
        elif deed == "slurmctld/forget" and value and not chosen.waiting:
            data = {"ended": ENDED[value % len(ENDED)]}
        with suppress(RefusedError, ValueError):
            self.control(deed, job_id=chosen.id, **data)

    @property
    def jobs(self) -> list[Job]:
        """What the controller has, by job id."""
        self.running.now_ms()
        return list(self.running.world.jobs.values())

    @property
    def runs(self) -> list[Run]:
        """Every run of ours that got nodes, as its accounting has it: what is to be billed."""
        self.running.now_ms()
        return [run for run in self.running.world.records if run.start_ms > 0 and _is_marked(run)]

    def remember(self) -> list[Known]:
        """Every run of ours that its controller or its accounting has or ever had.

        Called at every step. It also finds of what its accounting does not tell the truth: of runs
        that it does not have (any more), of those that are over and have no end there, of those that
        it closed itself when their controller came back without them, of those whose end it tells
        otherwise than before, and of those that are over and that an older state has alive again.
        """
        now_ms = self.running.now_ms()
        world = self.running.world
        held = [job.run for job in world.jobs.values() if _is_marked(job.run)]
        records = [run for run in world.records if _is_marked(run)]
        present, recorded = {_key(run) for run in held}, {id(run) for run in records}
        self.doubtful.update(run.request.name for run in held if id(run) not in recorded)
        for run in held:
            job = (run.request.name, run.job_id, run.submit_ms)
            if run.end_ms:
                self._over.add(job)
            elif job in self._over:
                self.doubtful.add(run.request.name)
        kept = set()
        for run in [*records, *held]:
            key = _key(run)
            is_left_open = not run.end_ms and key not in present
            is_closed_unseen = run.state is State.CANCELLED and not run.killed_by
            if is_left_open or is_closed_unseen:
                self.doubtful.add(run.request.name)
            if run.start_ms <= 0:
                continue
            kept.add(key)
            outcome = (run.state, run.end_ms)
            if run.end_ms and self._outcomes.setdefault(key, outcome) != outcome:
                self.doubtful.add(run.request.name)  # it was over, and is told otherwise now
            ended_ms = run.end_ms or (self._known[key].end_ms if key in self._known else 0)
            gpus = sum(len(share.gpus) for share in run.shares.values())
            self._known[key] = Known(
                run.request.name,
                run.start_ms,
                ended_ms or (now_ms if is_left_open else 0),
                gpus,
            )
        self.doubtful.update(key[0] for key in self._known.keys() - kept)
        return list(self._known.values())

    @property
    def ahead_ms(self) -> int:
        """How far its clock is ahead now."""
        return offset_at(self.running.world, self.running.now_ms())

    def shown_ms(self, ms: int) -> int:
        """A moment as the cluster's accounting writes it: its own clock's, in whole seconds."""
        return seconds(self.running.world, ms) * 1000

    def latest_shown_ms(self, start_ms: int, end_ms: int) -> int:
        """The latest that its clock showed while a run lasted; it may have been set back since."""
        set_back = [
            since - 1 for since, _ in self.running.world.shifts if start_ms < since <= end_ms
        ]
        return max(self.shown_ms(moment) for moment in (end_ms, *set_back))

    def is_ours(self, job: Job) -> bool:
        """Whether it bears the mark that Muster puts on its own."""
        return _is_marked(job.run)

    def known(self) -> list[str]:
        """The names of our objects that its controller or its accounting knows, in a fixed order."""
        named = [*(job.run for job in self.jobs), *self.running.world.records]
        return list(dict.fromkeys(run.request.name for run in named if _is_marked(run)))

    def living(self) -> list[Job]:
        """Our objects that wait or run."""
        return [
            job
            for job in self.jobs
            if self.is_ours(job) and (job.state in {State.PENDING, State.RUNNING} or job.completing)
        ]


Place = Simulated | Pods  # of either kind


class Wire(InProcess):
    """Carries a client's requests to one simulated cluster, in the scenario's time."""

    def __init__(self, laboratory: Laboratory, cluster: Running | VolcanoCluster) -> None:
        super().__init__(cluster, laboratory.clock.advance)
        self._laboratory = laboratory

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer, or the error of httpx that a socket would cause."""
        self._laboratory.pass_request()
        try:
            return super().handle_request(request)
        finally:
            if request.method != "GET" and not request.url.path.endswith("accessreviews"):
                self._laboratory.points.reach(request_name())


class InOrder(Executor):
    """The calls of a round, made one after another when they are waited for: no threads.

    So a round has one history, and each answer is recorded before the next call is made.
    """

    def __init__(self, workers: int) -> None:
        """As a pool of threads; how many workers does not matter."""

    def submit(self, act: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Notes a call down."""
        future: Future[Any] = Future()
        future.make = lambda: act(*args, **named)  # type: ignore[attr-defined]
        return future


def wait(futures: Iterable[Future[Any]], **_: object) -> tuple[set[Future[Any]], set[Future[Any]]]:
    """Makes the first call that was not made yet. Who is killed in it leaves the rest unmade."""
    first, *rest = futures
    try:
        first.set_result(first.make())  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - as a pool does
        first.set_exception(error)
    return {first}, set(rest)


_current: Laboratory | None = None


def connect(connection: Connection) -> Backend:
    """The backend of a cluster of the laboratory that is installed."""
    laboratory = _current
    assert laboratory is not None, "no laboratory is installed"
    cluster = laboratory.clusters[connection.name]
    clock = laboratory.clock
    wire = Wire(laboratory, cluster.running)
    if isinstance(cluster, Pods):
        return VolcanoBackend(KubernetesClient(connection, transport=wire))
    client = SlurmClient(
        connection,
        transport=wire,
        clock=lambda: clock.now_ms // 1000,
    )
    return SlurmBackend(client)


@contextmanager
def laboratory(points: Points, directory: Path, *, has_pods: bool = False) -> Iterator[Laboratory]:
    """Two clusters: one of eight nodes in two leaves, one of four whose clock is 42 s ahead.

    The second one is Volcano's where it `has_pods`, with the right time.
    """
    global _current
    clock = Clock()
    made = Laboratory(clock, points)
    key = directory / "key"
    key.write_bytes(KEY)
    for number, (name, nodes, ahead_ms) in enumerate((("aurora", 8, 0), ("borealis", 4, 42_300))):
        endpoint = f"http://127.0.0.1:{7001 + number}"
        if has_pods and number:
            pods = pods_cluster(name, endpoint, nodes, START_MS)
            clock.follow(pods.running.advance_ms)
            made.clusters[name] = pods
            continue
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
        made.clusters[name] = Simulated(name, endpoint, running)
    patch = pytest.MonkeyPatch()
    for kind in backends.BACKENDS:
        patch.setitem(backends.BACKENDS, kind, MODULE)
    patch.setattr(deliver, "ThreadPoolExecutor", InOrder)
    patch.setattr(deliver, "wait", wait)
    _current = made
    forget_versions()
    forget()
    try:
        yield made
    finally:
        patch.undo()
        forget_versions()
        _current = None

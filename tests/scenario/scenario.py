"""The steps of a scenario, without Hypothesis: what its machine draws, and what a script replays.

Every step takes plain numbers and words, so that its printed form runs.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress

from clusters.models import Command
from clusters.selectors.traffic import OPEN
from federation.core.lifecycle import JobState
from federation.models import Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.services.change import cancel_job, change_job, hold_job, release_job
from federation.services.submit import submit_jobs
from kit.errors import MusterError
from simulator.engine.model import RefusedError
from tests.scenario.house import Furniture, House, house
from tests.scenario.lab import ACCOUNT, Simulated, mark_of
from tests.scenario.truth import check_quiet, check_step

# How long the quiet lasts at most: short steps first, so that little happens unseen; six hours.
QUIET_MS = (*[5_000] * 8, *[60_000] * 12, *[600_000] * 36)


class Scenario:
    """A house, and what can happen to it. `close` when done."""

    def __init__(self, furniture: Furniture) -> None:
        self._stack = ExitStack()
        self.house: House = self._stack.enter_context(house(furniture))
        self.lab = self.house.laboratory
        self.excused: set[str] = set()

    def close(self) -> None:
        """Takes the laboratory down."""
        self._stack.close()

    def check(self) -> None:
        """Every invariant of a moment."""
        check_step(self.house)

    # people

    def submit(
        self, nodes: int, seconds: int, exit_code: int = 0, restarts: int = 0, kill: int = 0
    ) -> None:
        """Somebody submits a job."""
        spec = self.house.spec(nodes=nodes, seconds=seconds, exit_code=exit_code, restarts=restarts)
        with self.house.process(kill):
            submit_jobs(user=self.house.user, specs=[spec], now=self.lab.clock())

    def ask(self, action: str, job: int, kill: int = 0) -> None:
        """Somebody cancels, holds, releases or edits a job; what is refused is refused."""
        row = self._job(job)
        if row is None:
            return
        user, now = self.house.user, self.lab.clock()
        with self.house.process(kill), suppress(MusterError):
            if action == "edit":
                body = {"priority": (row.priority + 10) % 100, "time_limit": "0:40:00"}
                change_job(user=user, job_id=row.uuid, now=now, body=body, expected_version=None)
            else:
                _ACTIONS[action](user=user, job_id=row.uuid, now=now)

    def _job(self, number: int) -> Job | None:
        jobs = list(Job.objects.order_by("id"))
        return jobs[number % len(jobs)] if jobs else None

    # processes

    def decide(self, kill: int = 0) -> None:
        """The arbiter has a turn."""
        self.house.decide(kill)

    def deliver(self, cluster: str, kill: int = 0) -> None:
        """A worker delivers."""
        self.house.deliver(cluster, kill)

    def observe(self, cluster: str, kill: int = 0) -> None:
        """A worker reads a cluster."""
        self.house.observe(cluster, kill)

    def freeze(self, what: str, cluster: str, request: int, seconds: int) -> None:
        """A worker is stopped before one of its requests, and another delivers meanwhile."""
        self.house.meanwhile_deliver(cluster, request, seconds * 1000)
        (self.house.observe if what == "observe" else self.house.deliver)(cluster)

    def post(self, kill: int = 0) -> None:
        """The poster has a turn."""
        self.house.post(kill)

    def turn(self, seconds: int) -> None:
        """Time passes, then every process has a turn."""
        self.lab.clock.advance(seconds * 1000)
        self.house.turn()

    def advance(self, ms: int) -> None:
        """Time passes, and nobody looks."""
        self.lab.clock.advance(ms)

    # clusters

    def control(self, cluster: str, deed: str, **data: object) -> None:
        """A lever of the laboratory: see `/_control` of the simulator."""
        self.lab.clusters[cluster].control(deed, **data)

    def node(self, cluster: str, deed: str, node: int) -> None:
        """A node goes down, comes up, is drained or given back."""
        names = list(self.lab.clusters[cluster].running.world.nodes)
        self.control(cluster, deed, nodes=names[node % len(names)])

    def wire(self, cluster: str, kind: str, method: str, times: int, ms: int) -> None:
        """The next requests meet a fault on the wire."""
        data = {"kind": kind, "method": method, "times": times, "ms": ms}
        if kind.startswith("reply"):
            data |= {"status": 500, "text": "Zero Bytes were transmitted"}
        self.control(cluster, "faults/add", **data)

    def foreign(self, cluster: str, nodes: int, seconds: int) -> None:
        """Others take nodes."""
        self.control(cluster, "foreign/add", nodes=nodes, seconds=seconds)

    def late_copy(self, cluster: str, attempt: int) -> None:
        """A submit of ours arrives once more, long after: the copy is held."""
        place = self.lab.clusters[cluster]
        known = [job.request.name for job in place.jobs if place.is_ours(job)]
        if known:
            fence = known[attempt % len(known)]
            common = {"user": ACCOUNT, "account": "ml", "nodes": 1, "seconds": 60}
            self.control(
                cluster, "foreign/add", name=fence, comment=mark_of(fence), hold=True, **common
            )

    def operator(self, cluster: str, deed: str, job: int, **data: object) -> None:
        """Somebody of the cluster does something to an object of ours that counts; or is refused."""
        living = [found for found in self.lab.clusters[cluster].living() if found.priority > 0]
        if living:
            chosen = living[job % len(living)]
            self._try(cluster, deed, job_id=chosen.id, **data)

    def forget(self, cluster: str, deed: str, **data: object) -> None:
        """A cluster forgets, or remembers wrongly: what was there may be looked into by a person."""
        place = self.lab.clusters[cluster]
        known = [
            *(job.request.name for job in place.jobs),
            *(run.request.name for run in place.runs),
        ]
        self.excused.update(known)
        self._try(cluster, deed, **data)

    def _try(self, cluster: str, deed: str, **data: object) -> None:
        with suppress(RefusedError, ValueError):
            self.control(cluster, deed, **data)

    # quiet

    def quiet(self) -> None:
        """All faults end, time goes on until nothing moves, and everything is where it belongs."""
        for cluster in self.lab.clusters.values():
            mend(cluster)
        for ms in QUIET_MS:
            self.lab.clock.advance(ms)
            self.house.turn()
            if self._is_settled():
                break
        self.lab.clock.advance(120_000)
        self.house.turn()
        self.house.turn()
        check_step(self.house)
        check_quiet(self.house, frozenset(self.excused))

    def _is_settled(self) -> bool:
        """Whether nothing is going to happen any more by itself."""
        if Command.objects.filter(state__in=OPEN).exists():
            return False
        if OPEN_ATTEMPTS.exclude(state="lost").exists():
            return False
        if any(cluster.living() for cluster in self.lab.clusters.values()):
            return False
        return not Job.objects.filter(state=JobState.QUEUED).exists()


def mend(cluster: Simulated) -> None:
    """Ends every fault of a cluster and lets it work."""
    cluster.control("faults/clear")
    nodes = list(cluster.running.world.nodes)
    for deed in ("nodes/up", "nodes/undrain"):
        cluster.control(deed, nodes=",".join(nodes))
    cluster.control("scheduling/resume")
    cluster.control("slurmdbd/lag", ms=500)
    cluster.control("slurmdbd/deaf", deaf=False)
    for job in cluster.jobs:
        if cluster.is_ours(job) and job.waiting and job.held_by_admin:
            cluster.control("jobs/release", job_id=job.id)
    for job in cluster.jobs:
        if job.request.foreign and not cluster.is_ours(job):
            cluster.control("foreign/remove", job_id=job.id)


_ACTIONS: dict[str, Callable[..., Job]] = {
    "cancel": cancel_job,
    "hold": hold_job,
    "release": release_job,
}

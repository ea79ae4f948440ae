"""The steps of a scenario, without Hypothesis: what its machine draws, and what a script replays.

Every step takes plain numbers and words, so that its printed form runs.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress

from clusters.models import Command
from clusters.selectors.traffic import OPEN
from federation.core.lifecycle import JobState
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.services.change import (
    cancel_job,
    change_job,
    checkpoint_job,
    hold_job,
    release_job,
)
from federation.services.submit import submit_jobs
from kit.errors import MusterError
from simulator.engine.model import RefusedError
from tests.scenario.house import Furniture, House, house
from tests.scenario.lab import ACCOUNT, mark_of
from tests.scenario.truth import Tables, check_quiet, check_step, tables

FURTHEST_MS = 20 * 60_000  # a token of ours is valid for half an hour
# How long the quiet lasts at most: short steps first, so that little happens unseen; two
# days, as large gangs may queue.
QUIET_MS = (*[5_000] * 8, *[60_000] * 12, *[600_000] * 288)
STILL_MS = 900_000  # what could start would have


class Scenario:
    """A house, and what can happen to it. `close` when done."""

    def __init__(self, furniture: Furniture, *, has_pods: bool = False) -> None:
        self._stack = ExitStack()
        self.house: House = self._stack.enter_context(house(furniture, has_pods=has_pods))
        self.lab = self.house.laboratory
        self._told: Tables | None = None

    def close(self) -> None:
        """Takes the laboratory down."""
        self._stack.close()

    def check(self) -> None:
        """Every invariant of a moment; Muster's tables are read again when they were written to."""
        points = self.house.points
        if self._told is None or points.has_written:
            points.has_written = False
            self._told = tables()
        check_step(self.lab.clusters.values(), self._told)

    # people

    def submit(
        self,
        nodes: int,
        seconds: int,
        exit_code: int = 0,
        restarts: int = 0,
        kill: int = 0,
        saves: int | None = None,
        priority: int = 500,
    ) -> None:
        """Somebody submits a job; with `saves` it can be asked to save a checkpoint."""
        spec = self.house.spec(
            nodes=nodes,
            seconds=seconds,
            exit_code=exit_code,
            restarts=restarts,
            saves=saves,
            priority=priority,
        )
        with self.house.process(kill):
            submit_jobs(user=self.house.user, specs=[spec], now=self.lab.clock())

    def ask(self, action: str, job: int, kill: int = 0) -> None:
        """Somebody cancels, holds, releases, edits a job or has it save; what is refused is refused."""
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
        """A lever of the laboratory: see `/_control` of the simulator. What it refuses is refused."""
        with suppress(RefusedError, ValueError):
            self.lab.clusters[cluster].control(deed, **data)

    def skew(self, **ahead_ms: int) -> None:
        """How far the clock of each cluster is ahead, from the beginning on."""
        for cluster, ms in ahead_ms.items():
            self.control(cluster, "clock/skew", ms=ms)

    def lever(self, cluster: str, deed: str) -> None:
        """A lever without values."""
        if deed == "slurmdbd/hears":
            self.control(cluster, "slurmdbd/deaf", deaf=False)
        else:
            self.control(cluster, deed)

    def memory(self, cluster: str, knows: str, ago_ms: int) -> None:
        """The controller starts again and knows what it knew a while ago, or nothing."""
        data: dict[str, object] = {"knows": "lost", "cold": knows == "cold"}
        if knows == "older":
            data = {"knows": knows, "ago_ms": ago_ms}
        self.control(cluster, "slurmctld/restart", **data)

    def node(self, cluster: str, deed: str, node: int, ms: int = 0) -> None:
        """A node goes down, comes up, is drained or given back, or blinks for `ms`."""
        names = self.lab.clusters[cluster].nodes
        passing = {"ms": ms} if deed in {"nodes/blink", "nodes/silent"} else {}
        self.control(cluster, deed, nodes=names[node % len(names)], **passing)

    def wire(self, cluster: str, kind: str, method: str, times: int, ms: int) -> None:
        """The next requests meet a fault on the wire."""
        data = {"kind": kind, "method": method, "times": times, "ms": ms}
        if kind.startswith("reply"):
            data |= {"status": 500, "text": "Zero Bytes were transmitted"}
        self.control(cluster, "faults/add", **data)

    def foreign(self, cluster: str, deed: str, nodes: int, seconds: int) -> None:
        """Others take nodes, in the queue or just before us."""
        counted = {"nodes": nodes} if deed == "foreign/add" else {"times": nodes}
        self.control(cluster, deed, seconds=seconds, **counted)

    def copy(self, cluster: str, attempt: int, user: str, seconds: int) -> None:
        """A submit of ours arrives once more, held, long after; or `user` has a job of its name.

        That one does not bear our mark, and it runs.
        """
        known = self.lab.clusters[cluster].known()
        if not known:
            return
        name = known[attempt % len(known)]
        made = Attempt.objects.get(fence=name)
        data: dict[str, object] = {"user": ACCOUNT, "comment": mark_of(name), "hold": True}
        data |= {"nodes": len(made.nodes), "nodelist": ",".join(made.nodes)}  # the same submit
        if user:
            data = {"user": user, "nodes": 1}
        account = "" if user == "otto" else "ml"
        self.control(cluster, "foreign/add", name=name, account=account, seconds=seconds, **data)

    def operator(self, cluster: str, deed: str, job: int, value: int = 0) -> None:
        """Somebody of the cluster does something to an object of ours that counts; or is refused."""
        self.lab.clusters[cluster].operator(deed, job, value)

    def accounting(self, cluster: str, deed: str, attempt: int, ms: int) -> None:
        """Accounting lags, loses the records of an object of ours, or hears no more of it."""
        known = self.lab.clusters[cluster].known()
        if deed == "slurmdbd/lag":
            self.control(cluster, deed, ms=ms)
        elif known:
            self.control(cluster, deed, name=known[attempt % len(known)])

    def jump(self, cluster: str, ms: int) -> None:
        """The clock of a cluster jumps; not so far that every token of ours is out of date there."""
        if abs(self.lab.clusters[cluster].ahead_ms + ms) <= FURTHEST_MS:
            self.lab.clock.advance(1)  # what was written in this very millisecond stays as it is
            self.control(cluster, "clock/jump", ms=ms)

    # admins

    def admin(self, cluster: str, deed: str, kill: int = 0) -> None:
        """A cluster is drained, cut off or opened again, or it gets another key."""
        if deed == "rotate":
            self.house.rotate(cluster, self.lab.clusters[cluster].next_key(), kill)
        else:
            self.house.set_state(cluster, deed, kill)

    # quiet

    def quiet(self) -> None:
        """All faults end, time goes on until nothing moves, and everything is where it belongs."""
        for cluster in self.lab.clusters.values():
            cluster.mend()
            self.house.mend(cluster.name)
        still_ms = 0  # for how long nothing has been under way
        for ms in QUIET_MS:
            self.lab.clock.advance(ms)
            self._turn_and_check()
            still_ms = still_ms + ms if self._is_still() else 0
            waits = Job.objects.filter(state=JobState.QUEUED).exists()
            if still_ms >= (STILL_MS if waits else 1):
                break
        self.lab.clock.advance(120_000)
        self._turn_and_check()
        self._turn_and_check()
        doubtful = set().union(*(cluster.doubtful for cluster in self.lab.clusters.values()))
        check_quiet(self.house, frozenset(doubtful))

    def _turn_and_check(self) -> None:
        self.house.turn()
        self.check()

    def _is_still(self) -> bool:
        """Whether nothing is under way; what could be bound would be, in the next turn."""
        if Command.objects.filter(state__in=OPEN).exists():
            return False
        if OPEN_ATTEMPTS.exclude(state="lost").exists():
            return False
        return not any(cluster.living() for cluster in self.lab.clusters.values())


_ACTIONS: dict[str, Callable[..., Job]] = {
    "cancel": cancel_job,
    "hold": hold_job,
    "release": release_job,
    "checkpoint": checkpoint_job,
}

"""The scenario machine: Hypothesis draws the steps of `Scenario`, and shrinks what fails."""

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from simulator.faults import KINDS
from tests.scenario.house import Furniture
from tests.scenario.scenario import Scenario

CLUSTERS = st.sampled_from(["aurora", "borealis"])
# Mostly nobody dies; a turn has at most a dozen writes or so.
KILLS = st.one_of(st.just(0), st.integers(0, 12))
NUMBERS = st.integers(0, 40)
WIRE = sorted(KINDS)
LEVERS = [
    "slurmctld/down",
    "slurmctld/up",
    "slurmctld/restart",
    "slurmctld/forget_finished",
    "slurmdbd/down",
    "slurmdbd/up",
    "slurmdbd/deaf",
    "slurmdbd/hears",
    "scheduling/pause",
    "scheduling/resume",
    "faults/clear",
    "foreign/remove",
]
NODES = [f"nodes/{deed}" for deed in ("down", "up", "drain", "undrain", "blink", "silent")]
HAND = [
    "jobs/cancel",
    "jobs/requeue",
    "jobs/hold",
    "jobs/release",
    "jobs/time_limit",
    "jobs/edit",
    "jobs/move",
    "nodes/fail_under",
    "slurmctld/forget",
]
SKEW_MS = st.sampled_from([0, 42_300, -90_000, 300_000])
AGO_MS = st.sampled_from([1_000, 20_000, 300_000])


class ScenarioMachine(RuleBasedStateMachine):
    """Random submits, cancels, edits, faults and kills in virtual time; then quiet."""

    furniture = Furniture()
    has_pods = False
    counters: ClassVar[list[Callable[[], object]]] = []  # each is called after every step

    def __init__(self) -> None:
        super().__init__()
        self.scenario = self.make()
        self.failed = True  # until a step ends well

    def make(self) -> Scenario:
        """A scenario that begins."""
        return Scenario(self.furniture, has_pods=self.has_pods)

    @property
    def moment(self) -> str:
        """Its time, for people."""
        return f"{self.scenario.lab.clock():%H:%M:%S.%f}"

    @initialize(aurora=SKEW_MS, borealis=SKEW_MS)
    def skew(self, aurora: int, borealis: int) -> None:
        self.scenario.skew(aurora=aurora, borealis=borealis)

    @rule(
        nodes=st.sampled_from([1, 1, 2, 3, 4, 6]),
        seconds=st.sampled_from([1, 5, 20, 60, 200, 600]),
        exit_code=st.sampled_from([0, 0, 0, 3]),
        restarts=st.integers(0, 3),
        kill=st.integers(0, 1),
        saves=st.sampled_from([None, None, 2, 90]),
        priority=st.sampled_from([500, 500, 100, 900]),
    )
    def submit(self, **step: Any) -> None:
        self.scenario.submit(**step)

    @rule(
        action=st.sampled_from(["cancel", "hold", "release", "edit", "checkpoint"]),
        job=NUMBERS,
        kill=st.integers(0, 1),
    )
    def ask(self, action: str, job: int, kill: int) -> None:
        self.scenario.ask(action, job, kill)

    @rule(kill=KILLS)
    def decide(self, kill: int) -> None:
        self.scenario.decide(kill)

    @rule(cluster=CLUSTERS, kill=KILLS)
    def deliver(self, cluster: str, kill: int) -> None:
        self.scenario.deliver(cluster, kill)

    @rule(cluster=CLUSTERS, kill=KILLS)
    def observe(self, cluster: str, kill: int) -> None:
        self.scenario.observe(cluster, kill)

    @rule(
        what=st.sampled_from(["observe", "deliver"]),
        cluster=CLUSTERS,
        request=st.integers(0, 8),
        seconds=st.sampled_from([0, 2, 50]),
    )
    def freeze(self, what: str, cluster: str, request: int, seconds: int) -> None:
        self.scenario.freeze(what, cluster, request, seconds)

    @rule(kill=st.integers(0, 2))
    def post(self, kill: int) -> None:
        self.scenario.post(kill)

    @rule(seconds=st.sampled_from([0, 1, 5, 30, 90]))
    def turn(self, seconds: int) -> None:
        self.scenario.turn(seconds)

    @rule(seconds=st.sampled_from([1, 5, 30, 200]))
    def go_on(self, seconds: int) -> None:  # a second name: Hypothesis leaves some rules out
        self.scenario.turn(seconds)

    @rule(ms=st.sampled_from([100, 700, 3_000, 20_000, 70_000, 400_000]))
    def advance(self, ms: int) -> None:
        self.scenario.advance(ms)

    @rule(cluster=CLUSTERS, deed=st.sampled_from(LEVERS))
    def lever(self, cluster: str, deed: str) -> None:
        self.scenario.lever(cluster, deed)

    @rule(cluster=CLUSTERS, knows=st.sampled_from(["older", "lost", "cold"]), ago_ms=AGO_MS)
    def memory(self, cluster: str, knows: str, ago_ms: int) -> None:
        self.scenario.memory(cluster, knows, ago_ms)

    @rule(cluster=CLUSTERS, deed=st.sampled_from(NODES), node=st.integers(0, 3), ms=AGO_MS)
    def node(self, cluster: str, deed: str, node: int, ms: int) -> None:
        self.scenario.node(cluster, deed, node, ms)

    @rule(
        cluster=CLUSTERS,
        kind=st.sampled_from(WIRE),
        method=st.sampled_from(["GET", "POST", "DELETE", ""]),
        times=st.integers(1, 3),
        ms=st.sampled_from([500, 15_000, 45_000]),
    )
    def wire(self, cluster: str, kind: str, method: str, times: int, ms: int) -> None:
        self.scenario.wire(cluster, kind, method, times, ms)

    @rule(
        cluster=CLUSTERS,
        deed=st.sampled_from(["foreign/add", "foreign/ambush"]),
        nodes=st.integers(1, 4),
        seconds=st.sampled_from([10, 100, 1000]),
    )
    def foreign(self, cluster: str, deed: str, nodes: int, seconds: int) -> None:
        self.scenario.foreign(cluster, deed, nodes, seconds)

    @rule(
        cluster=CLUSTERS,
        attempt=NUMBERS,
        user=st.sampled_from(["", "mia", "otto"]),
        seconds=st.sampled_from([10, 1000]),
    )
    def copy(self, cluster: str, attempt: int, user: str, seconds: int) -> None:
        self.scenario.copy(cluster, attempt, user, seconds)

    @rule(cluster=CLUSTERS, deed=st.sampled_from(HAND), job=NUMBERS, value=st.integers(0, 60))
    def operator(self, cluster: str, deed: str, job: int, value: int) -> None:
        self.scenario.operator(cluster, deed, job, value)

    @rule(
        cluster=CLUSTERS,
        deed=st.sampled_from(["slurmdbd/lag", "slurmdbd/lose", "slurmdbd/freeze"]),
        attempt=NUMBERS,
        ms=st.sampled_from([0, 5_000, 50_000]),
    )
    def accounting(self, cluster: str, deed: str, attempt: int, ms: int) -> None:
        self.scenario.accounting(cluster, deed, attempt, ms)

    @rule(cluster=CLUSTERS, ms=st.sampled_from([-90_000, -1_500, 1_500, 600_000]))
    def jump(self, cluster: str, ms: int) -> None:
        self.scenario.jump(cluster, ms)

    @rule(
        cluster=CLUSTERS,
        deed=st.sampled_from(["active", "active", "draining", "cut_off", "rotate"]),
        kill=st.integers(0, 1),
    )
    def admin(self, cluster: str, deed: str, kill: int) -> None:
        self.scenario.admin(cluster, deed, kill)

    @invariant()
    def holds(self) -> None:
        self.failed = True
        self.scenario.check()
        for count in self.counters:
            count()
        self.failed = False

    def teardown(self) -> None:
        try:
            if not self.failed:
                self.scenario.quiet()
        finally:
            self.scenario.close()


class TwoWorldsMachine(ScenarioMachine):
    """The same, where one of the two clusters is Volcano's."""

    furniture = Furniture()
    has_pods = True

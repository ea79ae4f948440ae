"""The scenario machine: Hypothesis draws the steps of `Scenario`, and shrinks what fails."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simulator.faults import KINDS
from tests.scenario.house import Furniture
from tests.scenario.scenario import Scenario

CLUSTERS = st.sampled_from(["aurora", "borealis"])
# Mostly nobody dies; a turn has at most a dozen writes or so.
KILLS = st.one_of(st.just(0), st.integers(0, 12))
NUMBERS = st.integers(0, 40)
WIRE = sorted(KINDS)
AGO_MS = st.sampled_from([1_000, 20_000, 300_000])


class ScenarioMachine(RuleBasedStateMachine):
    """Random submits, cancels, edits, faults and kills in virtual time; then quiet."""

    furniture = Furniture()
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.scenario = Scenario(self.furniture)
        self.failed = True  # until a step ends well

    @rule(
        nodes=st.sampled_from([1, 1, 2, 3, 4, 6]),
        seconds=st.sampled_from([1, 5, 20, 60, 200, 600]),
        exit_code=st.sampled_from([0, 0, 0, 3]),
        restarts=st.integers(0, 3),
        kill=st.integers(0, 1),
    )
    def submit(self, **step: int) -> None:
        self.scenario.submit(**step)

    @rule(
        action=st.sampled_from(["cancel", "hold", "release", "edit"]),
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

    @rule(ms=st.sampled_from([100, 700, 3_000, 20_000, 70_000, 400_000]))
    def advance(self, ms: int) -> None:
        self.scenario.advance(ms)

    @rule(
        cluster=CLUSTERS,
        deed=st.sampled_from(
            [
                "slurmctld/down",
                "slurmctld/up",
                "slurmdbd/down",
                "slurmdbd/up",
                "scheduling/pause",
                "scheduling/resume",
                "faults/clear",
                "foreign/remove",
            ]
        ),
    )
    def lever(self, cluster: str, deed: str) -> None:
        self.scenario.control(cluster, deed)

    @rule(
        cluster=CLUSTERS,
        deed=st.sampled_from(["nodes/down", "nodes/up", "nodes/drain", "nodes/undrain"]),
        node=st.integers(0, 3),
    )
    def node(self, cluster: str, deed: str, node: int) -> None:
        self.scenario.node(cluster, deed, node)

    @rule(
        cluster=CLUSTERS,
        kind=st.sampled_from(WIRE),
        method=st.sampled_from(["GET", "POST", "DELETE", ""]),
        times=st.integers(1, 3),
        ms=st.sampled_from([500, 15_000, 45_000]),
    )
    def wire(self, cluster: str, kind: str, method: str, times: int, ms: int) -> None:
        self.scenario.wire(cluster, kind, method, times, ms)

    @rule(cluster=CLUSTERS, nodes=st.integers(1, 4), seconds=st.sampled_from([10, 100, 1000]))
    def foreign(self, cluster: str, nodes: int, seconds: int) -> None:
        self.scenario.foreign(cluster, nodes, seconds)

    @rule(cluster=CLUSTERS, attempt=NUMBERS)
    def late_copy(self, cluster: str, attempt: int) -> None:
        self.scenario.late_copy(cluster, attempt)

    @rule(
        cluster=CLUSTERS,
        deed=st.sampled_from(
            ["jobs/cancel", "jobs/requeue", "jobs/hold", "jobs/release", "nodes/fail_under"]
        ),
        job=NUMBERS,
    )
    def operator(self, cluster: str, deed: str, job: int) -> None:
        self.scenario.operator(cluster, deed, job)

    @rule(cluster=CLUSTERS, job=NUMBERS, minutes=st.sampled_from([1, 5, 60]))
    def time_limit(self, cluster: str, job: int, minutes: int) -> None:
        self.scenario.operator(cluster, "jobs/time_limit", job, minutes=minutes)

    @rule(cluster=CLUSTERS, deed=st.sampled_from(["nodes/blink", "nodes/silent"]), ms=AGO_MS)
    def blink(self, cluster: str, deed: str, ms: int) -> None:
        self.scenario.control(cluster, deed, nodes=f"{cluster}-n[000-002]", ms=ms)

    @rule(cluster=CLUSTERS, ms=st.sampled_from([0, 5_000, 50_000]))
    def lag(self, cluster: str, ms: int) -> None:
        self.scenario.control(cluster, "slurmdbd/lag", ms=ms)

    @rule(cluster=CLUSTERS)
    def restart(self, cluster: str) -> None:
        self.scenario.control(cluster, "slurmctld/restart")

    @rule(cluster=CLUSTERS)
    def forget_finished(self, cluster: str) -> None:
        self.scenario.control(cluster, "slurmctld/forget_finished")

    @rule(cluster=CLUSTERS, times=st.integers(1, 2))
    def ambush(self, cluster: str, times: int) -> None:
        self.scenario.control(cluster, "foreign/ambush", times=times, seconds=100)

    @rule(cluster=CLUSTERS, ms=AGO_MS)
    def older(self, cluster: str, ms: int) -> None:
        self.scenario.forget(cluster, "slurmctld/restart", knows="older", ago_ms=ms)

    @rule(cluster=CLUSTERS, cold=st.booleans())
    def wipe(self, cluster: str, cold: bool) -> None:
        self.scenario.forget(cluster, "slurmctld/restart", knows="lost", cold=cold)

    @rule(cluster=CLUSTERS, ms=st.sampled_from([-90_000, -1_500, 1_500, 600_000]))
    def jump(self, cluster: str, ms: int) -> None:
        self.scenario.control(cluster, "clock/jump", ms=ms)

    @invariant()
    def holds(self) -> None:
        self.failed = True
        type(self).steps += 1
        self.scenario.check()
        self.failed = False

    def teardown(self) -> None:
        try:
            if not self.failed:
                self.scenario.quiet()
        finally:
            self.scenario.close()

"""The machines that draw what happens to a tree of tenants; Hypothesis shrinks what fails."""

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.federation.core.build import NOW_MS
from tests.quotas.tree import live
from tests.quotas.tree.virtual import FLEET, NODES, TENANTS, VirtualTree
from tests.scenario.machine import ScenarioMachine

TENANT = st.sampled_from(TENANTS)
NUMBERS = st.integers(0, 20)
CLUSTER = st.sampled_from([name for name, _ in FLEET])
ON = st.sampled_from(["", "", "", "c1"])
LIMIT = st.sampled_from([-1, -1, 0, 4, 8, 16])
CLASSES = st.sampled_from(["auto", "auto", "guaranteed", "spot"])
MOSTLY = st.sampled_from([True, True, True, False])  # else little goes on
PRIORITIES = st.sampled_from([500, 500, 100, 900])


class VirtualTreeMachine(RuleBasedStateMachine):
    """Random arrivals, ends, failures, edits, moves, grants and faults in memory; then quiet."""

    counters: ClassVar[list[Callable[[], object]]] = []  # each is called after every step

    def __init__(self) -> None:
        super().__init__()
        self.tree = VirtualTree()
        self.failed = True  # until a step ends well

    @property
    def moment(self) -> str:
        """Its time, for people."""
        return f"{self.tree.facts.now_ms - NOW_MS} ms"

    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.tree = VirtualTree(seed)

    @rule(
        tenant=TENANT,
        gang=st.sampled_from(["1x2", "1x8", "1x8", "2x8", "2x4", "4x8"]),
        wanted=CLASSES,
        priority=PRIORITIES,
        ticks=st.sampled_from([1, 3, 20]),
        tier=st.sampled_from(["", "", "leaf"]),
    )
    def arrive(self, **step: Any) -> None:
        self.tree.arrive(**step)

    @rule(
        tenant=TENANT,
        gang=st.sampled_from(["1x8", "2x8"]),
        wanted=st.sampled_from(["auto", "guaranteed"]),
        priority=PRIORITIES,
        ticks=st.sampled_from([20, 60]),
    )
    def own(self, **step: Any) -> None:  # more names: Hypothesis leaves some rules out
        self.tree.arrive(**step)

    @rule(
        tenant=TENANT,
        gang=st.sampled_from(["1x8", "2x4"]),
        wanted=st.sampled_from(["auto", "spot"]),
        priority=st.sampled_from([100, 500, 900]),
        ticks=st.sampled_from([20, 60]),
    )
    def borrow(self, **step: Any) -> None:
        self.tree.arrive(**step)

    @rule(seed=st.integers(0, 1000))
    def rush(self, seed: int) -> None:
        self.tree.rush(seed)

    @rule(seed=st.integers(0, 1000))
    def crowd(self, seed: int) -> None:
        self.tree.rush(seed)

    @rule(number=NUMBERS, fails=st.booleans())
    def end(self, number: int, fails: bool) -> None:
        self.tree.end(number, fails)

    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        self.tree.cancel(number)

    @rule(
        tenant=TENANT,
        guaranteed=st.sampled_from([0, 4, 8, 16, 24, 40]),
        borrowing=LIMIT,
        lending=LIMIT,
        on=ON,
    )
    def quota(self, **step: Any) -> None:
        self.tree.quota(**step)

    @rule(tenant=TENANT, on=ON)
    def forget(self, tenant: str, on: str) -> None:
        self.tree.forget(tenant, on)

    @rule(
        tenant=TENANT,
        gpus=st.sampled_from([4, 8, 16]),
        begins=st.integers(0, 10),
        lasts=st.integers(1, 40),
    )
    def grant(self, **step: Any) -> None:
        self.tree.grant(**step)

    @rule(tenant=TENANT, under=TENANT)
    def move(self, tenant: str, under: str) -> None:
        self.tree.move(tenant, under)

    @rule(tenant=TENANT, is_open=MOSTLY)
    def close(self, tenant: str, is_open: bool) -> None:
        self.tree.close(tenant, is_open)

    @rule(
        min_run=st.sampled_from([0, 2, 20]),
        most=st.sampled_from([0, 1, 4]),
        cool_down=st.sampled_from([0, 2, 100]),
    )
    def policy(self, **step: Any) -> None:
        self.tree.policy(**step)

    @rule(number=st.integers(0, len(NODES) - 1), up=MOSTLY)
    def node(self, number: int, up: bool) -> None:
        self.tree.node(number, up)

    @rule(number=st.integers(0, len(NODES) - 1), gpus=st.sampled_from([0, 0, 0, 2, 8]))
    def foreign(self, number: int, gpus: int) -> None:
        self.tree.foreign(number, gpus)

    @rule(name=CLUSTER, is_open=MOSTLY)
    def drain(self, name: str, is_open: bool) -> None:
        self.tree.drain(name, is_open)

    @rule(times=st.sampled_from([1, 1, 2, 5]))
    def tick(self, times: int) -> None:
        self.tree.tick(times)

    @rule(times=st.sampled_from([1, 10]))
    def go_on(self, times: int) -> None:
        self.tree.tick(times)

    @invariant()
    def holds(self) -> None:
        self.failed = True
        self.tree.check()
        self.tree.tick()
        for count in self.counters:
            count()
        self.failed = False

    def teardown(self) -> None:
        if not self.failed:
            self.tree.quiet()


TEAM = st.sampled_from(live.TENANTS)
KILL = st.sampled_from([0, 0, 0, 1])


class LiveTreeMachine(ScenarioMachine):
    """All that happens in a scenario, and what happens to its tree; then quiet."""

    furniture = live.TreeFurniture()
    counters: ClassVar[list[Callable[[], object]]] = []

    def make(self) -> live.LiveTree:
        self.tree = live.LiveTree(self.furniture)
        return self.tree

    @rule(
        tenant=TEAM,
        wanted=CLASSES,
        nodes=st.sampled_from([1, 1, 2, 3, 4]),
        seconds=st.sampled_from([20, 200, 1200]),
        saves=st.sampled_from([None, 2]),
        priority=PRIORITIES,
        kill=KILL,
    )
    def come(self, **step: Any) -> None:
        self.tree.come(**step)

    @rule(
        tenant=TEAM,
        wanted=st.sampled_from(["auto", "spot"]),
        nodes=st.sampled_from([1, 2]),
        seconds=st.sampled_from([600, 1700]),
        saves=st.sampled_from([None, 2, 90]),
        priority=st.sampled_from([100, 500, 900]),
    )
    def borrow(self, **step: Any) -> None:
        self.tree.come(**step)

    @rule(
        tenant=TEAM,
        guaranteed=st.sampled_from([0, 8, 16, 48, 64]),
        borrowing=LIMIT,
        lending=LIMIT,
        kill=KILL,
    )
    def quota(self, **step: Any) -> None:
        self.tree.quota(**step)

    @rule(tenant=TEAM, kill=KILL)
    def forget(self, tenant: str, kill: int) -> None:
        self.tree.forget(tenant, kill)

    @rule(
        tenant=TEAM,
        gpus=st.sampled_from([8, 16]),
        begins=st.sampled_from([0, 60]),
        lasts=st.sampled_from([60, 600, 3600]),
        kill=st.sampled_from([0, 0, 1, 2]),
    )
    def grant(self, **step: Any) -> None:
        self.tree.grant(**step)

    @rule(tenant=TEAM, under=TEAM, kill=KILL)
    def move(self, tenant: str, under: str, kill: int) -> None:
        self.tree.move(tenant, under, kill)

    @rule(tenant=TEAM, is_open=st.sampled_from([True, True, False]), kill=KILL)
    def close_tenant(self, tenant: str, is_open: bool, kill: int) -> None:
        self.tree.close_tenant(tenant, is_open, kill)

    @rule(
        min_run=st.sampled_from([0, 60, 600]),
        most=st.sampled_from([0, 1, 4]),
        cool_down=st.sampled_from([0, 60, 3600]),
    )
    def policy(self, **step: Any) -> None:
        self.tree.policy(**step)

    @rule(seconds=st.sampled_from([5, 61, 200]))
    def later(self, seconds: int) -> None:  # one more turn, as most of a scenario is waiting
        self.scenario.turn(seconds)

"""A tree of tenants over a small federation in memory: what can happen to it, step by step.

Every step takes plain numbers and words, so that its printed form runs.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from federation.core.plan import Plan
from federation.core.snapshot import ClusterState, Holding, Snapshot, TenantView
from quotas.core.cohort import GUARANTEED, SPOT, QuotaRow
from quotas.core.grants import Grant, first_misfits, rows_at
from quotas.core.policy import Policy
from tests.federation.core.build import cluster, held, job, need, node, quota, snapshot, uid
from tests.federation.core.house import TICK_MS, House
from tests.quotas.tree.claims import check_claims, starts
from tests.quotas.tree.laws import check_moment, check_nodes, check_plan, check_twice

FLAVOR = "h100"
FLEET = (("c1", 4), ("c2", 2))
NODES = [(name, f"{name}n{number}") for name, count in FLEET for number in range(count)]
TREE = {"a": "", "b": "", "x": "a", "y": "a", "z": "b", "p": "x"}  # names and their parents
TENANTS = tuple(TREE)
FIRST = {"a": 24, "b": 8, "x": 8, "z": 4}  # guaranteed
QUIET_TICKS = 600
CROWD = 12  # jobs that are there at the beginning
RUSH = 4  # jobs that come at once
MANY = 20  # with so many that wait, no rush comes: each cycle would cost more, and say no more
OFTEN = 0.1  # of all plans is every law tried; the costly ones of the others are not


class VirtualTree:
    """The house, its tree, and how they change; what the services would refuse is refused."""

    def __init__(self, seed: int = 0) -> None:
        fleet = [
            cluster(name, {FLAVOR: [node(n, f"{n[:-1]}l{int(n[-1]) // 2}") for c, n in NODES if c == name]})
            for name, _ in FLEET
        ]  # fmt: skip
        self.house = House(snapshot([], fleet, tenants=(), quotas=()), {})
        self.parents: dict[str, str] = dict(TREE)
        self.closed: set[str] = set()
        self.rows: dict[tuple[str, str], QuotaRow] = {
            (name, ""): quota(name, gpus) for name, gpus in FIRST.items()
        }
        self.grants: list[Grant] = []
        self.jobs = 0
        self._random = Random(seed)  # noqa: S311 - no secret
        self._crowd()

    def _crowd(self) -> None:
        """A policy, what owners lend, and some jobs that stay for long and may be evicted."""
        pick = self._random.choice
        for place, row in self.rows.items():
            self.rows[place] = replace(row, lending_limit=pick([None, None, 0, 4]))
        self._settle()
        self.policy(pick([0, 2, 20]), 4, pick([0, 2, 100]))
        self._come(CROWD, self._random)

    @property
    def facts(self) -> Snapshot:
        """As of the last tick, with what was changed since."""
        return self.house.facts

    def check(self) -> None:
        """What holds at every moment."""
        check_moment(self.facts)
        check_nodes(self.facts)

    # jobs

    def arrive(
        self, tenant: str, gang: str, wanted: str, priority: int, ticks: int, tier: str = ""
    ) -> None:
        """A job comes, and would run for so many ticks."""
        self.jobs += 1
        one = job(
            self.jobs,
            gang,
            tenant=tenant,
            flavors=FLAVOR,
            wanted=wanted,
            priority=priority,
            required_tier=tier,
        )
        self.house.runs_ms[one.id] = ticks * TICK_MS
        self._change(jobs=(*self.facts.jobs, one._replace(queued_ms=self.facts.now_ms)))

    def rush(self, seed: int) -> None:
        """Several jobs come at once, unless many wait."""
        if len(self.facts.jobs) < MANY:
            self._come(RUSH, Random(seed))  # noqa: S311 - no secret

    def _come(self, jobs: int, random: Random) -> None:
        pick = random.choice
        for _ in range(jobs):
            self.arrive(
                pick(TENANTS),
                pick(["1x4", "1x8", "1x8", "2x8"]),
                pick(["auto", "auto", "spot"]),
                pick([100, 500, 900]),
                pick([20, 60]),
            )

    def end(self, number: int, fails: bool) -> None:
        """A gang is over before its time; one that failed waits again at its old place."""
        if gang := self._gang(number):
            self._lose([gang], requeued=fails)

    def cancel(self, number: int) -> None:
        """A job that waits is taken back."""
        if self.facts.jobs:
            gone = self.facts.jobs[number % len(self.facts.jobs)]
            self.house.disturb()
            self._change(jobs=tuple(one for one in self.facts.jobs if one is not gone))

    # the tree

    def quota(
        self, tenant: str, guaranteed: int, borrowing: int, lending: int, on: str = ""
    ) -> None:
        """A row is set, below 0 = no limit; what does not fit is refused."""
        limits = [None if limit < 0 else limit for limit in (borrowing, lending)]
        lends = None if limits[1] is None else min(limits[1], guaranteed)
        row = replace(quota(tenant, guaranteed, limits[0], on=on or None), lending_limit=lends)
        self._try(rows={**self.rows, (tenant, on): row})

    def forget(self, tenant: str, on: str = "") -> None:
        """A row is taken away."""
        self._try(rows={place: row for place, row in self.rows.items() if place != (tenant, on)})

    def grant(self, tenant: str, gpus: int, begins: int, lasts: int) -> None:
        """A tenant with a row is granted more, from so many ticks on for so many."""
        if (tenant, "") in self.rows:
            start_ms = self.facts.now_ms + begins * TICK_MS
            new = Grant(uid(tenant), FLAVOR, gpus, start_ms, start_ms + lasts * TICK_MS)
            self._try(grants=[*self.grants, new])

    def move(self, tenant: str, under: str) -> None:
        """A tenant goes below another with all below it."""
        if tenant not in _way(self.parents, under) and self.parents[tenant]:
            self._try(parents={**self.parents, tenant: under})

    def close(self, tenant: str, is_open: bool) -> None:
        """A tenant is closed with all below it, or opened again."""
        self.closed = self.closed - {tenant} if is_open else self.closed | {tenant}
        self.house.disturb()
        self._settle()

    def policy(self, min_run: int, most: int, cool_down: int) -> None:
        """Another policy, in ticks."""
        policy = Policy(
            min_run_ms=min_run * TICK_MS, most_evictions=most, cool_down_ms=cool_down * TICK_MS
        )
        self._change(policy=policy)

    def _try(
        self,
        *,
        rows: Mapping[tuple[str, str], QuotaRow] | None = None,
        grants: list[Grant] | None = None,
        parents: Mapping[str, str] | None = None,
    ) -> None:
        rows = self.rows if rows is None else rows
        grants = self.grants if grants is None else grants
        parents = self.parents if parents is None else parents
        lineages = {one.id: one.lineage for one in _tenants(parents, set())}
        if not first_misfits([*rows.values()], grants, lineages, self.facts.now_ms)[1]:
            self.rows, self.grants, self.parents = dict(rows), grants, dict(parents)
            self.house.disturb()
            self._settle()

    # the fleet

    def node(self, number: int, up: bool) -> None:
        """A node goes, with the gangs on it, or comes back."""
        name, gone = NODES[number % len(NODES)]
        if not up:
            self._lose([one for one in self.facts.holdings if gone in one.nodes], requeued=True)
        self._change_node(name, gone, usable=up)

    def foreign(self, number: int, gpus: int) -> None:
        """Others' load comes to a node, as far as it is idle, or goes."""
        name, there = NODES[number % len(NODES)]
        used = sum(one.shape.per_node.gpus for one in self.facts.holdings if there in one.nodes)
        self._change_node(name, there, foreign=need(min(gpus, 8 - used)))

    def drain(self, name: str, is_open: bool) -> None:
        """A cluster takes nothing new any more, or does again."""
        state = ClusterState.OPEN if is_open else ClusterState.DRAINING
        self.house.disturb()
        self._change(
            clusters=tuple(
                replace(one, state=state) if one.name == name else one
                for one in self.facts.clusters
            )
        )

    def _change_node(self, name: str, there: str, **changes: object) -> None:
        self.house.disturb()
        clusters = []
        for one in self.facts.clusters:
            (flavor,) = one.flavors
            if one.name == name:
                nodes = tuple(
                    replace(n, **changes) if n.name == there else n  # type: ignore[arg-type]
                    for n in flavor.nodes
                )
                one = replace(one, flavors=(replace(flavor, nodes=nodes),))
            clusters.append(one)
        self._change(clusters=tuple(clusters))

    # time

    def tick(self, times: int = 1) -> None:
        """Time passes, and a cycle decides; the laws hold of each."""
        for _ in range(times):
            plan = self._pass()
            check_plan(plan)
            if plan.claims or self._random.random() < OFTEN:
                check_claims(plan)
            if self._random.random() < OFTEN:
                check_twice(plan, self._random)

    def _pass(self) -> Plan:
        at_ms = self.facts.now_ms + TICK_MS
        rows = rows_at(self.rows.values(), self.grants, at_ms)
        if rows != self.facts.quotas:
            self.house.disturb()
            self._change(quotas=rows)
        return self.house.tick()

    def quiet(self) -> None:
        """All is open and up again, nobody comes: what can ever start has run (invariant 9)."""
        for number in range(len(NODES)):
            self.node(number, up=True)
            self.foreign(number, 0)
        for name, _ in FLEET:
            self.drain(name, is_open=True)
        for tenant in TENANTS:
            self.close(tenant, is_open=True)
        ticks = iter(range(QUIET_TICKS))
        while self._pass().bindings or self.facts.holdings:
            assert next(ticks, None) is not None, "it never comes to rest"
            self._skip()
        able = [
            (waiting.id, service_class)
            for waiting in self.facts.jobs
            for service_class in (GUARANTEED, SPOT)
            if starts(self.facts, [], waiting, service_class)
        ]
        assert not able, "who could have started waits for ever"

    def _skip(self) -> None:
        """On to the tick at which the next gang is over, when nobody leaves or is waited for."""
        facts, runs_ms = self.facts, self.house.runs_ms
        if facts.reservations or any(one.leaves for one in facts.holdings):
            return
        ends_ms = [(one.started_ms or 0) + runs_ms[one.job] for one in facts.holdings]
        soon_ms = min(ends_ms, default=0) - TICK_MS
        if soon_ms > facts.now_ms:
            self._change(now_ms=soon_ms)

    # all of it

    def _gang(self, number: int) -> Holding | None:
        gangs = sorted(self.facts.holdings, key=lambda one: one.job)
        return gangs[number % len(gangs)] if gangs else None

    def _lose(self, gangs: list[Holding], *, requeued: bool) -> None:
        gone = {one.job for one in gangs}
        back = [self.house.waiting[key] for key in gone] if requeued else []
        for key in gone:
            self.house.told.pop(key, None)
        stay = [one for one in self.facts.holdings if one.job not in gone]
        self.house.facts = held(replace(self.facts, jobs=(*self.facts.jobs, *back)), stay)

    def _settle(self) -> None:
        """The core's values of the tree as it is now."""
        self._change(
            tenants=_tenants(self.parents, self.closed),
            quotas=rows_at(self.rows.values(), self.grants, self.facts.now_ms),
        )

    def _change(self, **changes: object) -> None:
        facts = replace(self.facts, **changes)  # type: ignore[arg-type]
        self.house.facts = held(facts, facts.holdings)


def _way(parents: Mapping[str, str], name: str) -> list[str]:
    """From the root to the tenant."""
    return [*(_way(parents, parents[name]) if parents[name] else []), name]


def _tenants(parents: Mapping[str, str], closed: set[str]) -> tuple[TenantView, ...]:
    return tuple(
        TenantView(
            uid(name),
            "/".join(_way(parents, name)),
            tuple(uid(one) for one in _way(parents, name)),
            is_open=name not in closed,
        )
        for name in parents
    )

"""Turns: fair shares between tenants along the tree, aging within one."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import exp, log
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.lines import Line, by_tenant
from federation.core.ordering import Turns, rank
from federation.core.snapshot import WaitingJob
from kit.intervals import DAY_MS
from quotas.core.fair_share import GRANTED, Shares, window_ms
from quotas.core.policy import Policy
from tests.federation.core.build import HOUR_MS, NOW_MS, job, tenants, uid

HALF_LIFE_MS = 2 * DAY_MS
GPUS = 90


def lineages(*paths: str) -> dict[UUID, tuple[UUID, ...]]:
    return {tenant.id: tenant.lineage for tenant in tenants(*paths)}


class Anybody:
    """Somebody who gives up nobody."""

    changes = 0

    def gives_up(self, _: WaitingJob) -> bool:
        return False


ANYBODY = Anybody()


def lines_of(jobs: Iterable[WaitingJob]) -> Iterator[Line]:
    for tenant, waits in by_tenant(jobs, Policy(), NOW_MS).items():
        yield Line(tenant, waits)


class Fleet:
    """90 GPUs in slots of an hour; whoever is there always wants more than there is."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self.weights = weights
        self.lineages = lineages(*weights)
        self.decayed: Counter[str] = Counter()

    def hour(self, present: Callable[[str], bool] = lambda _: True) -> Counter[str]:
        """Who gets how many of the GPUs; then an hour passes."""
        window = window_ms(HALF_LIFE_MS)
        shares = Shares(
            self.lineages,
            {(uid(path), "h100"): round(used) for path, used in self.decayed.items()},
            lendable={"h100": GPUS * window},
            weights={(uid(path), "h100"): weight for path, weight in self.weights.items()},
        )
        names = {uid(path): path for path in self.weights}
        jobs = [
            job(1000 * place + n, "1x1", tenant=path)
            for place, path in enumerate(self.weights)
            if present(path)
            for n in range(GPUS)
        ]
        got: Counter[str] = Counter()
        for line in Turns(lines_of(jobs), self.lineages, shares):
            line.take(ANYBODY)
            got[names[line.tenant]] += 1
            shares.add(line.tenant, "h100", window // GRANTED)
            if got.total() == GPUS:
                break
        for path in self.weights:
            self.decayed[path] = self.decayed[path] * exp(-log(2) * HOUR_MS / HALF_LIFE_MS)
            self.decayed[path] += got[path] * HOUR_MS
        return got


def test_weights_of_one_and_two_converge_to_one_and_two() -> None:
    fleet = Fleet({"acme": 1, "beta": 2})
    for _ in range(48):
        fleet.hour()
    total: Counter[str] = sum((fleet.hour() for _ in range(48)), Counter())
    assert total["beta"] / total["acme"] == pytest.approx(2, rel=0.02)
    assert fleet.decayed["beta"] / fleet.decayed["acme"] == pytest.approx(2, rel=0.02)


def test_also_after_one_was_away_for_a_day() -> None:
    fleet = Fleet({"acme": 1, "beta": 2})
    for _ in range(48):
        fleet.hour()
    for _ in range(24):
        assert fleet.hour(lambda path: path == "acme") == {"acme": GPUS}
    assert fleet.hour()["beta"] > 2 * GPUS / 3  # it catches up
    for _ in range(24 * 7):
        fleet.hour()
    total: Counter[str] = sum((fleet.hour() for _ in range(48)), Counter())
    assert total["beta"] / total["acme"] == pytest.approx(2, rel=0.02)


def test_teams_share_what_their_organisation_gets() -> None:
    fleet = Fleet({"acme/a": 1, "acme/b": 2, "beta/only": 1})
    total: Counter[str] = sum((fleet.hour() for _ in range(24 * 6)), Counter())
    assert total["beta/only"] / total.total() == pytest.approx(1 / 2, rel=0.02)
    assert total["acme/b"] / total["acme/a"] == pytest.approx(2, rel=0.02)


def test_the_dominant_flavor_counts() -> None:
    used = {
        (uid("acme"), "h100"): 10, (uid("acme"), "a100"): 50,
        (uid("beta"), "h100"): 20, (uid("beta"), "a100"): 20,
    }  # fmt: skip
    shares = Shares(lineages("acme", "beta"), used, lendable={"h100": 100, "a100": 1000})
    assert shares.of(uid("acme")) < shares.of(uid("beta"))  # 10 % and 20 % of the H100s


def order(jobs: list[WaitingJob], policy: Policy) -> list[int]:
    (line,) = by_tenant(jobs, policy, NOW_MS).values()
    return [one.id for one in line]


def test_priority_then_age() -> None:
    jobs = [job(1, age=5), job(2, age=9), job(3, priority=501)]
    assert order(jobs, Policy(aging_ms=0)) == [3, 2, 1]


def test_waiting_makes_up_for_priority() -> None:
    day_s = DAY_MS // 1000
    young = job(2, priority=500, age=60)
    assert order([job(1, priority=100, age=3 * day_s), young], Policy()) == [2, 1]
    assert order([job(1, priority=100, age=5 * day_s), young], Policy()) == [1, 2]


def test_the_queue_interleaves_by_what_each_would_get() -> None:
    jobs = [
        *(job(n, "2x8", tenant="acme") for n in (1, 2)),
        *(job(n, "1x8", tenant="beta", age=1) for n in (3, 4, 5)),
    ]
    shares, lines = Shares(lineages("acme", "beta"), {}), by_tenant(jobs, Policy(), NOW_MS)
    assert rank(lines, lineages("acme", "beta"), shares) == (3, 1, 4, 5, 2)
    assert rank(lines, lineages("acme", "beta"), shares, {1, 4}) == (3, 2, 5)


def _turn_by_turn(
    jobs: Iterable[WaitingJob], lineages_of: Mapping[UUID, tuple[UUID, ...]], shares: Shares
) -> tuple[int, ...]:
    """The definition: each one that gets its turn is granted its first option."""
    order = []
    for line in Turns(lines_of(jobs), lineages_of, shares):
        served = line.take(ANYBODY)
        assert served is not None
        order.append(served.id)
        option = served.ask.options[0]
        shares.grant(served.tenant, option.flavor, option.shape.gpus)
    return tuple(order)


TREE = ("acme", "acme/a", "acme/a/x", "acme/b", "beta", "beta/c")
AMOUNTS = st.dictionaries(
    st.tuples(st.sampled_from(TREE), st.sampled_from(["h100", "a100"])), st.integers(1, 60)
)
WAITING = st.lists(
    st.tuples(
        st.sampled_from(TREE),
        st.sampled_from(["1x1", "1x8", "2x8"]),
        st.sampled_from(["h100", "a100"]),
        st.sampled_from([100, 500]),
        st.integers(0, 4),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(AMOUNTS, AMOUNTS, st.dictionaries(st.sampled_from(["h100", "a100"]), st.integers(1, 90)),
       WAITING)  # fmt: skip
def test_ranking_is_taking_turns(
    used: Mapping[tuple[str, str], int],
    weights: Mapping[tuple[str, str], int],
    lendable: Mapping[str, int],
    rows: list[tuple[str, str, str, int, int]],
) -> None:
    jobs = [
        job(n, gang, tenant=tenant, flavors=flavor, priority=priority, age=age)
        for n, (tenant, gang, flavor, priority, age) in enumerate(rows, start=1)
    ]

    def shares() -> Shares:
        return Shares(
            lineages(*TREE),
            {(uid(tenant), flavor): amount for (tenant, flavor), amount in used.items()},
            lendable={flavor: gpus * 2 for flavor, gpus in lendable.items()},
            weights={(uid(tenant), flavor): weight for (tenant, flavor), weight in weights.items()},
            a_gpu=2,
        )

    lines, known = by_tenant(jobs, Policy(), NOW_MS), shares()
    assert rank(lines, lineages(*TREE), known) == _turn_by_turn(jobs, lineages(*TREE), shares())
    assert rank(lines, lineages(*TREE), known) == rank(lines, lineages(*TREE), shares())

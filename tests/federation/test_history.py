"""Our own past as a workload: what a job's runs count for, and the federation at rest."""

import random
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from clusters.models import Cluster, Node
from federation.core.replay import replay
from federation.core.replay.history import SAVES_EACH_MS, PastRun, work_ms
from federation.core.snapshot import ClusterState
from federation.selectors.history import NEVER_RAN, History, past_jobs, setting_at_rest
from kit.intervals import HOUR_MS
from quotas.selectors import rows_as_set
from tests import make
from tests.federation.past import HOUR, at, attempt, ran
from tests.federation.world import NOW, World

DAY = timedelta(days=1)


def history(now_h: float = 24, from_h: float = 0, until_h: float = 24) -> History:
    return past_jobs(NOW + from_h * HOUR, NOW + until_h * HOUR, NOW + now_h * HOUR)


def hours(found: History) -> dict[int, float]:
    return {job.id: job.run_ms / HOUR_MS for job in found.jobs}


@pytest.mark.django_db
def test_a_job_comes_as_it_came_and_runs_as_it_ran() -> None:
    world = World()
    job = ran(world, (2, 5), came=1, priority=700, wanted_class="spot")
    (past,) = history().jobs
    assert (past.id, past.arrival_ms, past.run_ms) == (job.id, at(1), 3 * HOUR_MS)
    assert (past.tenant, past.priority, past.wanted_class) == (world.tenant.id, 700, "spot")
    (option,) = past.ask.options
    assert (option.flavor, option.shape.gpus) == ("h100-sxm-80", 8)
    assert past.ask.time_limit_ms == HOUR_MS
    assert (past.interval_ms, past.grace_ms) == (SAVES_EACH_MS, 120_000)


@pytest.mark.django_db
def test_how_often_it_saves_is_its_own_and_without_a_checkpoint_never() -> None:
    world = World()
    told, none = ran(world, (2, 3), came=1), ran(world, (2, 3), came=1)
    told.spec["checkpoint"]["interval"] = 600
    told.save()
    none.spec["checkpoint"] = None
    none.save()
    first, second = history().jobs
    assert (first.interval_ms, second.interval_ms, second.grace_ms) == (600_000, None, 0)


@pytest.mark.django_db
def test_what_was_done_once_more_counts_once() -> None:
    world = World()
    lost = ran(world, (1, 3), (4, 9), came=0)
    saved = ran(world, (1, 3), (4, 9), came=0, saved=2.5)
    requeued = ran(world, came=0, state="succeeded", ended_at=NOW + 9 * HOUR)
    attempt(world, requeued, 1, [(1, 2), (3, 6)], saved_at=NOW + 1.5 * HOUR)
    assert hours(history()) == {lost.id: 5, saved.id: 6.5, requeued.id: 3.5}


@pytest.mark.django_db
def test_what_still_runs_ran_until_now_and_what_never_ran_is_left_out() -> None:
    world = World()
    runs = ran(world, (2, None), came=1)
    ran(world, came=1)
    found = history(now_h=12)
    assert hours(found) == {runs.id: 10}
    assert found.left_out == {NEVER_RAN: 1}


@pytest.mark.django_db
def test_the_window_takes_what_waited_or_ran_in_it() -> None:
    world = World()
    ran(world, (1, 4), came=0)  # over before
    crossing = ran(world, (1, 8), came=0)
    inside = ran(world, (6, 9), came=5)
    outside = ran(world, (12, 15), came=9.9)  # came in it, ran after
    ran(world, (11, 12), came=10)  # came as it ended
    late = ran(world, (6, 7), came=2, not_before=NOW + 6 * HOUR)
    found = history(from_h=5, until_h=10)
    assert hours(found) == {crossing.id: 3, inside.id: 3, outside.id: 3, late.id: 1}
    arrivals = {job.id: job.arrival_ms for job in found.jobs}
    assert arrivals == {
        crossing.id: at(5), inside.id: at(5), outside.id: at(9.9), late.id: at(6)
    }  # fmt: skip


@pytest.mark.django_db
def test_equal_asks_are_one_value_and_nodes_to_avoid_are_forgotten() -> None:
    world = World()
    for avoid in ([], [], ["c1/n1"]):
        ran(world, (2, 3), came=1, avoid_nodes=avoid)
    ran(world, (2, 3), came=1, only_clusters=["c1"])
    first, second, third, other = (job.ask for job in history().jobs)
    assert first is second
    assert third == first
    assert third.avoid_nodes == ()
    assert other.only_clusters == ("c1",)


@pytest.mark.django_db
def test_the_fleet_is_at_rest_whatever_it_is_like_now() -> None:
    world = World(clusters=("c1", "c2"))
    Node.objects.filter(cluster=world.clusters["c1"]).update(state="down", foreign_gpus=3)
    Cluster.objects.filter(name="c1").update(state="draining", last_seen_at=None)
    ran(world, (2, None), came=1)
    found = setting_at_rest(rows_as_set(), NOW + DAY)
    assert [view.state for view in found.clusters] == [ClusterState.OPEN] * 2
    nodes = [node for view in found.clusters for node in view.flavors[0].nodes]
    assert len(nodes) == 8
    assert all(node.usable and node.free == node.total for node in nodes)


@pytest.mark.django_db
def test_queries_do_not_grow_with_the_past() -> None:
    world = World()

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            history()
            setting_at_rest(rows_as_set(), NOW + DAY)
        return len(seen)

    for _ in range(3):
        ran(world, (1, 2), (3, 4), came=0)
    before = queries()
    for _ in range(30):
        ran(world, (1, 2), (3, 4), (5, 6), came=0)
        make.tenant(f"acme/t{_}")
    assert queries() == before <= 20


@pytest.mark.django_db
def test_under_the_quotas_that_are_set_as_many_jobs_run_as_ran() -> None:
    world = World()
    for number in range(12):
        spans = [(number, number + 3), (number + 4, number + 6)] if number % 3 else []
        ran(world, *spans, came=number / 2, wanted_class=["auto", "spot", "guaranteed"][number % 3])
    found = history()
    outcome = replay(found.jobs, setting_at_rest(rows_as_set(), NOW + DAY))
    (tenant,) = outcome.tenants
    assert tenant.jobs == tenant.finished == len(found.jobs) == 8
    assert tenant.jobs + sum(found.left_out.values()) == 12
    assert tenant.cost_nano > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.django_db
def test_under_the_same_quotas_no_job_appears_or_is_lost(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - repeatable, no secret
    world, came = World(clusters=("c1", "c2")), 0.0
    for _ in range(25):
        came += rng.random()
        begun, spans = came + rng.random(), []
        for _ in range(rng.choice([0, 1, 1, 1, 3])):
            spans.append((begun, begun + rng.uniform(0.01, 4)))
            begun = spans[-1][1] + rng.random()
        shape = {
            "gpus_per_node": rng.choice([1, 4, 8]),
            "cpus_per_node": 4,
            "memory_mib_per_node": 1,
        }
        ran(
            world, *spans, came=came, saved=begun, priority=rng.choice([100, 500, 900]),
            options=[{"flavor": "h100-sxm-80", "nodes": rng.choice([1, 2, 4]), **shape}],
            wanted_class=rng.choice(["auto", "spot", "guaranteed"]),
        )  # fmt: skip
    found = history()
    outcome = replay(found.jobs, setting_at_rest(rows_as_set(), NOW + DAY))
    (tenant,) = outcome.tenants
    assert tenant.jobs == tenant.finished == len(found.jobs)
    assert tenant.jobs + sum(found.left_out.values()) == 25
    asked = sum(job.run_ms * job.ask.options[0].shape.gpus for job in found.jobs)
    # All that was asked was done, and besides only what evictions lost.
    assert tenant.total_gpu_ms == asked + tenant.lost_gpu_ms


RUN = st.tuples(st.integers(0, 100), st.integers(0, 100), st.none() | st.integers(-50, 250))


@given(st.lists(RUN, max_size=5), st.integers(-10, 300))
def test_no_work_is_counted_twice_and_none_before_the_window(runs: list[Any], since: int) -> None:
    made, clock = [], 0
    for pause, length, saved in runs:
        made.append(PastRun(clock + pause, clock + pause + length, saved))
        clock += pause + length
    counted = work_ms(made, since)
    assert 0 <= counted <= max(0, clock - max(since, 0))
    assert counted <= sum(run.end_ms - run.start_ms for run in made)
    if made:
        assert counted >= max(0, made[-1].end_ms - max(made[-1].start_ms, since))
        assert work_ms(made, -1) >= counted

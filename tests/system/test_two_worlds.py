"""One queue over Slurm and Volcano: a job goes where it can be started, and is billed alike."""

from collections.abc import Iterator
from typing import Any

import pytest

from accounting.models import Transfer, UsageInterval
from clusters.models import Cluster
from clusters.services.fleet import set_state
from federation.models import Attempt, Job
from federation.services.change import cancel_job
from tests.system.test_forward import WAY, events
from tests.world import Simulated, World, like_new, make_world, simulated, utc_now

FLAVOR = "h100-sxm-80"
DEVICES = {"aurora": ("h100", FLAVOR), "delta": ("nvidia.com/gpu:h100", FLAVOR)}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    clusters: dict[str, dict[str, Any]] = {
        "aurora": {"nodes": 8, "gpu_type": "h100"},
        "delta": {"nodes": 8, "gpu_type": "h100", "kind": "volcano"},
    }
    with simulated(tmp_path_factory.mktemp("worlds"), **clusters) as made:
        yield made


@pytest.fixture
def world(fleet: dict[str, Simulated], transactional_db: None) -> World:
    return make_world(like_new(fleet), DEVICES)


def image(seconds: float = 2, exit_code: int = 0) -> dict[str, Any]:
    return {"image": "trainer:1", "command": ["sh", "-c", f"sleep {seconds}\nexit {exit_code}"]}


# Containers get this long to end; played ones take all of it.
BRIEF: dict[str, Any] = {"checkpoint": {"signal": "USR1", "grace": 1}}


def cluster_of(job: Job) -> str:
    return str(Attempt.objects.filter(job=job).latest("number").cluster.name)


def test_each_goes_where_it_can_be_started_with_one_timeline_and_one_ledger(world: World) -> None:
    script = world.submit(nodes=4)
    pods = world.submit(nodes=4, run=image())
    for job, cluster in ((script, "aurora"), (pods, "delta")):
        world.until(job, "succeeded")
        attempt = Attempt.objects.get(job=job)
        assert attempt.cluster.name == cluster
        assert attempt.nodes_seen == attempt.nodes
        assert (attempt.tier, attempt.tier_seen) == ("leaf", "leaf")
        assert [kind for kind, _ in events(job)] == WAY
    world.turn()
    due = 0
    for job in (script, pods):
        interval = UsageInterval.objects.get(job_id=job.uuid)
        assert interval.ended_ms is not None
        held_ms = interval.ended_ms - interval.started_ms
        assert held_ms >= 1000
        due += 2_000_000_000 * 32 * held_ms // 3_600_000
    assert sum(row.amount_nano for row in Transfer.objects.all()) == due


def test_a_container_that_fails_fails_the_job_with_its_exit_code(world: World) -> None:
    job = world.until(world.submit(nodes=2, run=image(1, exit_code=3)), "failed")
    assert "exit code 3" in job.outcome


def test_a_running_gang_is_cancelled_on_volcano(world: World) -> None:
    job = world.until(world.submit(nodes=2, run=image(600), **BRIEF), "running")
    cancel_job(user=world.user, job_id=job.uuid, now=utc_now())
    world.until(job, "cancelled")
    assert UsageInterval.objects.get(job_id=job.uuid).ended_ms is not None


def test_what_comes_as_both_goes_to_the_other_world_when_one_drains(world: World) -> None:
    both = {**image(600), "script": "#!/bin/bash\nsleep 600\n"}
    first = world.until(world.submit(nodes=8, run=both, **BRIEF), "running")
    waits = world.submit(nodes=8, run=both, **BRIEF)
    there = cluster_of(first)
    world.until(waits, "running")
    other = cluster_of(waits)
    assert {there, other} == {"aurora", "delta"}
    cluster = Cluster.objects.get(name=there)
    set_state(actor=None, cluster=cluster, state=Cluster.State.DRAINING, now=utc_now())
    third = world.submit(nodes=8, run=both, **BRIEF)
    world.turn()
    third.refresh_from_db()
    assert {(one["cluster"], one["code"]) for one in third.reasons} == {
        (there, "cluster_draining"),
        (other, "no_capacity"),
    }
    cancel_job(user=world.user, job_id=waits.uuid, now=utc_now())
    world.until(third, "running")
    assert cluster_of(third) == other

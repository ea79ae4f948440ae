"""What a cluster takes back, or forgets; and its accounting, away or behind."""

from collections.abc import Iterator

import pytest

from accounting.models import UsageInterval
from clusters.services.probe import probe_cluster
from federation.models import Attempt, Job
from tests.stack import eventually
from tests.world import Simulated, World, like_new, make_world, simulated, utc_now

PATIENCE_S = 90


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    two = {"nodes": 2, "gpu_type": "h100"}
    with simulated(tmp_path_factory.mktemp("fleet"), aurora=two) as clusters:
        yield clusters


@pytest.fixture
def world(fleet: dict[str, Simulated], transactional_db: None) -> World:
    return make_world(like_new(fleet), {"aurora": ("h100", "h100-sxm-80")})


def attempt_of(job: Job) -> Attempt:
    return Attempt.objects.filter(job=job).latest("number")


def test_a_requeued_job_does_not_end_before_accounting_told_its_first_run(world: World) -> None:
    aurora = world.simulated["aurora"]
    job = world.until(world.submit(seconds=3000), "running", within_s=PATIENCE_S)
    number = int(attempt_of(job).backend_id)
    aurora.control("slurmdbd/down")
    aurora.control("jobs/requeue", job_id=number)
    eventually(lambda: aurora.job_state(number) == "RUNNING", within_s=PATIENCE_S, what="again")
    aurora.control("jobs/cancel", job_id=number)
    for _ in range(3):
        world.turn()
    attempt = attempt_of(job)
    job.refresh_from_db()
    assert (job.state, attempt.state, attempt.backend_state) == ("running", "running", "cancelled")
    assert [end for _, end, _ in attempt.runs] == [None]  # as it was told, neither ended nor lost
    aurora.control("slurmdbd/up")
    world.until(job, "cancelled", within_s=PATIENCE_S)
    attempt = attempt_of(job)
    records = aurora.slurm("GET", "slurmdb/v0.0.38/jobs?skip_steps=true")["jobs"]  # every run
    assert [row["state"]["current"] for row in records] == ["REQUEUED", "CANCELLED"]
    theirs = [(row["time"]["start"] * 1000, row["time"]["end"] * 1000) for row in records]
    assert [(start, end) for start, end, _ in attempt.runs] == theirs
    billed = UsageInterval.objects.filter(attempt_id=attempt.id).order_by("started_ms")
    assert [(row.started_ms, row.reported_end_ms) for row in billed] == theirs


def test_what_a_controller_that_lost_its_state_closes_is_no_cancel(world: World) -> None:
    aurora = world.simulated["aurora"]
    ran = world.until(world.submit(seconds=3000, nodes=2), "running", within_s=PATIENCE_S)
    waits = world.until(world.submit(seconds=3000, nodes=2), "running", "queued", "pending")
    cancelled = attempt_of(ran)
    aurora.control("slurmctld/restart", knows="lost", cold=True)
    eventually(
        lambda: [row["state"]["current"] for row in aurora.runs()][:1] == ["CANCELLED"],
        within_s=PATIENCE_S,
    )
    world.until(ran, "unknown", "cancelled", within_s=PATIENCE_S)
    world.turn()
    ran.refresh_from_db()
    assert ran.state == "unknown"  # it may run on somewhere: people look into it
    waits.refresh_from_db()
    assert waits.state != "cancelled"
    assert attempt_of(ran) == cancelled  # nothing is started again by itself


def test_accounting_that_is_away_when_a_cluster_is_probed_is_no_lack_of_it(world: World) -> None:
    aurora, cluster = world.simulated["aurora"], world.clusters["aurora"]
    probe_cluster(actor=None, cluster=cluster, now=utc_now())
    aurora.control("slurmdbd/down")
    probe = probe_cluster(actor=None, cluster=cluster, now=utc_now())
    told = {one["capability"]: one["is_on"] for one in probe["findings"]}  # type: ignore[attr-defined]
    assert told["accounting"] is False
    cluster.refresh_from_db()
    assert cluster.capabilities["accounting"] is True
    world.until(world.submit(seconds=1), "running", "succeeded", within_s=PATIENCE_S)

"""A gang's way, worker by worker in this process: what forwards, what fails, what it costs."""

from datetime import timedelta

import httpx

from accounting.models import Transfer, UsageInterval
from clusters.models import Command, Node
from federation.models import Attempt, Job
from federation.services.change import cancel_job, hold_job, release_job
from tests.stack import eventually
from tests.world import World, utc_now

WAY = ["queued", "dispatching", "pending", "running", "succeeded"]  # of a job that runs well


def events(job: Job) -> list[tuple[str, str]]:
    from tenancy.models import Event

    rows = Event.objects.filter(subject=str(job.uuid)).order_by("id")
    return [(row.kind.removeprefix("job."), row.cause) for row in rows]


def test_a_gang_goes_the_whole_way_and_is_billed_once(world: World) -> None:
    job = world.until(world.submit(nodes=4, seconds=2), "succeeded")
    attempt = Attempt.objects.get(job=job)
    assert len(attempt.nodes) == 4
    assert attempt.nodes_seen == attempt.nodes
    assert (attempt.tier, attempt.tier_seen) == ("leaf", "leaf")
    assert [kind for kind, _ in events(job)] == WAY
    world.turn()
    interval = UsageInterval.objects.get(job_id=job.uuid)
    held_ms = interval.ended_ms - interval.started_ms
    assert held_ms >= 2000
    paid = sum(row.amount_nano for row in Transfer.objects.all())
    assert paid == 2_000_000_000 * 32 * held_ms // 3_600_000


def test_a_program_that_fails_fails_the_job_with_its_exit_code(world: World) -> None:
    job = world.until(world.submit(seconds=1, exit_code=3), "failed")
    assert job.outcome == "Ended with exit code 3."


def test_two_gangs_that_exceed_a_cluster_one_runs_whole_the_other_holds_nothing(
    world: World,
) -> None:
    first, second = world.submit(nodes=5, seconds=3), world.submit(nodes=5, seconds=1)
    world.until(first, "running")
    second.refresh_from_db()
    assert second.state == "queued"
    assert not Attempt.objects.filter(job=second).exists()
    assert {reason["code"] for reason in second.reasons} == {"no_capacity"}
    world.until(second, "succeeded")
    first.refresh_from_db()
    assert first.state == "succeeded"


def test_cancel_in_every_state(world: World) -> None:
    queued = world.submit(nodes=1)
    cancel_job(user=world.user, job_id=queued.uuid, now=utc_now())
    queued.refresh_from_db()
    assert queued.state == "cancelled"

    dispatching = world.submit(nodes=1)
    world.decide()
    cancel_job(user=world.user, job_id=dispatching.uuid, now=utc_now())
    world.until(dispatching, "cancelled")
    assert Command.objects.get(key__startswith="submit:", fence=fence_of(dispatching)).state == (
        "dropped"
    )

    world.simulated["aurora"].control("scheduling/pause")
    pending = world.until(world.submit(nodes=1), "pending")
    cancel_job(user=world.user, job_id=pending.uuid, now=utc_now())
    world.until(pending, "cancelled")
    world.simulated["aurora"].control("scheduling/resume")

    running = world.until(world.submit(nodes=1, seconds=600), "running")
    cancel_job(user=world.user, job_id=running.uuid, now=utc_now())
    running.refresh_from_db()
    assert running.state == "stopping"
    world.until(running, "cancelled")
    assert UsageInterval.objects.get(job_id=running.uuid).ended_ms is not None
    assert UsageInterval.objects.count() == 1


def fence_of(job: Job) -> str:
    return Attempt.objects.filter(job=job).latest("number").fence


def test_hold_takes_a_running_job_off_and_release_runs_it_again(world: World) -> None:
    job = world.until(world.submit(nodes=2, seconds=4), "running")
    hold_job(user=world.user, job_id=job.uuid, now=utc_now())
    world.until(job, "held")
    world.turn()
    job.refresh_from_db()
    assert (job.state, job.held_by) == ("held", "owner")
    release_job(user=world.user, job_id=job.uuid, now=utc_now())
    world.until(job, "succeeded")
    assert Attempt.objects.filter(job=job).count() == 2
    assert UsageInterval.objects.filter(job_id=job.uuid).count() == 2


def test_a_node_that_dies_under_a_gang_restarts_it_elsewhere(world: World) -> None:
    job = world.until(world.submit(nodes=2, seconds=5), "running")
    lost = Attempt.objects.get(job=job).nodes[0]
    world.simulated["aurora"].control("nodes/down", nodes=lost, reason="broken")
    world.until(job, "succeeded")
    first, second = Attempt.objects.filter(job=job).order_by("number")
    assert first.end_cause == "node_failure"
    assert lost not in second.nodes
    job.refresh_from_db()
    assert job.restarts == 1


def test_restarts_end_at_max_restarts(world: World) -> None:
    gang = {"nodes": 1, "gpus_per_node": 8, "max_restarts": 1}
    job = world.submit(seconds=600, gang=gang)
    for _ in range(2):
        world.until(job, "running")
        node = Attempt.objects.filter(job=job).latest("number").nodes[0]
        world.simulated["aurora"].control("nodes/down", nodes=node)
        world.until(job, "queued", "dispatching", "pending", "failed")
    world.until(job, "failed")
    assert job.outcome == "A node failed, and no restart was left."


def test_a_gang_that_never_starts_whole_is_aborted_after_its_start_timeout(world: World) -> None:
    gang = {"nodes": 2, "gpus_per_node": 8, "start_timeout": 1, "max_restarts": 1}
    world.simulated["aurora"].control("scheduling/pause")
    job = world.submit(seconds=1, gang=gang)
    world.until(job, "failed", within_s=120)
    causes = [cause for kind, cause in events(job) if kind == "stopping"]
    assert causes == ["start_timeout", "start_timeout"]
    assert UsageInterval.objects.count() == 0


def test_a_same_named_object_of_somebody_else_is_left_alone(world: World) -> None:
    """It takes the chosen nodes as well, so the gang is bound anew, elsewhere."""
    job = world.submit(
        seconds=1, gang={"nodes": 1, "gpus_per_node": 8, "start_timeout": 2, "max_restarts": 3}
    )
    world.decide()
    aurora = world.simulated["aurora"]
    stranger = aurora.control("foreign/add", name=fence_of(job), user="otto", nodes=7, seconds=600)
    world.until(job, "succeeded")
    number = stranger["job_id"]
    seen = httpx.get(f"{aurora.endpoint}/_control/jobs/{number}", timeout=5).json()
    assert seen["state"].upper() in {"RUNNING", "PENDING"}


def test_a_submit_that_arrives_late_never_runs_beside_the_first(world: World) -> None:
    job = world.until(world.submit(nodes=1, seconds=3), "running")
    aurora = world.simulated["aurora"]
    late = aurora.submit_copy(fence_of(job))
    world.until(job, "succeeded")
    assert aurora.job_state(late) == "CANCELLED"
    assert len([run for run in aurora.runs() if run["name"] == fence_of(job)]) == 1


def test_a_submit_that_arrives_after_the_end_is_cancelled(world: World) -> None:
    job = world.until(world.submit(nodes=1, seconds=1), "succeeded")
    aurora = world.simulated["aurora"]
    late = aurora.submit_copy(fence_of(job))

    def is_gone() -> bool:
        world.turn()
        return aurora.job_state(late) == "CANCELLED"

    eventually(is_gone, what="the late submit is cancelled")
    job.refresh_from_db()
    assert job.state == "succeeded"
    assert UsageInterval.objects.count() == 1


def test_what_the_cluster_refuses_fails_with_its_words_when_no_other_is_left(world: World) -> None:
    aurora = world.clusters["aurora"]
    aurora.options = {**aurora.options, "charge": "nobody"}
    aurora.save()
    gang = {"nodes": 1, "gpus_per_node": 8, "max_restarts": 1}
    job = world.until(world.submit(gang=gang), "failed")
    assert job.outcome.startswith("aurora refused it: ")
    assert "account" in job.outcome
    assert Attempt.objects.filter(job=job).count() == 2


def test_silence_changes_nothing_and_work_goes_on_after_it(world: World) -> None:
    running = world.until(world.submit(nodes=1, seconds=6), "running")
    aurora = world.simulated["aurora"]
    aurora.control("slurmctld/down")
    waiting = world.submit(nodes=1, seconds=1)
    for _ in range(3):
        world.turn()
    running.refresh_from_db()
    waiting.refresh_from_db()
    assert running.state == "running"
    assert waiting.state in {"queued", "dispatching"}
    world.clusters["aurora"].refresh_from_db()
    assert world.clusters["aurora"].failing_since is not None
    aurora.control("slurmctld/up", unknown_ms=500)
    world.until(running, "succeeded", within_s=60)
    world.until(waiting, "succeeded", within_s=60)
    assert UsageInterval.objects.filter(ended_ms=None).count() == 0


def test_observing_and_delivering_twice_equals_once(world: World) -> None:
    job = world.until(world.submit(nodes=2, seconds=1), "succeeded")
    before = (Attempt.objects.count(), UsageInterval.objects.count(), job.version, events(job))
    for _ in range(3):
        world.turn()
    job.refresh_from_db()
    after = (Attempt.objects.count(), UsageInterval.objects.count(), job.version, events(job))
    assert before == after


def test_foreign_load_counts_as_used(world: World) -> None:
    aurora = world.simulated["aurora"]
    aurora.control("foreign/add", nodes=6, seconds=600)
    world.observe()
    assert Node.objects.filter(cluster__name="aurora", foreign_gpus__gt=0).count() == 6
    job = world.submit(nodes=3)
    world.turn()
    job.refresh_from_db()
    assert job.state == "queued"
    assert job.reasons[0]["code"] in {"no_capacity", "topology_unavailable"}


def test_a_lease_that_is_held_stops_a_second_worker_and_expires(world: World) -> None:
    from clusters.models import Lease
    from clusters.services import lease

    cluster = world.clusters["aurora"]
    now = utc_now()
    take = {"cluster_id": cluster.id, "kind": Lease.Kind.DISPATCH, "life": timedelta(seconds=4)}
    first = lease.take(holder="one", now=now, **take)
    assert first is not None
    assert lease.take(holder="two", now=now + timedelta(seconds=3), **take) is None
    second = lease.take(holder="two", now=now + timedelta(seconds=4), **take)
    assert second == first + 1
    assert not lease.renew(cluster_id=cluster.id, kind=Lease.Kind.DISPATCH, epoch=first, until=now)

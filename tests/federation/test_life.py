"""The life of a cluster on a simulated fleet: keys change, it is cut off, rebuilt, and leaves."""

from collections.abc import Iterator

import pytest

from accounting.models import UsageInterval
from clusters.models import Cluster, Command
from clusters.services.fleet import set_state
from clusters.services.rotate import rotate_credentials
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.services.change import cancel_job, release_job
from federation.services.life import ClusterInUseError, leave_cluster, tend_cluster
from kit.intervals import to_ms
from tenancy.models import AuditEntry, Event
from tests.stack import eventually
from tests.world import Simulated, World, like_new, make_world, simulated, utc_now

PATIENCE_S = 90


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Simulated]]:
    four = {"nodes": 4, "gpu_type": "h100"}
    with simulated(tmp_path_factory.mktemp("fleet"), aurora=four, borealis=four) as clusters:
        yield clusters


@pytest.fixture
def world(fleet: dict[str, Simulated], transactional_db: None) -> World:
    return make_world(like_new(fleet), dict.fromkeys(fleet, ("h100", "h100-sxm-80")))


def running(world: World, *, on: str = "aurora", **changes: object) -> Job:
    job = world.submit(seconds=3000, clusters={"only": [on], "avoid": []}, **changes)
    return world.until(job, "running", within_s=PATIENCE_S)


def attempt_of(job: Job) -> Attempt:
    return Attempt.objects.filter(job=job).select_related("cluster").latest("number")


def set_to(world: World, state: Cluster.State) -> None:
    set_state(actor=None, cluster=world.clusters["aurora"], state=state, why="test", now=utc_now())


def test_keys_change_while_jobs_run_and_no_run_is_lost_or_doubled(world: World) -> None:
    job = running(world)
    cluster, place = world.clusters["aurora"], world.simulated["aurora"]
    report = rotate_credentials(actor=None, cluster=cluster, secret=place.key, now=utc_now())
    assert report["version"]
    world.turn()
    cancel_job(user=world.user, job_id=job.uuid, now=utc_now())
    world.until(job, "cancelled", within_s=PATIENCE_S)
    assert len(place.runs()) == 1


def test_a_cut_off_cluster_keeps_its_jobs_and_gets_nothing_new(world: World) -> None:
    stays = running(world)
    waits = world.submit(seconds=3000, clusters={"only": ["aurora"], "avoid": []})
    world.decide()
    waits.refresh_from_db()
    assert waits.state == "dispatching"
    set_to(world, Cluster.State.CUT_OFF)
    world.turn()
    waits.refresh_from_db()
    assert waits.state == "queued"
    assert Command.objects.get(fence=attempt_of(waits).fence).state == "dropped"
    event = Event.objects.filter(subject=str(waits.uuid)).latest("id")
    assert (event.kind, event.cause, event.data["cluster"]) == ("job.queued", "cut_off", "aurora")
    world.turn()
    waits.refresh_from_db()
    assert [reason["code"] for reason in waits.reasons] == ["cluster_draining"]
    assert "cut off" in waits.reasons[0]["message"]
    stays.refresh_from_db()
    assert stays.state == "running"
    cancel_job(user=world.user, job_id=stays.uuid, now=utc_now())
    world.until(stays, "cancelled", within_s=PATIENCE_S)
    assert len(world.simulated["aurora"].runs()) == 1
    set_to(world, Cluster.State.ACTIVE)
    world.until(waits, "running", within_s=PATIENCE_S)


def test_an_order_that_may_have_arrived_is_cancelled_there_before_the_job_goes_on(
    world: World,
) -> None:
    job = world.submit(seconds=3000, clusters={"only": ["aurora"], "avoid": []})
    world.decide()
    Command.objects.update(sent_at=utc_now())  # it was sent once, and the cluster went away
    set_to(world, Cluster.State.CUT_OFF)
    world.decide()
    job.refresh_from_db()
    assert (job.state, attempt_of(job).end_cause) == ("stopping", "cut_off")
    eventually(lambda: is_answered(world), within_s=PATIENCE_S, what="the cancel is answered")
    job.refresh_from_db()
    assert job.state == "stopping"  # its accounting may tell yet that it ran
    world.pass_lag()
    world.until(job, "queued", within_s=PATIENCE_S)
    assert not world.simulated["aurora"].runs()


def is_answered(world: World) -> bool:
    world.turn()
    return Command.objects.filter(kind="cancel", answered_at__isnull=False).exists()


def test_leaving_with_cancel_moves_the_jobs_and_then_the_cluster_is_gone(world: World) -> None:
    job = world.submit(seconds=3000, clusters={"only": [], "avoid": ["borealis"]})
    world.until(job, "running", within_s=PATIENCE_S)
    aurora, place = world.clusters["aurora"], world.simulated["aurora"]
    with pytest.raises(ClusterInUseError, match="1 attempt not over on aurora") as refused:
        leave_cluster(actor=None, cluster=aurora, now=utc_now())
    assert attempt_of(job).fence in refused.value.errors[0].detail
    left = leave_cluster(actor=None, cluster=aurora, plan="cancel", why="sold", now=utc_now())
    assert (left.state, left.leave_plan) == ("cut_off", "cancel")
    Job.objects.filter(pk=job.pk).update(avoid_clusters=[])

    def gone() -> bool:
        world.turn()
        return Cluster.everything.get(pk=aurora.pk).state == "gone"

    eventually(gone, within_s=PATIENCE_S, what="aurora is gone")
    world.until(job, "running", within_s=PATIENCE_S)
    assert attempt_of(job).cluster.name == "borealis"
    (run,) = place.runs()
    assert run["state"]["current"] == "CANCELLED"
    first = UsageInterval.objects.get(cluster=aurora)
    assert first.ended_ms is not None
    assert not OPEN_ATTEMPTS.filter(cluster=aurora).exists()
    assert [e.action for e in AuditEntry.objects.filter(object_id="aurora").order_by("id")][
        -2:
    ] == [
        "leave",
        "gone",
    ]
    world.turn()  # nobody reads it or writes to it any more


def test_leaving_with_forget_bills_to_the_last_moment_and_holds_the_jobs(world: World) -> None:
    ran, waited = running(world), world.submit(clusters={"only": ["aurora"], "avoid": []})
    world.decide()
    aurora = world.clusters["aurora"]
    world.observe()
    seen_ms = to_ms(Cluster.objects.get(pk=aurora.pk).last_seen_at)  # type: ignore[arg-type]
    left = leave_cluster(actor=None, cluster=aurora, plan="forget", why="burnt", now=utc_now())
    assert left.state == "gone"
    ran.refresh_from_db()
    waited.refresh_from_db()
    assert (ran.state, ran.held_by, waited.state) == ("held", "owner", "queued")
    attempt = attempt_of(ran)
    assert (attempt.state, attempt.end_cause) == ("ended", "lost")
    assert "left while this ran there" in attempt.backend_reason
    interval = UsageInterval.objects.get(attempt_id=attempt.id)
    assert interval.ended_ms is not None
    assert interval.run_start_ms <= interval.ended_ms <= seen_ms + 5_000
    assert not Command.objects.filter(cluster=aurora, state__in=["waiting", "sent"]).exists()
    assert tend_cluster(cluster_id=aurora.id, now=utc_now()) == 0
    Job.objects.filter(pk=ran.pk).update(only_clusters=[])
    release_job(user=world.user, job_id=ran.uuid, now=utc_now())
    world.until(ran, "running", within_s=PATIENCE_S)
    assert attempt_of(ran).cluster.name == "borealis"


def test_a_rebuilt_cluster_loses_its_attempts_with_an_explanation_and_starts_none(
    world: World,
) -> None:
    jobs = [running(world), running(world)]
    place = world.simulated["aurora"]
    place.control("reset")
    for job in jobs:
        world.until(job, "unknown", within_s=PATIENCE_S)
    for _ in range(3):
        world.turn()
    aurora = Cluster.objects.get(name="aurora")
    assert aurora.rebuilt_at is not None
    for job in jobs:
        job.refresh_from_db()
        assert job.state == "unknown"
        assert "aurora looks rebuilt" in attempt_of(job).backend_reason
    event = Event.objects.get(kind="cluster.rebuilt")
    assert event.data["attempts"] == 2
    assert not place.runs()
    forgotten = leave_cluster(
        actor=None, cluster=aurora, plan="forget", why="rebuilt", now=utc_now()
    )
    assert forgotten.state == "gone"
    assert not UsageInterval.objects.filter(ended_ms=None).exists()

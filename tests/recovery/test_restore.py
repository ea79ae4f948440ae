"""Restored to an older point: nothing runs twice, nothing that ran is unpaid, nothing is lost twice."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Model

from accounting.models import Adjustment, UsageInterval
from accounting.selectors.ledger import verify_ledger
from clusters.models import Cluster, Command
from federation.models import Attempt, Job
from federation.services.change import cancel_job, hold_job, release_job
from tests.recovery.travel import dump, nothing_is_open, ours, restored, theirs
from tests.stack import eventually
from tests.world import World, utc_now


def test_the_clusters_are_believed_and_nothing_runs_twice(world: World, tmp_path: Path) -> None:
    ran_through = world.until(world.submit(nodes=2, seconds=4), "running")
    here = {"clusters": {"only": ["aurora"]}}
    goes_on = world.until(world.submit(nodes=1, seconds=600, **here), "running")
    starts_after = world.submit(nodes=2, seconds=600)
    ends_after = world.submit(nodes=1, seconds=1)
    waits = world.submit(nodes=8, seconds=1, **here)
    dumped = dump(tmp_path)

    world.until(ends_after, "succeeded")
    world.until(starts_after, "running")
    unknown_later = world.until(world.submit(nodes=1, seconds=1), "succeeded")
    world.until(ran_through, "succeeded")
    lost = Attempt.objects.get(job=unknown_later).fence

    with restored(dumped):
        assert set(Job.objects.values_list("state", flat=True)) >= {"running", "queued"}
        call_command("recover")
        world.epoch = 0
        states = {job.id: job.state for job in Job.objects.all()}
        assert states[ran_through.id] == states[ends_after.id] == "succeeded"
        assert states[starts_after.id] == states[goes_on.id] == "running"
        assert states[waits.id] == "queued"
        assert Attempt.objects.get(job=ends_after).runs
        for job in (goes_on, starts_after):
            cancel_job(user=world.user, job_id=job.uuid, now=utc_now())
            world.until(job, "cancelled", within_s=90)
        world.until(waits, "succeeded", within_s=90)
        eventually(lambda: world.turn() or nothing_is_open(), within_s=60)
        world.turn()
        billed, ran = ours(world), theirs(world)
        assert lost in {fence for _, fence in ran}
        assert billed == {key: held for key, held in ran.items() if key[1] != lost}
        assert len(ran) == Attempt.objects.count() + 1
        assert set(Attempt.objects.values_list("number", flat=True)) == {1}
        assert verify_ledger() is None


HERE = {"clusters": {"only": ["aurora"]}}


@dataclass(frozen=True)
class Lost:
    """Jobs of the time that is lost, by what became of them."""

    moved: Job
    resumed: Job
    held: Job
    unsent: Job

    @property
    def alive(self) -> list[Job]:
        return [self.moved, self.resumed, self.unsent]


def until_the_dump(world: World) -> Lost:
    """Two run, one is held, one is bound and not forwarded yet."""
    moved = world.until(world.submit(nodes=1, seconds=600, **HERE), "running")
    resumed = world.until(world.submit(nodes=1, seconds=600, **HERE), "running")
    held = world.submit(nodes=1, seconds=600, **HERE)
    hold_job(user=world.user, job_id=held.uuid, now=utc_now())
    unsent = world.submit(nodes=1, seconds=600, **HERE)
    world.decide()
    unsent.refresh_from_db()
    assert unsent.state == "dispatching"
    return Lost(moved, resumed, held, unsent)


def after_the_dump(world: World, jobs: Lost) -> None:
    """A node fails under the first, the second is held and released, the third runs and is held."""
    release_job(user=world.user, job_id=jobs.held.uuid, now=utc_now())
    for job in (jobs.held, jobs.unsent):
        world.until(job, "running")
    node = Attempt.objects.get(job=jobs.moved).nodes[0]
    world.simulated["aurora"].control("nodes/down", nodes=node)
    for job in (jobs.resumed, jobs.held):
        hold_job(user=world.user, job_id=job.uuid, now=utc_now())
        world.until(job, "held")
    release_job(user=world.user, job_id=jobs.resumed.uuid, now=utc_now())
    world.until(jobs.resumed, "running")
    eventually(lambda: world.turn() or attempts_of(jobs.moved) == [1, 2], within_s=60)
    world.until(jobs.moved, "running")
    world.until(world.submit(nodes=2, seconds=1, **HERE), "succeeded")


def test_every_attempt_of_the_lost_time_is_found_and_recovering_twice_is_once(
    world: World, tmp_path: Path
) -> None:
    jobs = until_the_dump(world)
    dumped = dump(tmp_path)
    after_the_dump(world, jobs)
    with restored(dumped):
        world.epoch = 0
        nothing_moves_before_all_were_heard(world, jobs)
        call_command("recover", "--book-orphans")
        known = [rows(model) for model in (Attempt, Job, Adjustment, UsageInterval)]
        call_command("recover", "--book-orphans")
        assert known == [rows(model) for model in (Attempt, Job, Adjustment, UsageInterval)]

        world.epoch = 0
        states = dict(Job.objects.values_list("id", "state"))
        assert [states[job.id] for job in jobs.alive] == ["running"] * 3
        assert states[jobs.held.id] == "held"
        assert attempts_of(jobs.moved) == attempts_of(jobs.resumed) == [1, 2]
        assert attempts_of(jobs.held) == attempts_of(jobs.unsent) == [1]
        for job in jobs.alive:
            cancel_job(user=world.user, job_id=job.uuid, now=utc_now())
            world.until(job, "cancelled", within_s=90)
        eventually(lambda: world.turn() or nothing_is_open(), within_s=60)
        world.turn()
        ran = theirs(world)
        orphan = Adjustment.objects.get()
        assert sum(ours(world).values()) + orphan.gpu_ms == sum(ran.values())
        assert len(ran) == Attempt.objects.count() + 1
        assert orphan.tenant == world.tenant
        assert verify_ledger() is None


def nothing_moves_before_all_were_heard(world: World, jobs: Lost) -> None:
    """With a cluster away nothing is bound, forwarded or read, however often one turns."""
    aurora = world.simulated["aurora"]
    aurora.control("slurmctld/down")
    with pytest.raises(CommandError, match="--accept aurora"):
        call_command("recover")
    waiting = world.submit(nodes=1, seconds=1, clusters={"only": ["borealis"]})
    world.turn()
    assert Attempt.objects.count() == 3
    assert Command.objects.get(key__startswith="submit:", fence=fence_of(jobs.unsent)).state == (
        "sent"
    )
    assert Cluster.objects.filter(last_seen_at=None).count() == 2
    cancel_job(user=world.user, job_id=waiting.uuid, now=utc_now())
    aurora.control("slurmctld/up", unknown_ms=0)


def attempts_of(job: Job) -> list[int]:
    found = Attempt.objects.filter(job=job).order_by("number")
    return list(found.values_list("number", flat=True))


def fence_of(job: Job) -> str:
    return Attempt.objects.filter(job=job).latest("number").fence


def rows(model: type[Model]) -> list[dict[str, object]]:
    return list(model._default_manager.order_by("pk").values())

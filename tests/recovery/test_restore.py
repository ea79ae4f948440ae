"""Restored to an older point: nothing runs twice, nothing that ran is unpaid, nothing is lost twice."""

from pathlib import Path

from django.core.management import call_command

from accounting.selectors.ledger import verify_ledger
from federation.models import Attempt, Job
from federation.services.change import cancel_job
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
        world.epoch = 0
        assert set(Job.objects.values_list("state", flat=True)) == {"running", "queued"}
        call_command("recover")
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

"""What the arbiter knows of the waiting jobs is what it would read."""

from collections.abc import Callable
from datetime import timedelta
from operator import attrgetter
from random import Random

import pytest
from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.test.utils import CaptureQueriesContext

from clusters.models import Cluster
from federation.core.snapshot import WaitingJob
from federation.models import Job
from federation.selectors.snapshot import Waiting, take_snapshot
from tests.federation.world import NOW, World

pytestmark = pytest.mark.django_db(transaction=True)


def jobs(waiting: Waiting | None) -> list[WaitingJob]:
    return sorted(take_snapshot(NOW, waiting).jobs, key=attrgetter("id"))


def _change(world: World, rng: Random) -> None:
    """Something that happens to a job, or to what its ask is read by."""
    job = rng.choice(list(Job.objects.all()))
    some = Job.objects.filter(id=job.id)
    changes: list[Callable[[], object]] = [
        lambda: world.job(nodes=rng.randrange(1, 4)),
        lambda: some.update(state=rng.choice(["running", "queued"]), version=F("version") + 1),
        lambda: some.update(cancel_asked_at=rng.choice([None, NOW])),
        lambda: some.update(priority=rng.randrange(900), queued_at=NOW + timedelta(seconds=1)),
        lambda: some.update(avoid_nodes=[f"c1/n{rng.randrange(4)}"], saved_step=7),
        lambda: Cluster.objects.update(capabilities={"signal": rng.choice([True, False])}),
        lambda: (world.job(), some.delete()),
        lambda: _write_twice(some),
    ]
    rng.choice(changes)()


@transaction.atomic
def _write_twice(some: "QuerySet[Job]") -> None:
    """And once between them what is taken back."""
    some.update(priority=F("priority") + 1)
    savepoint = transaction.savepoint()
    some.update(priority=0)
    transaction.savepoint_rollback(savepoint)
    some.update(attempts_made=F("attempts_made") + 1)


@pytest.mark.parametrize("seed", range(3))
def test_known_is_read(seed: int) -> None:
    world, rng, waiting = World(), Random(seed), Waiting()  # noqa: S311 (a repeatable test)
    for _ in range(6):
        world.job()
    for _ in range(40):
        for _ in range(rng.randrange(3)):
            _change(world, rng)
        if rng.random() < 0.3:  # as the arbiter knows of what it bound
            one = rng.choice(list(Job.objects.all()))
            Job.objects.filter(id=one.id).update(state="dispatching")
            waiting.leave([one.id, one.id + 1_000])
        assert jobs(waiting) == jobs(None)


def test_who_is_known_to_have_left_is_not_looked_for() -> None:
    world, waiting = World(), Waiting()
    gone, _ = world.job(), world.job()
    jobs(waiting)
    Job.objects.filter(id=gone.id).update(state="dispatching")
    waiting.leave([gone.id])
    with CaptureQueriesContext(connection) as queries:
        assert len(jobs(waiting)) == 1
    assert not any("string_agg(id::text" in query["sql"] for query in queries)


def test_only_what_changed_is_read_again() -> None:
    world, waiting = World(), Waiting()
    first, second = world.job(), world.job()
    before = jobs(waiting)
    with CaptureQueriesContext(connection) as queries:
        assert all(one is other for one, other in zip(before, jobs(waiting), strict=True))
    assert not any("spec" in query["sql"] for query in queries)
    Job.objects.filter(id=second.id).update(priority=9)
    kept, changed = jobs(waiting)
    assert (kept.id, kept is before[0]) == (first.id, True)
    assert (changed.id, changed.priority) == (second.id, 9)


def test_inside_a_transaction_everything_is_read() -> None:
    world, waiting = World(), Waiting()
    job = world.job()
    with transaction.atomic():
        for priority in (1, 2, 3):
            Job.objects.filter(id=job.id).update(priority=priority)
            assert jobs(waiting)[0].priority == priority

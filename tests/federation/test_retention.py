"""What is over goes when its time is up; what is open, shown or unbilled stays, and books agree."""

from datetime import datetime, timedelta

import pytest
from django.db import DatabaseError, connection
from django.db.models import Sum

from accounting.models import Transfer, UsageInterval
from accounting.selectors.ledger import verify_ledger
from accounting.services.posting import meter_and_post
from accounting.services.usage import RunFact, record_run
from clusters.models import Command, Observation
from clusters.services.recall import free_traffic, hold_traffic
from federation.models import Attempt, Job, Telling
from federation.services import retention
from federation.services.retention import prune_jobs, prune_orders
from federation.tasks import prune
from kit.ids import attempt_id, fence
from kit.intervals import to_ms
from tests.federation.world import FLAVOR, NOW, World

DAYS = 30
LATER = NOW + timedelta(days=DAYS + 1)
HOUR = timedelta(hours=1)


def ran(world: World, *, state: str = "succeeded", ended: datetime | None = NOW) -> Job:
    """A job with one attempt, its orders, and what accounting was told of it."""
    job = world.job(state=state, ended_at=ended, attempts_made=1, submitted_at=NOW - 2 * HOUR)
    attempt = Attempt.objects.create(
        id=attempt_id(job.uuid, 1),
        job=job,
        number=1,
        fence=fence(job.uuid, 1),
        cluster=world.clusters["c1"],
        flavor=world.flavor,
        service_class="guaranteed",
        nodes=["n1"],
        gpus_per_node=8,
        cpus_per_node=4,
        memory_mib_per_node=1,
        exclusive=False,
        tier="leaf",
        account="mia_there",
        state="ended" if ended else "running",
        bound_at=NOW - 2 * HOUR,
        ended_at=ended,
    )
    for kind in ("submit", "cancel"):
        order(world, f"{kind}:{attempt.id}", attempt.fence, kind)
    told = RunFact(
        attempt_id=attempt.id,
        job_id=job.uuid,
        job_name=job.name,
        tenant_id=world.tenant.id,
        user_id=world.user.id,
        user_name=world.user.username,
        flavor=FLAVOR,
        cluster_id=world.clusters["c1"].id,
        service_class="guaranteed",
        gpus=8,
        run_start_ms=to_ms(NOW - HOUR),
        run_end_ms=to_ms(ended) if ended else None,
    )
    record_run(fact=told, now=NOW)
    return job


def order(world: World, key: str, name: str, kind: str, state: str = "done") -> Command:
    return Command.objects.create(
        key=key,
        cluster=world.clusters["c1"],
        kind=kind,
        fence=name,
        payload={},
        state=state,
        created_at=NOW,
        not_before=NOW,
        sent_at=NOW,
        answered_at=None if state in ("waiting", "sent") else NOW,
    )


def show(world: World, *jobs: Job) -> None:
    """The cluster's newest reading shows something of these jobs."""
    Observation.objects.create(
        cluster=world.clusters["c1"],
        begun_at=NOW,
        ended_at=NOW,
        accounting_answered=True,
        gangs=[{"fence": fence(job.uuid, 1)} for job in jobs],
        queues=[],
        reservations=[],
    )


def posted() -> int:
    return Transfer.objects.aggregate(sum=Sum("amount_nano"))["sum"]


def left() -> set[int]:
    return set(Job.objects.values_list("id", flat=True))


@pytest.mark.django_db
def test_jobs_that_ended_long_ago_go_and_the_books_stay_equal() -> None:
    world = World()
    for _ in range(3):
        ran(world)
    young = ran(world, ended=NOW + 48 * HOUR)
    for job in Job.objects.all():
        Telling.objects.create(job=job, version=1, reasons=[])
    meter_and_post(now=NOW + 49 * HOUR)
    before = posted()
    assert before > 0

    assert prune_jobs(keep_days=DAYS, now=LATER) == 3
    assert prune_jobs(keep_days=DAYS, now=LATER) == 0
    assert left() == {young.id}
    assert set(Attempt.objects.values_list("job", flat=True)) == {young.id}
    assert set(Telling.objects.values_list("job", flat=True)) == {young.id}
    assert set(Command.objects.values_list("fence", flat=True)) == {fence(young.uuid, 1)}
    assert (posted(), UsageInterval.objects.count(), verify_ledger()) == (before, 4, None)


@pytest.mark.django_db
def test_what_is_open_shown_or_not_billed_stays_however_old() -> None:
    world = World()
    runs = ran(world, state="running", ended=None)
    shown, ordered, unbilled, held = (ran(world) for _ in range(4))
    Job.objects.filter(id=held.id).update(state="held", held_by="owner")
    meter_and_post(now=NOW + HOUR)
    unposted = UsageInterval.objects.filter(job_id=unbilled.uuid)
    unposted.update(reported_end_ms=to_ms(NOW - HOUR / 2))
    order(world, "signal:1", fence(ordered.uuid, 1), "signal", "waiting")
    show(world, shown)

    assert prune_jobs(keep_days=DAYS, now=LATER) == 0
    assert left() == {runs.id, shown.id, ordered.id, unbilled.id, held.id}
    assert prune_jobs(keep_days=0, now=LATER + 999 * timedelta(days=DAYS)) == 0


@pytest.mark.django_db
def test_usage_without_a_price_keeps_its_job_until_it_is_billed() -> None:
    world = World()
    job = ran(world)
    assert prune_jobs(keep_days=DAYS, now=LATER) == 0
    meter_and_post(now=LATER)
    assert prune_jobs(keep_days=DAYS, now=LATER) == 1
    assert not Job.objects.filter(id=job.id).exists()
    assert verify_ledger() is None


@pytest.mark.django_db
def test_answered_orders_go_but_those_of_what_is_open_or_shown() -> None:
    world = World()
    runs = ran(world, state="running", ended=None)
    over, shown = ran(world), ran(world)
    show(world, shown)
    order(world, "orphan:mst-x-a1", "mst-x-a1", "cancel")
    order(world, "orphan:mst-y-a1", "mst-y-a1", "cancel", "sent")

    assert prune_orders(keep_days=0, now=LATER) == 0
    assert prune_orders(keep_days=DAYS, now=NOW + HOUR) == 0
    assert prune_orders(keep_days=DAYS, now=LATER) == 3
    assert prune_orders(keep_days=DAYS, now=LATER) == 0
    fences = set(Command.objects.values_list("fence", flat=True))
    assert fences == {fence(runs.uuid, 1), fence(shown.uuid, 1), "mst-y-a1"}
    assert left() == {runs.id, over.id, shown.id}


@pytest.mark.django_db(transaction=True)
def test_stopped_in_the_middle_it_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    jobs = [ran(world) for _ in range(5)]
    meter_and_post(now=NOW + HOUR)
    before = posted()
    monkeypatch.setattr(retention, "SLAB", 2)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF OLD.id = {jobs[3].id} THEN RAISE 'power cut'; END IF; RETURN OLD; END $$;"
            "CREATE TRIGGER refuse BEFORE DELETE ON federation_job"
            " FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        try:
            with pytest.raises(DatabaseError, match="power cut"):
                prune_jobs(keep_days=DAYS, now=LATER)
        finally:
            cursor.execute("DROP FUNCTION refuse() CASCADE")
    assert left() == {job.id for job in jobs[2:]}
    assert Attempt.objects.count() == 3
    assert Command.objects.count() == 6
    assert prune_jobs(keep_days=DAYS, now=LATER) == 3
    assert (left(), posted(), verify_ledger()) == (set(), before, None)


@pytest.mark.django_db
def test_by_default_the_tick_deletes_orders_and_no_job() -> None:
    world = World()
    job = ran(world)
    Command.objects.update(
        created_at=NOW - timedelta(days=999), answered_at=NOW - timedelta(days=999)
    )
    Job.objects.update(submitted_at=NOW - timedelta(days=999), ended_at=NOW - timedelta(days=998))
    hold_traffic(since=None, now=NOW)  # a recovery is under way
    prune()
    assert Command.objects.count() == 2
    free_traffic(now=NOW)
    prune()
    assert left() == {job.id}
    assert not Command.objects.exists()


@pytest.mark.django_db
def test_the_number_of_statements_does_not_grow_with_the_jobs(
    django_assert_max_num_queries: object,
) -> None:
    world = World()
    for _ in range(12):
        ran(world)
    meter_and_post(now=NOW + HOUR)
    with django_assert_max_num_queries(17):  # type: ignore[operator]
        assert prune_jobs(keep_days=DAYS, now=LATER) == 12

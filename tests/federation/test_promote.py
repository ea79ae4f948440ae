"""Spot becomes guaranteed where it stands: decided, written, billed and told."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounting.models import UsageInterval
from accounting.services.usage import record_runs
from clusters.models import Cluster
from federation.core.cycle import decide
from federation.core.plan import Plan
from federation.models import Attempt, Job
from federation.selectors.snapshot import take_snapshot
from federation.services.billing import run_facts
from federation.services.commit import Committed, begin_term, commit_plan
from kit.intervals import to_ms
from quotas.models import Quota
from tenancy.models import Event
from tests.federation.world import NOW, World

pytestmark = pytest.mark.django_db
STARTED = NOW + timedelta(seconds=10)
LATER = NOW + timedelta(hours=1)


def plan() -> Plan:
    return decide(take_snapshot(LATER))


def commit(made: Plan | None = None) -> Committed:
    return commit_plan(plan=made or plan(), epoch=begin_term(now=NOW), now=LATER)


def running_as_spot(world: World, nodes: int = 1, **changes: object) -> Job:
    """A job that was bound with no guarantee, and runs since STARTED."""
    Cluster.objects.update(options={"charge": "acct"}, last_seen_at=LATER)
    Quota.objects.update(guaranteed=0)
    job = world.job(nodes=nodes, **changes)
    commit_plan(plan=decide(take_snapshot(NOW)), epoch=begin_term(now=NOW), now=NOW)
    start_ms = to_ms(STARTED)
    Job.objects.filter(id=job.id).update(state="running", started_at=STARTED)
    Attempt.objects.filter(job=job).update(
        state="running", started_at=STARTED, runs=[[start_ms, None, 8 * nodes]]
    )
    job.refresh_from_db()
    attempt = job.attempts.get()
    record_runs(facts=list(run_facts(job, attempt, [(start_ms, None, 8 * nodes)])), now=STARTED)
    assert (job.class_now, attempt.service_class) == ("spot", "spot")
    return job


def raise_quota(gpus: int) -> None:
    quota = Quota.objects.get()
    Quota.objects.update(guaranteed=gpus, revision=quota.revision + 1)


def pieces(job: Job) -> list[tuple[str, int, int | None]]:
    rows = UsageInterval.objects.filter(job_id=job.uuid).order_by("started_ms")
    return list(rows.values_list("service_class", "started_ms", "ended_ms"))


def test_what_runs_as_spot_goes_on_inside_the_guarantee_and_the_books_are_cut_there() -> None:
    job = running_as_spot(World())
    assert commit().promoted == 0
    raise_quota(8)
    assert commit().promoted == 1
    job.refresh_from_db()
    assert (job.class_now, job.attempts.get().service_class) == ("guaranteed", "guaranteed")
    assert pieces(job) == [
        ("spot", to_ms(STARTED), to_ms(LATER)),
        ("guaranteed", to_ms(LATER), None),
    ]
    event = Event.objects.get(kind="job.promoted")
    assert (event.subject, event.cause) == (str(job.uuid), "inside_guarantee")
    assert event.data["gpus"] == 8
    assert commit().promoted == 0
    raise_quota(0)  # nothing is demoted
    commit()
    assert job.attempts.get().service_class == "guaranteed"


def test_only_auto_jobs_are_promoted() -> None:
    job = running_as_spot(World(), wanted_class="spot")
    raise_quota(64)
    assert commit().promoted == 0
    assert pieces(job) == [("spot", to_ms(STARTED), None)]


def test_waiting_guaranteed_gangs_come_first() -> None:
    world = World()
    job = running_as_spot(world)
    waiting = world.job(nodes=4, wanted_class="guaranteed")  # only three nodes are free
    raise_quota(32)
    assert commit().promoted == 0
    Job.objects.filter(id=waiting.id).update(state="cancelled")
    commit()  # it was to go for that one, and need not any more
    assert commit().promoted == 1
    job.refresh_from_db()
    assert job.class_now == "guaranteed"


@pytest.mark.parametrize(
    "options",
    [{"qos.guaranteed": "high", "qos.spot": "scavenger"}, {"queue.acme": "acme-{flavor}-{class}"}],
)
def test_where_classes_are_different_qos_or_queues_the_class_stays(options: dict[str, str]) -> None:
    running_as_spot(World())
    Cluster.objects.update(options=options)
    raise_quota(64)
    assert commit().promoted == 0


@pytest.mark.parametrize("change", ["quota", "cancel", "ended"])
def test_what_changed_since_the_snapshot_is_left_alone(change: str) -> None:
    job = running_as_spot(World())
    raise_quota(8)
    made = plan()
    assert len(made.promotions) == 1
    if change == "quota":
        raise_quota(8)
    elif change == "cancel":
        Job.objects.update(cancel_asked_at=LATER)
    else:
        Attempt.objects.update(state="stopping", end_cause="cancelled")
    assert commit(made).promoted == 0
    assert pieces(job) == [("spot", to_ms(STARTED), None)]
    assert not Event.objects.filter(kind="job.promoted").exists()


def test_the_number_of_statements_does_not_depend_on_the_number_of_gangs() -> None:
    world, counts = World(), []
    for number in (1, 3):
        for _ in range(number):
            running_as_spot(world)
        raise_quota(64)
        made = plan()
        epoch = begin_term(now=NOW)
        with CaptureQueriesContext(connection) as captured:
            assert commit_plan(plan=made, epoch=epoch, now=LATER).promoted == number
        counts.append(len(captured))
    assert counts[0] == counts[1]

"""Being told of runs: twice is once, in any order, in a constant number of statements."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction
from pytest_django import DjangoAssertNumQueries

from accounting.core.runs import Told
from accounting.models import UsageInterval
from accounting.services.usage import (
    AlreadyPostedError,
    RunsTold,
    UsageRefusedError,
    change_class,
    record_run,
    record_runs,
    start_usage,
    stop_usage,
)
from clusters.models import Cluster
from kit.intervals import HOUR_MS, from_ms
from tests.accounting.world import NOW, START, World, ended, pieces, post_all, posted_nano


def start(world: World, fact_start: int = START, **changes: object) -> tuple[object, bool]:
    fact = replace(world.run(start_ms=fact_start), **changes)  # type: ignore[arg-type]
    started = start_usage(
        attempt_id=fact.attempt_id,
        job_id=fact.job_id,
        job_name=fact.job_name,
        tenant_id=fact.tenant_id,
        user_id=fact.user_id,
        user_name=fact.user_name,
        labels=fact.labels,
        flavor=fact.flavor,
        cluster_id=fact.cluster_id,
        service_class=fact.service_class,
        gpus=fact.gpus,
        run_start_ms=fact.run_start_ms,
        now=NOW,
    )
    return fact.attempt_id, started


def test_start_and_stop_each_twice_equal_once(world: World) -> None:
    attempt = uuid4()
    assert [start(world, attempt_id=attempt)[1] for _ in range(2)] == [True, False]
    stops = [
        stop_usage(attempt_id=attempt, run_start_ms=START, run_end_ms=START + 5, now=NOW)
        for _ in range(2)
    ]
    assert stops == [True, False]
    assert pieces(attempt) == [("guaranteed", START, START + 5)]
    row = UsageInterval.objects.get()
    assert (row.job_name, row.labels, row.started_at, row.ended_at) == (
        "llm",
        {"experiment": "a17"},
        NOW,
        NOW,
    )


def test_a_run_known_only_after_its_end(world: World) -> None:
    fact = world.run(end_ms=START + 7)
    assert [record_run(fact=fact, now=NOW) for _ in range(2)] == [Told.STARTED, Told.UNCHANGED]
    assert pieces(fact.attempt_id) == [("guaranteed", START, START + 7)]


def test_a_requeue_is_two_runs_with_a_gap_even_told_in_one_call(world: World) -> None:
    first = world.run(end_ms=START + 10)
    second = replace(first, run_start_ms=START + 50, run_end_ms=None)
    told = record_runs(facts=[replace(first, run_end_ms=None), first, second], now=NOW)
    assert told.told == (Told.STARTED, Told.CHANGED, Told.STARTED)
    assert pieces(first.attempt_id) == [
        ("guaranteed", START, START + 10),
        ("guaranteed", START + 50, None),
    ]


def test_a_second_open_run_is_refused_until_the_first_one_ended(world: World) -> None:
    first = world.run()
    second = replace(first, run_start_ms=START + 50)
    other = world.run()
    record_run(fact=first, now=NOW)
    told = record_runs(facts=[second, other], now=NOW)
    assert told.told == (Told.REFUSED, Told.STARTED)
    assert "overlaps" in told.why[first.attempt_id]
    with pytest.raises(UsageRefusedError):
        record_run(fact=second, now=NOW)
    told = record_runs(facts=[ended(first, START + 10), second], now=NOW)
    assert told.told == (Told.CHANGED, Told.STARTED)


@pytest.mark.parametrize("end_ms", [START + 10, START])
def test_a_clock_set_back_between_two_runs_loses_neither(world: World, end_ms: int) -> None:
    """Told in the order of their times: the second one before the end of the first."""
    first = world.run()
    record_run(fact=first, now=NOW)
    second = replace(first, run_start_ms=START - 45, run_end_ms=START + 15)
    told = record_runs(facts=[second, ended(first, end_ms)], now=NOW)
    assert told == RunsTold((Told.STARTED, Told.CHANGED), {})
    assert pieces(first.attempt_id) == [
        ("guaranteed", START - 45, START + 15),
        ("guaranteed", START, end_ms),
    ]


def test_a_run_without_gpus_is_refused_and_does_not_hold_up_the_others(world: World) -> None:
    facts = [world.run(gpus=0, end_ms=START + 5), world.run(gpus=0, end_ms=START), world.run()]
    told = record_runs(facts=facts, now=NOW)
    assert told.told == (Told.REFUSED, Told.UNCHANGED, Told.STARTED)
    assert UsageInterval.objects.count() == 1


def test_the_database_itself_holds_one_open_interval_an_attempt(world: World) -> None:
    fact = world.run()
    record_run(fact=fact, now=NOW)
    row = UsageInterval.objects.get()
    row.id, row.run_start_ms, row.started_ms, row.metered_ms = uuid4(), 1, 1, 1
    with pytest.raises(IntegrityError, match="usage_one_open"), transaction.atomic():
        row.save(force_insert=True)


def test_the_database_itself_refuses_an_end_before_the_start(world: World) -> None:
    record_run(fact=world.run(), now=NOW)
    with pytest.raises(IntegrityError, match="usage_"), transaction.atomic():
        UsageInterval.objects.update(ended_ms=START - 1)


def test_stopping_what_never_started_is_refused(world: World) -> None:
    with pytest.raises(UsageRefusedError):
        stop_usage(attempt_id=uuid4(), run_start_ms=START, run_end_ms=START, now=NOW)


def test_a_promotion_splits_once(world: World) -> None:
    fact = world.run(service_class="spot")
    record_run(fact=fact, now=NOW)
    changes = [
        change_class(
            attempt_ids=[fact.attempt_id], service_class="guaranteed", at_ms=START + at, now=NOW
        )
        for at in (100, 100, 200)
    ]
    assert changes == [{fact.attempt_id}, set(), set()]
    # The next report still tells the run by its start, now with the class it has.
    last = replace(fact, service_class="guaranteed", run_end_ms=START + 500)
    assert [record_run(fact=last, now=NOW) for _ in range(2)] == [Told.CHANGED, Told.UNCHANGED]
    assert pieces(fact.attempt_id) == [
        ("spot", START, START + 100),
        ("guaranteed", START + 100, START + 500),
    ]
    second = UsageInterval.objects.get(started_ms=START + 100)
    assert second.started_at == from_ms(START + 100)


def test_a_promotion_is_mapped_onto_the_clusters_clock_and_clamped(world: World) -> None:
    Cluster.objects.filter(id=world.alpha.id).update(clock_skew_ms=5_000)
    one, other = world.run(service_class="spot"), world.run(service_class="spot")
    record_runs(facts=[one, other], now=NOW)
    change_class(attempt_ids=[one.attempt_id], service_class="guaranteed", at_ms=START, now=NOW)
    change_class(
        attempt_ids=[other.attempt_id], service_class="guaranteed", at_ms=START - HOUR_MS, now=NOW
    )
    assert pieces(one.attempt_id)[1] == ("guaranteed", START + 5_000, None)
    assert pieces(other.attempt_id) == [("guaranteed", START, None)]


@pytest.mark.parametrize("end_ms", [START + 50, START + 100])
def test_a_promotion_after_the_runs_end_changes_nothing(world: World, end_ms: int) -> None:
    fact = world.run(service_class="spot", end_ms=end_ms)
    record_run(fact=fact, now=NOW)
    assert not change_class(
        attempt_ids=[fact.attempt_id], service_class="guaranteed", at_ms=START + 100, now=NOW
    )


def test_a_promotion_before_any_run_changes_nothing(world: World) -> None:
    assert not change_class(attempt_ids=[uuid4()], service_class="spot", at_ms=START, now=NOW)


def test_a_late_end_is_corrected_before_posting_and_refused_after(world: World) -> None:
    world.price()
    fact = world.run(end_ms=START + HOUR_MS)
    record_run(fact=fact, now=NOW)
    stop_usage(
        attempt_id=fact.attempt_id, run_start_ms=START, run_end_ms=START + HOUR_MS // 2, now=NOW
    )
    post_all(NOW)
    with pytest.raises(AlreadyPostedError):
        stop_usage(attempt_id=fact.attempt_id, run_start_ms=START, run_end_ms=START + 1, now=NOW)
    assert pieces(fact.attempt_id) == [("guaranteed", START, START + HOUR_MS // 2)]
    assert record_run(fact=ended(fact, START + 1), now=NOW) == Told.CORRECTION_DUE
    assert posted_nano() == 8 * 10**9


def test_a_later_end_after_posting_posts_the_rest(world: World) -> None:
    world.price(nano=1_234_567_891)
    fact = world.run(end_ms=START + 1_000)
    record_run(fact=fact, now=NOW)
    post_all(NOW)
    record_run(fact=ended(fact, START + 2_001), now=NOW)
    post_all(NOW)
    assert posted_nano() == 1_234_567_891 * 8 * 2_001 // HOUR_MS


def test_a_promotion_into_what_is_posted_begins_behind_it(world: World) -> None:
    world.price(service_class="spot")
    fact = world.run(service_class="spot", start_ms=START - 24 * HOUR_MS)
    record_run(fact=fact, now=NOW)
    world.seen(NOW)
    post_all(NOW)
    posted_ms = UsageInterval.objects.get().metered_ms
    later = NOW + timedelta(seconds=1)
    change_class(
        attempt_ids=[fact.attempt_id],
        service_class="guaranteed",
        at_ms=START - 20 * HOUR_MS,
        now=later,
    )
    assert posted_ms > START - 20 * HOUR_MS
    assert pieces(fact.attempt_id) == [
        ("spot", START - 24 * HOUR_MS, posted_ms),
        ("guaranteed", posted_ms, None),
    ]


@pytest.mark.parametrize("number", [1, 100])
def test_classes_change_in_a_constant_number_of_statements(
    world: World, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    facts = [world.run(service_class="spot") for _ in range(number)]
    record_runs(facts=facts, now=NOW)
    ids = [fact.attempt_id for fact in facts]
    with django_assert_num_queries(5):  # savepoint, read and lock, update, insert, release
        changed = change_class(
            attempt_ids=ids, service_class="guaranteed", at_ms=START + 9, now=NOW
        )
    assert changed == set(ids)


@pytest.mark.parametrize("number", [1, 100])
def test_runs_are_told_in_a_constant_number_of_statements(
    world: World, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    facts = [world.run() for _ in range(number)]
    with django_assert_num_queries(6):
        # savepoint, read, read and lock, clusters, insert, release
        record_runs(facts=facts, now=NOW)
    with django_assert_num_queries(3):
        # nothing new: savepoint, read, release
        record_runs(facts=facts, now=NOW)
    with django_assert_num_queries(5):
        # savepoint, read, read and lock, update, release
        record_runs(facts=[ended(fact, START + 9) for fact in facts], now=NOW)
    assert UsageInterval.objects.filter(ended_ms=START + 9).count() == number

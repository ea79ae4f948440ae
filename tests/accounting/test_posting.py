"""Posting: once, whole, chained, in constant statements; what is posted cannot be changed."""

import threading
from datetime import datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from accounting import tasks
from accounting.models import Batch, Transfer, UsageInterval, UsageRecord
from accounting.selectors.ledger import backlog, verify_ledger
from accounting.services.posting import meter_and_post
from accounting.services.usage import change_class, confirm_runs, record_run, record_runs
from kit.intervals import DAY_MS, HOUR_MS, from_ms, to_ms
from tests.accounting.oracle import exact_cost
from tests.accounting.world import (
    DAY0,
    NOW,
    START,
    USD,
    World,
    build_world,
    ended,
    post_all,
    posted_nano,
)


def test_a_closed_run_is_posted_once(world: World) -> None:
    world.price()
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    done = meter_and_post(now=NOW)
    assert (done.records, done.amount_nano, done.batch) == (1, 16 * USD, 1)
    assert meter_and_post(now=NOW).intervals == 0
    transfer = Transfer.objects.get()
    assert transfer.debit == f"tenant:{world.pretrain.id}"
    assert transfer.credit == f"revenue:{world.alpha.id}:guaranteed"
    assert Batch.objects.count() == 1


def test_a_run_in_doubt_is_not_posted_however_many_midnights_pass(world: World) -> None:
    """Its cluster answers and does not have it: nobody knows how long it lasted."""
    world.price()
    lasts, doubtful = world.run(), world.run()
    record_runs(facts=[lasts, doubtful], now=NOW)
    read_ms = to_ms(DAY0 + timedelta(days=3, hours=1))
    cluster = lasts.cluster_id
    lasting = {lasts.attempt_id: lasts.run_start_ms, doubtful.attempt_id: START - HOUR_MS}
    assert confirm_runs(cluster_id=cluster, lasting=lasting, read_ms=read_ms) == 1
    assert confirm_runs(cluster_id=cluster, lasting=lasting, read_ms=read_ms) == 0
    post_all(DAY0 + timedelta(days=4))
    billed = dict(UsageInterval.objects.values_list("attempt_id", "metered_ms"))
    assert billed == {
        lasts.attempt_id: to_ms(DAY0 + timedelta(days=3)),
        doubtful.attempt_id: START,
    }


def test_an_open_run_is_posted_up_to_a_settled_midnight_of_a_cluster_that_was_read(
    world: World,
) -> None:
    world.price()
    fact = world.run()
    record_run(fact=fact, now=NOW)
    midnight = DAY0 + timedelta(days=1)
    world.seen(midnight + timedelta(minutes=9))
    assert meter_and_post(now=midnight + timedelta(minutes=9)).intervals == 0
    assert meter_and_post(now=midnight + timedelta(hours=9)).intervals == 0  # silent since
    world.seen(midnight + timedelta(minutes=10))
    assert meter_and_post(now=midnight + timedelta(hours=9)).amount_nano == 14 * 8 * 2 * USD
    assert meter_and_post(now=midnight + timedelta(hours=9)).intervals == 0
    record_run(fact=ended(fact, START + 20 * HOUR_MS), now=midnight + timedelta(hours=9))
    post_all(midnight + timedelta(hours=9))
    assert posted_nano() == 20 * 8 * 2 * USD


def test_usage_without_a_price_waits_and_is_counted_and_posted_once_there_is_one(
    world: World,
) -> None:
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    done = meter_and_post(now=NOW)
    assert (done.intervals, done.unpriced, done.batch) == (1, 1, None)
    assert meter_and_post(now=NOW).intervals == 0
    assert backlog(now=NOW).price_missing == 1
    world.price(since=from_ms(START + HOUR_MS // 2))  # not yet all of it
    assert meter_and_post(now=NOW).unpriced == 1
    assert posted_nano() == 0
    world.price(since=from_ms(START), nano=4 * USD)
    post_all(NOW)
    assert posted_nano() == 8 * (2 + 1) * USD
    assert backlog(now=NOW).price_missing == 0


def test_a_price_change_and_a_promotion_in_mid_run_are_billed_as_they_held(world: World) -> None:
    world.price(nano=2 * USD)
    world.price(nano=3 * USD, since=from_ms(START + 2 * HOUR_MS))
    world.price(nano=USD, service_class="spot")
    fact = world.run(service_class="spot")
    record_run(fact=fact, now=NOW)
    change_class(
        attempt_ids=[fact.attempt_id], service_class="guaranteed", at_ms=START + HOUR_MS, now=NOW
    )
    record_run(fact=ended(fact, START + 3 * HOUR_MS), now=NOW)
    post_all(NOW)
    rows = UsageRecord.objects.order_by("start_ms").values_list("service_class", "amount_nano")
    assert list(rows) == [("spot", 8 * USD), ("guaranteed", 16 * USD), ("guaranteed", 24 * USD)]


def test_a_promotion_of_a_run_that_had_ended_unseen_is_not_billed_beyond_its_end(
    world: World,
) -> None:
    world.price(nano=2 * USD)
    world.price(nano=USD, service_class="spot")
    fact = world.run(service_class="spot")
    record_run(fact=fact, now=NOW)
    cut_ms = START + 2 * HOUR_MS
    change_class(attempt_ids=[fact.attempt_id], service_class="guaranteed", at_ms=cut_ms, now=NOW)
    post_all(NOW)
    assert posted_nano() == 0  # nobody knows yet how long it ran
    record_run(fact=ended(fact, START + HOUR_MS), now=NOW)
    post_all(NOW)
    rows = UsageRecord.objects.values_list("service_class", "start_ms", "end_ms", "amount_nano")
    assert list(rows) == [("spot", START, START + HOUR_MS, 8 * USD)]


def test_a_crash_between_the_writes_leaves_nothing_and_the_next_try_posts_once(
    world: World,
) -> None:
    world.price()
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)

    class CrashError(Exception):
        pass

    def crash() -> None:
        with transaction.atomic():
            assert meter_and_post(now=NOW).records == 1
            raise CrashError

    with pytest.raises(CrashError):
        crash()
    assert not Batch.objects.exists()
    assert UsageInterval.objects.get().metered_ms == START
    post_all(NOW)
    assert posted_nano() == 16 * USD
    assert verify_ledger() is None


def test_batches_are_chained_and_the_ledger_verifies(world: World) -> None:
    world.price()
    record_runs(facts=[world.run(end_ms=START + n * 1000) for n in range(1, 8)], now=NOW)
    post_all(NOW, limit=3)
    batches = list(Batch.objects.order_by("seq"))
    assert [batch.rows for batch in batches] == [3, 3, 1]
    assert [b.previous_hash for b in batches[1:]] == [b.hash for b in batches[:-1]]
    assert verify_ledger() is None


TAMPER = {
    "amount": "UPDATE accounting_transfer SET amount_nano = amount_nano + 1",
    "both amounts": "UPDATE accounting_transfer SET amount_nano = 5;"
    " UPDATE accounting_batch SET total_nano = 5 * rows",
    "account": "UPDATE accounting_transfer SET debit = 'tenant:other'",
    "record": "UPDATE accounting_usagerecord SET start_ms = start_ms + 1, end_ms = end_ms + 1",
    "transfer gone": "DELETE FROM accounting_transfer WHERE batch_id = 2",
    "batch time": "UPDATE accounting_batch SET at = at + interval '1 s' WHERE seq = 1",
    "batch gone": "UPDATE accounting_transfer SET batch_id = 2; DELETE FROM accounting_batch"
    " WHERE seq = 1; UPDATE accounting_batch SET rows = 2, total_nano = 2 * total_nano",
}


@pytest.mark.parametrize("name", TAMPER)
def test_tampering_behind_the_triggers_back_shows(world: World, name: str) -> None:
    world.price()
    for _ in range(2):
        record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
        meter_and_post(now=NOW)
    assert verify_ledger() is None
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(TAMPER[name])
    assert verify_ledger() is not None


def test_the_command_tells_whether_the_ledger_holds(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("verify_ledger")
    assert "it is empty" in capsys.readouterr().out
    world.price()
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    meter_and_post(now=NOW)
    call_command("verify_ledger")
    assert Batch.objects.get().hash in capsys.readouterr().out
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(TAMPER["account"])
    with pytest.raises(
        CommandError, match=f"batch 1.*\n.*\n  transfer {Transfer.objects.get().id}"
    ):
        call_command("verify_ledger")


def test_the_command_ends_with_1_when_the_ledger_does_not_hold(world: World) -> None:
    world.price()
    for _ in range(2):
        record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
        meter_and_post(now=NOW)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(TAMPER["transfer gone"])
    with pytest.raises(CommandError, match=r"usage record .* has no transfer") as raised:
        call_command("verify_ledger")
    assert raised.value.returncode == 1


@pytest.mark.parametrize(
    "order",
    [
        "UPDATE accounting_usagerecord SET currency = currency",
        "UPDATE accounting_transfer SET currency = currency",
        "UPDATE accounting_batch SET at = at",
        "DELETE FROM accounting_usagerecord",
        "DELETE FROM accounting_transfer",
        "DELETE FROM accounting_batch",
    ],
)
def test_the_ledger_refuses_update_and_delete(world: World, order: str) -> None:
    world.price()
    record_run(fact=world.run(end_ms=START + HOUR_MS), now=NOW)
    meter_and_post(now=NOW)
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(order)
    assert (UsageRecord.objects.count(), Transfer.objects.count(), Batch.objects.count()) == (
        1,
    ) * 3


@pytest.mark.parametrize("number", [1, 100])
def test_posting_takes_a_constant_number_of_statements(
    world: World, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    world.price()
    record_runs(facts=[world.run(end_ms=START + HOUR_MS) for _ in range(number)], now=NOW)
    with django_assert_num_queries(10):
        meter_and_post(now=NOW)
    assert posted_nano() == number * 16 * USD


def test_the_tick_posts_until_nothing_is_due(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.price()
    record_runs(facts=[world.run(end_ms=START + HOUR_MS) for _ in range(3)], now=NOW)
    tasks.post(fired_by="a newer version's beat")
    assert posted_nano() == 48 * USD
    assert backlog(now=NOW).unposted == 0


def test_the_backlog_tells_what_waits(world: World) -> None:
    world.price()
    record_runs(facts=[world.run(), world.run(end_ms=START + 1)], now=NOW)
    waits = backlog(now=NOW + timedelta(seconds=30))
    assert (waits.open, waits.unposted, waits.lag) == (1, 1, timedelta(seconds=30))


def test_what_was_posted_beyond_an_end_told_late_is_counted(world: World) -> None:
    world.price()
    fact = world.run()
    record_run(fact=fact, now=NOW)
    later = NOW + timedelta(days=1)
    world.seen(later)
    post_all(later)
    record_run(fact=ended(fact, START + HOUR_MS), now=later)
    assert UsageInterval.objects.get().ended_ms == START // DAY_MS * DAY_MS + DAY_MS
    assert backlog(now=later).corrections_due == 1
    assert meter_and_post(now=later + timedelta(days=3)).intervals == 0


@pytest.mark.django_db(transaction=True)
def test_two_posters_at_once_post_once() -> None:
    world = build_world()
    world.price()
    record_runs(facts=[world.run(end_ms=START + HOUR_MS) for _ in range(60)], now=NOW)
    barrier = threading.Barrier(4, timeout=20)
    faults: list[BaseException] = []

    def poster() -> None:
        try:
            barrier.wait()
            for _ in range(20):
                meter_and_post(now=NOW, limit=7)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            faults.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=poster) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not faults
    post_all(NOW)
    assert posted_nano() == 60 * 16 * USD
    assert UsageRecord.objects.count() == 60
    assert verify_ledger() is None


@pytest.mark.django_db(transaction=True)
def test_two_workers_tell_the_same_runs_at_once() -> None:
    world = build_world()
    facts = [world.run() for _ in range(50)]
    barrier = threading.Barrier(3, timeout=20)
    faults: list[BaseException] = []

    def teller(turn: int) -> None:
        try:
            barrier.wait()
            record_runs(facts=facts[turn:] + facts[:turn], now=NOW)
            record_runs(facts=[ended(fact, START + 9) for fact in facts], now=NOW)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            faults.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=teller, args=(turn * 10,)) for turn in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not faults
    assert list(UsageInterval.objects.values_list("ended_ms", flat=True)) == [START + 9] * 50


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    start=st.integers(0, 2 * DAY_MS),
    length=st.integers(1, 3 * DAY_MS),
    gpus=st.integers(1, 2048),
    prices=st.lists(st.integers(0, 10**11), min_size=1, max_size=3),
    gaps=st.lists(st.integers(1, 2 * DAY_MS), min_size=2, max_size=2),
    posts=st.lists(st.integers(0, 6 * DAY_MS), max_size=4).map(sorted),
)
def test_the_ledger_agrees_with_an_independent_calculation(
    world: World,
    start: int,
    length: int,
    gpus: int,
    prices: list[int],
    gaps: list[int],
    posts: list[int],
) -> None:
    start_ms = START + start
    changes = [(START - HOUR_MS + sum(gaps[:n]), nano) for n, nano in enumerate(prices)]
    with transaction.atomic():
        for moment, nano in changes:
            world.price(nano=nano, since=from_ms(moment))
        fact = world.run(gpus=gpus, start_ms=start_ms)
        record_run(fact=fact, now=NOW)
        for moment in posts:
            if START + moment < start_ms + length:  # while it runs
                world.seen(_at(moment))
                post_all(_at(moment))
        record_run(fact=ended(fact, start_ms + length), now=_at(6 * DAY_MS))
        post_all(_at(7 * DAY_MS))
        _, billed = exact_cost(
            gpus=gpus, start_ms=start_ms, end_ms=start_ms + length, price_changes=changes
        )
        assert posted_nano(fact.attempt_id) == billed
        assert verify_ledger() is None
        transaction.set_rollback(True)


def _at(moment: int) -> datetime:
    return from_ms(START + moment)

"""Events and audit: written with what caused them, read in an order that skips none."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event as Flag

import psycopg
import pytest
from django.conf import settings
from django.db import connection, connections, transaction
from pytest_django import DjangoAssertNumQueries

from tenancy.models import AuditEntry, Event
from tenancy.services.records import (
    CHANNEL,
    Change,
    ring,
    write_audit,
    write_events,
)
from tests import make
from tests.make import NOW


@pytest.mark.django_db
def test_any_number_of_events_is_one_statement(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    tenant = make.tenant("acme")
    with django_assert_num_queries(1):
        write_events(
            changes=[Change("job.queued", str(n), tenant.id, "submitted") for n in range(500)],
            now=NOW,
        )
    first = Event.objects.order_by("id").first()
    assert first is not None
    assert (first.subject, first.cause, first.at, first.tenant) == ("0", "submitted", NOW, tenant)
    write_events(changes=[], now=NOW)
    assert Event.objects.count() == 500


@pytest.mark.django_db(transaction=True)
def test_an_event_bears_the_transaction_that_wrote_it() -> None:
    with transaction.atomic():
        write_events(changes=[Change("a", "1", None)], now=NOW)
        write_events(changes=[Change("b", "1", None)], now=NOW)
    write_events(changes=[Change("c", "1", None)], now=NOW)
    a, b, c = Event.objects.order_by("id").values_list("xid", flat=True)
    assert a == b < c


@pytest.mark.django_db(transaction=True)
def test_a_reader_can_tell_that_an_older_transaction_is_still_open() -> None:
    """The later event commits first; `pg_snapshot_xmin` holds readers back until both are there."""
    opened, close = Flag(), Flag()

    def slow_writer() -> None:
        try:
            with transaction.atomic():
                write_events(changes=[Change("slow", "1", None)], now=NOW)
                opened.set()
                assert close.wait(60)
        finally:
            connections.close_all()

    def below_xmin() -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT kind FROM tenancy_event"
                " WHERE xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint ORDER BY id"
            )
            return [row[0] for row in cursor.fetchall()]

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(slow_writer)
        try:
            assert opened.wait(60)
            write_events(changes=[Change("quick", "1", None)], now=NOW)
            assert below_xmin() == []
        finally:
            close.set()
        writer.result(20)
    # Transactions of other databases of the server count too, so wait for those there are now.
    end = time.monotonic() + 60
    while below_xmin() != ["slow", "quick"]:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_leaves_neither_event_nor_audit_nor_ring() -> None:
    url = settings.DATABASE_DIRECT_URL.rpartition("/")[0] + f"/{connection.settings_dict['NAME']}"
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        with transaction.atomic():
            write_events(changes=[Change("a", "1", None)], now=NOW)
            write_audit(actor=None, action="a", object_type="t", object_id="1", now=NOW)
            ring()
            transaction.set_rollback(True)
        assert not list(listener.notifies(timeout=0.3))
        with transaction.atomic():
            ring()
            ring()
        heard = list(listener.notifies(timeout=60, stop_after=1))
        assert [(note.channel, note.payload) for note in heard] == [(CHANNEL, "")]
        assert not list(listener.notifies(timeout=0.3))  # equal notices of one transaction merge
    assert not Event.objects.exists()
    assert not AuditEntry.objects.exists()

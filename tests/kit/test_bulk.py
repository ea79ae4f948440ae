"""Rows in and out without the ORM, and whether a kept connection still stands."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import ProgrammingError, connection, transaction
from pytest_django import DjangoAssertNumQueries

from kit.bulk import (
    Statement,
    among,
    columns_of,
    completed,
    insert_rows,
    insertion,
    instance,
    milliseconds_of,
    run,
)
from kit.intervals import to_ms
from kit.postgres.base import DatabaseWrapper
from tenancy.models import Event, Tenant
from tenancy.services.records import Change, write_events

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.django_db
def test_run_gives_the_rows_of_each_statement_in_order() -> None:
    found = run(
        Statement("SELECT %s::int, 'a;b'", (1,)),
        Statement("NOTIFY nobody"),
        Statement("SELECT 1 WHERE false"),
        Statement("SELECT number FROM generate_series(1, %s) number", (3,)),
    )
    assert found == [[(1, "a;b")], [], [], [(1,), (2,), (3,)]]


def _tenant(name: str) -> dict[str, object]:
    key = uuid4()
    return {"id": key, "name": name, "path": name, "lineage": [str(key)]}


@pytest.mark.django_db
def test_inserted_rows_are_whole() -> None:
    """What is given, what all share, and the defaults of the rest, as the ORM reads them."""
    rows = [_tenant("a"), _tenant("b")]
    given: dict[str, UUID] = dict(
        insert_rows(Tenant, rows, {"title": "50 %s; '--"}, returning=("name", "id"))
    )
    read = {tenant.name: tenant for tenant in Tenant.objects.all()}
    assert given == {row["name"]: row["id"] for row in rows} == {n: t.id for n, t in read.items()}
    for row in rows:
        tenant = read[str(row["name"])]
        assert tenant.lineage == [row["id"]]
        assert (tenant.title, tenant.is_open, tenant.revision) == ("50 %s; '--", True, 1)
        assert tenant.parent_id is None


@pytest.mark.django_db
def test_row_ids_follow_the_order_of_the_rows() -> None:
    rows = [{"kind": "k", "subject": str(number), "data": {}} for number in range(300)]
    run(insertion(Event, rows, {"at": NOW, "tenant_id": None}))
    subjects = Event.objects.order_by("id").values_list("subject", flat=True)
    assert list(subjects) == [str(number) for number in range(300)]


@pytest.mark.django_db
def test_without_rows_nothing_runs() -> None:
    assert insert_rows(Event, []) == []
    assert not Event.objects.exists()


@pytest.mark.django_db
def test_an_instance_is_the_saved_object() -> None:
    insert_rows(Tenant, [_tenant("a")])
    (rows,) = run(Statement(f"SELECT {columns_of(Tenant, 't')} FROM tenancy_tenant t"))  # noqa: S608
    tenant = instance(Tenant, rows[0])
    assert tenant == Tenant.objects.get()
    assert tenant.path == "a"
    assert not tenant._state.adding


def test_completed_values_are_made_anew() -> None:
    one, other = completed(Tenant, {"name": "x"}), completed(Tenant, {"name": "x"})
    assert one["name"] == "x"
    assert one["is_open"] is True
    assert isinstance(one["id"], UUID)
    assert one["id"] != other["id"]


@pytest.mark.django_db
def test_a_kept_connection_is_known_to_be_gone() -> None:
    kept = DatabaseWrapper(connection.settings_dict)
    with kept.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    assert kept.is_usable()
    run(Statement("SELECT pg_terminate_backend(%s, 5000)", (pid,)))
    assert not kept.is_usable()
    kept.close()


@pytest.mark.django_db
def test_a_row_that_is_there_already_stands() -> None:
    first, second = _tenant("a"), _tenant("b")
    insert_rows(Tenant, [first])
    again = [{**row, "title": "another"} for row in (first, second)]
    assert insert_rows(Tenant, again, returning=("name",), ignore_conflicts=True) == [("b",)]
    assert Tenant.objects.get(id=first["id"]).title == ""


@pytest.mark.django_db
def test_values_are_one_parameter() -> None:
    rows = [_tenant("a"), _tenant("b"), _tenant("c")]
    insert_rows(Tenant, rows)
    wanted = [row["id"] for row in rows[:2]]
    assert set(Tenant.objects.filter(id__in=among(wanted))) == set(
        Tenant.objects.filter(id__in=wanted)
    )
    names = ["c", "'{\",%s}"]
    assert Tenant.objects.filter(name__in=among(names, "text")).get().id == rows[2]["id"]
    assert not Tenant.objects.filter(id__in=among([])).exists()


@pytest.mark.django_db
def test_what_an_instance_was_not_given_is_read_when_asked_for(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    row = _tenant("a")
    insert_rows(Tenant, [row], {"title": "A"})
    tenant = instance(Tenant, (row["id"], "a"), ("id", "name"))
    with django_assert_num_queries(0):
        assert (tenant.id, tenant.name) == (row["id"], "a")
    with django_assert_num_queries(1):
        assert tenant.title == "A"


def kept_plans() -> list[str]:
    sql = "SELECT statement FROM pg_prepared_statements WHERE name LIKE 'kept%%'"
    return [text for (text,) in run(Statement(sql))[0]]


@pytest.mark.django_db(transaction=True)
def test_a_kept_statement_is_planned_once_for_each_connection() -> None:
    asked = Statement("SELECT %s::int + 1, %s::text", (1, "a; %s 'b'"), is_kept=True)
    connection.close()
    for number in range(3):
        given = replace(asked, params=(number, "a; %s 'b'"))
        assert run(given, given) == [[(number + 1, "a; %s 'b'")]] * 2
    assert len(kept_plans()) == 1
    connection.close()  # as after a minute, or when the server restarts
    assert run(asked) == [[(2, "a; %s 'b'")]]
    assert len(kept_plans()) == 1


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_takes_no_plan_with_it() -> None:
    asked = Statement("SELECT %s::int", (1,), is_kept=True)
    with transaction.atomic():
        run(asked)
        transaction.set_rollback(True)
    assert run(asked) == [[(1,)]]


@pytest.mark.django_db(transaction=True)
def test_what_cannot_be_planned_is_told_as_any_other_fault() -> None:
    for _ in range(2):
        with pytest.raises(ProgrammingError):
            run(Statement("SELECT FROM nowhere_at_all", is_kept=True))
    assert run(Statement("SELECT 1", is_kept=True)) == [[(1,)]]


@pytest.mark.django_db(transaction=True)
def test_behind_a_pooler_nothing_is_kept(settings: Any) -> None:
    settings.IS_POOLED = True
    connection.close()
    assert run(Statement("SELECT %s::int", (4,), is_kept=True)) == [[(4,)]]
    assert kept_plans() == []


@pytest.mark.django_db(transaction=True)
def test_a_kept_insertion_goes_on_when_its_table_gets_a_column() -> None:
    """As in an upgrade: old processes go on under the new schema."""
    with connection.cursor() as cursor:
        write_events(changes=[Change("a.b", "one", None)], now=NOW)
        cursor.execute("ALTER TABLE tenancy_event ADD COLUMN novelty int DEFAULT 7")
        try:
            write_events(changes=[Change("a.b", "two", None)], now=NOW)
        finally:
            cursor.execute("ALTER TABLE tenancy_event DROP COLUMN novelty")
        write_events(changes=[Change("a.b", "three", None)], now=NOW)
    assert list(Event.objects.order_by("id").values_list("subject", flat=True)) == [
        "one", "two", "three",
    ]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("microseconds", [0, 1, 499_999, 500_500, 999_999])
def test_sql_rounds_moments_as_python_does(microseconds: int) -> None:
    moment = NOW.replace(microsecond=microseconds)
    sql = f"SELECT {milliseconds_of('%s::timestamptz')}"
    assert run(Statement(sql, (moment,))) == [[(to_ms(moment),)]]

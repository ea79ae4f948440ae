"""Rows in and out without the ORM, and whether a kept connection still stands."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from kit.bulk import (
    Statement,
    among,
    columns_of,
    completed,
    insert_rows,
    insertion,
    instance,
    run,
)
from kit.postgres.base import DatabaseWrapper
from tenancy.models import Event, Tenant

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

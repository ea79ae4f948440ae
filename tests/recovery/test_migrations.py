"""Old and new workers side by side: migrations since the first release expand, and hold no locks long.

The old code runs on the new schema while processes are replaced, so nothing that it reads or writes
may go, change its name, or be demanded of it. What must go goes a release later, and is listed.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.models import NOT_PROVIDED
from django.utils import timezone

from kit.partitions import partitions_of
from tests.recovery.travel import fresh_database

FIRST = (Path(__file__).parent / "first_release" / "muster.sql").read_text()
OURS = {"tenancy", "clusters", "quotas", "accounting", "federation"}
# What takes something away, or is SQL of our own, with the reason why the old code can bear it.
LISTED = {
    ("clusters", "0004_drop_unread_columns"): "there was no release yet whose code read them",
    ("clusters", "0005_cluster_life"): "its Python is for the way back only",
    ("tenancy", "0004_event_by_month"): "the table keeps its name, columns and rights",
    ("federation", "0004_decision_by_month"): "the table keeps its name, columns and rights",
    ("federation", "0009_large_columns"): "how a column is stored and analyzed is unseen",
    ("federation", "0010_telling"): "the column stays; what is copied and its default are unseen",
    ("clusters", "0007_command_statistics"): "how a column is analyzed is unseen",
    ("accounting", "0003_adjustments"): "a trigger on a table of its own, unknown to the old code",
}


def first_migrations() -> set[tuple[str, str]]:
    """The migrations that the first release had, as its dump tells."""
    part = FIRST.split("INSERT INTO public.django_migrations VALUES", 1)[1].split(";\n", 1)[0]
    return set(re.findall(r"\(\d+, '(\w+)', '(\w+)'", part))


def since() -> list[tuple[str, str]]:
    known = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    return sorted(key for key in known if key[0] in OURS and key not in first_migrations())


def operations(found: migrations.Migration) -> Iterator[Operation]:
    for operation in found.operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            yield from operation.database_operations
        else:
            yield operation


def fault(operation: Operation) -> str:
    """What the old code could not bear, or "". A new column must fill itself in."""
    if isinstance(operation, migrations.AddField):
        field = operation.field
        fills_itself = field.null or field.db_default is not NOT_PROVIDED
        plain = isinstance(field, models.ManyToManyField) or fills_itself
        return "" if plain else f"{operation.model_name}.{operation.name} is demanded of old code"
    if isinstance(operation, (migrations.RunSQL, migrations.RunPython)):
        return "SQL or Python of our own: list it with the reason"
    if isinstance(
        operation,
        (
            migrations.RemoveField,
            migrations.RenameField,
            migrations.DeleteModel,
            migrations.RenameModel,
            migrations.AlterModelTable,
        ),
    ):
        return f"takes away: {operation.describe()}"
    return ""


def test_the_first_release_is_where_the_dump_says() -> None:
    assert {app for app, _ in first_migrations()} >= OURS
    assert since()


@pytest.mark.parametrize("key", since(), ids=".".join)
def test_a_migration_only_expands(key: tuple[str, str]) -> None:
    found = MigrationLoader(None, ignore_no_migrations=True).disk_migrations[key]
    faults = [words for operation in operations(found) if (words := fault(operation))]
    assert not faults or key in LISTED


BY_MONTH = {
    "tenancy": ("0004_event_by_month", "0003_tick", "tenancy_event"),
    "federation": ("0004_decision_by_month", "0003_job_fillfactor", "federation_decision"),
}


@pytest.mark.parametrize("app", BY_MONTH)
@pytest.mark.django_db(transaction=True)
def test_tables_by_month_go_back_and_forth_with_their_rows(app: str) -> None:
    up, down, table = BY_MONTH[app]
    now = timezone.now()
    with fresh_database():
        migrate(app, up)
        assert len(partitions_of(table)) == 4
        fill(table, now, now - timedelta(days=400), now + timedelta(days=400))
        rows = contents(table)
        migrate(app, down)
        assert (contents(table), partitions_of(table)) == (rows, [])
        fill(table, now - timedelta(days=40))
        rows = contents(table)
        assert len(rows) == 4
        migrate(app, up)
        assert contents(table) == rows
        assert len(partitions_of(table)) > 1
        fill(table, now)
        assert len({row[0] for row in contents(table)}) == 5


def migrate(app: str, name: str) -> None:
    call_command("migrate", app, name, interactive=False, verbosity=0, skip_checks=True)


def fill(table: str, *moments: datetime) -> None:
    """A row at each moment, as the code of either release writes it."""
    rest = {
        "tenancy_event": "(at, kind, subject, cause, data) VALUES (%s, 'a', 's', '', '{\"v\": 1}')",
        "federation_decision": "(at, epoch, waiting, bound, stale, took_ms)"
        " VALUES (%s, 1, 2, '[1]', '[]', 3)",
    }[table]
    with connection.cursor() as cursor:
        for moment in moments:
            cursor.execute(f"INSERT INTO {table} {rest}", [moment])


def contents(table: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY id")  # noqa: S608 - names of ours
        return list(cursor.fetchall())


def test_what_is_listed_is_there() -> None:
    assert set(LISTED) <= set(since())

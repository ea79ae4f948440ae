"""Options of the whole suite."""

import os
from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.test import TransactionTestCase
from hypothesis import settings as hypothesis_settings
from psycopg import sql
from pytest_django import DjangoDbBlocker, Settings

# The everyday suite tries the same examples each time; HYPOTHESIS_PROFILE=search looks for new ones.
hypothesis_settings.register_profile("everyday", derandomize=True, deadline=None)
hypothesis_settings.register_profile("search", deadline=None)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "everyday"))

KEPT = {"django_content_type", "auth_permission"}  # made by migrations, the same for all
# Files that take the longest; script/test gives each to one worker as a whole, these first.
LONG = (
    "tests/system/test_taken_away.py",
    "tests/pages/test_browser.py",
    "tests/system/test_forward.py",
    "tests/recovery/test_restore.py",
    "tests/federation/core/test_cycle_properties.py",
    "tests/pages/test_stream.py",
    "tests/federation/test_life.py",
    "tests/script/test_embedded.py",
    "tests/recovery/test_upgrade.py",
    "tests/scenario/test_machine.py",
    "tests/scenario/test_points.py",
    "tests/config/test_logs_of_a_job.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots",
        metavar="DIR",
        default="",
        help="where the browser tests leave pictures of the pages (default: they take none)",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers that take one file after the other end together if the long ones come first."""
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.nodeid.split("::", 1)[0], len(place)))


@pytest.fixture(autouse=True)
def quick_passwords(settings: Settings) -> None:
    """A password hash that is not slow on purpose: tests make many people and sign them in."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """At the end no session of a thread or process that a test left behind keeps the database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", take_all_rows)
        yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def take_all_rows(_: TransactionTestCase) -> None:
    """Empties the database after a test without a transaction around it.

    Django truncates every table, which makes each a new file: a hundred times as dear as to delete
    the few rows of a test. Triggers that keep what is append-only have to sleep meanwhile.
    """
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        for name in {model._meta.db_table for model in models} - KEPT:
            cursor.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))

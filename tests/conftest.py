"""Options of the whole suite."""

import os
from collections.abc import Iterator

import pytest
from django.db import connection
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker, Settings

# The everyday suite tries the same examples each time; HYPOTHESIS_PROFILE=search looks for new ones.
hypothesis_settings.register_profile("everyday", derandomize=True, deadline=None)
hypothesis_settings.register_profile("search", deadline=None)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "everyday"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots",
        metavar="DIR",
        default="",
        help="where the browser tests leave their pictures (default: a temporary directory)",
    )


@pytest.fixture(autouse=True)
def quick_passwords(settings: Settings) -> None:
    """A password hash that is not slow on purpose: tests make many people and sign them in."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """At the end no session of a thread or process that a test left behind keeps the database."""
    yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

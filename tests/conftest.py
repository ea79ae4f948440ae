"""Options of the whole suite."""

import pytest
from pytest_django import Settings


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

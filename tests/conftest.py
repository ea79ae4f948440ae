"""Options of the whole suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--screenshots",
        metavar="DIR",
        default="",
        help="where the browser tests leave their pictures (default: a temporary directory)",
    )

"""The entrance of the web process: whom it lets past what only pages need."""

import json
from collections.abc import Iterable
from io import BytesIO
from typing import Any

import pytest
from django.conf import settings

from config.wsgi import application
from tests.api.world import World, client

pytestmark = pytest.mark.django_db(transaction=True)  # the entrance closes connections


def ask(path: str, **environ: str) -> tuple[int, dict[str, str], Any]:
    """GET through the real WSGI entrance."""
    told: list[tuple[str, list[tuple[str, str]]]] = []

    def start(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
        told.append((status, headers))

    whole = {
        "REQUEST_METHOD": "GET", "PATH_INFO": path, "SERVER_NAME": "localhost",
        "SERVER_PORT": "80", "wsgi.input": BytesIO(), "wsgi.url_scheme": "http", **environ,
    }  # fmt: skip
    body: Iterable[bytes] = application(whole, start)
    text = b"".join(body).decode()
    ((status, headers),) = told
    is_json = dict(headers).get("Content-Type", "").startswith("application/")
    return int(status[:3]), dict(headers), json.loads(text) if is_json else text


def test_a_program_is_answered_as_ever_and_gets_no_cookie(world: World) -> None:
    status, headers, me = ask("/api/v1/me", HTTP_AUTHORIZATION=f"Bearer {world.bob.token}")
    assert (status, me["username"]) == (200, "bob")
    assert not headers.keys() & {"Set-Cookie", "Content-Security-Policy"}
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Request-Id"]


@pytest.mark.parametrize("bearer", ["Bearer nonsense", "Bearer "])
def test_a_wrong_token_is_a_problem_and_no_visitor(world: World, bearer: str) -> None:
    status, _, problem = ask("/api/v1/me", HTTP_AUTHORIZATION=bearer)
    assert (status, problem["code"]) == (401, "not_authenticated")


def test_a_cookie_is_read_only_where_nobody_bears_a_token(world: World) -> None:
    """Else a page of somebody else's could send one along and be let past the check of forms."""
    browser = client()
    browser.force_login(world.bob.user)
    cookie = f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"
    status, _, me = ask("/api/v1/me", HTTP_COOKIE=cookie)
    assert (status, me["username"]) == (200, "bob")
    refused = ask("/api/v1/me", HTTP_COOKIE=cookie, HTTP_AUTHORIZATION="Bearer nonsense")
    assert refused[0] == 401
    page = ask("/", HTTP_COOKIE=cookie, HTTP_AUTHORIZATION="Bearer nonsense")
    assert "Content-Security-Policy" in page[1]


def test_what_is_spared_is_there_to_be_spared() -> None:
    assert set(settings.MIDDLEWARE) > settings.PAGES_ONLY

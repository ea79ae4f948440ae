"""Log lines: ids of what is being worked on, in both forms; request ids; names of processes."""

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from kit.aside import Aside
from kit.logs import (
    JsonFormatter,
    LineFormatter,
    bound,
    ids_now,
    process_name,
    request_id_middleware,
)


def record(message: str = "said", **extra: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "a.b", **extra})


def as_json(line: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(line)
    assert "\n" not in text
    value: dict[str, Any] = json.loads(text)
    return value


def test_ids_are_bound_inside_and_only_there() -> None:
    with bound(job="j1", cluster=""):
        with bound(fence="mst-x-a1", job="j2"):
            assert ids_now() == {"job": "j2", "fence": "mst-x-a1"}
            line = as_json(record())
            assert (line["job"], line["fence"], line["message"]) == ("j2", "mst-x-a1", "said")
        assert ids_now() == {"job": "j1"}
    assert ids_now() == {}
    assert "job" not in as_json(record())


def test_threads_do_not_share_them() -> None:
    with bound(job="mine"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: dict(ids_now())).result() == {}


def test_work_that_is_done_aside_keeps_them() -> None:
    seen: list[dict[str, str]] = []
    aside = Aside(1, 60)
    with bound(task="t"):
        assert aside.run("key", lambda: seen.append(dict(ids_now())))
    assert aside.run("key", lambda: seen.append(dict(ids_now())))
    aside.close()
    assert seen == [{"task": "t"}, {}]


def test_a_line_has_its_own_ids_and_they_win() -> None:
    with bound(job="bound", request_id="r"):
        line = as_json(record(ids={"job": "own"}))
    assert (line["job"], line["request_id"]) == ("own", "r")


@given(st.text(), st.dictionaries(st.sampled_from(["level", "message", "time", "x"]), st.text()))
def test_every_line_is_one_object_and_ids_replace_nothing(text: str, ids: dict[str, str]) -> None:
    line = as_json(record("%s", args=(text,), ids=ids))
    assert line["message"] == text
    assert line["level"] == "INFO"
    assert line["time"].endswith("Z")
    assert line.get("x") == ids.get("x")


def test_a_traceback_stays_in_its_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = as_json(record(exc_info=sys.exc_info()))
    assert "ValueError: two\nlines" in line["exception"]


def test_a_line_for_people_ends_with_the_ids() -> None:
    with bound(job="j1", task="t"):
        assert LineFormatter().format(record()).endswith(" INFO a.b said [job=j1 task=t]")
    assert LineFormatter().format(record()).endswith(" INFO a.b said")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/venv/bin/gunicorn", "config.wsgi:application"], "web"),
        (["uvicorn", "config.asgi:application"], "stream"),
        (["manage.py", "arbiter", "--skip-checks"], "arbiter"),
        (["/srv/config/worker.py", "dispatch", "--concurrency", "8"], "worker-dispatch"),
        (["/srv/config/beat.py", "--schedule", "x"], "beat"),
        (["/usr/bin/pytest"], "pytest"),
        ([], "python"),
    ],
)  # fmt: skip
def test_processes_have_their_names(command: list[str], name: str) -> None:
    assert process_name(command) == name


def answer(given: str | None) -> tuple[str, str]:
    """The id that the view saw, and the one that was sent back."""
    seen: list[str] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(ids_now()["request_id"])
        return HttpResponse()

    headers = {} if given is None else {"X-Request-Id": given}
    response = request_id_middleware(view)(RequestFactory().get("/", headers=headers))
    return seen[0], response.headers["X-Request-Id"]


def test_a_request_keeps_the_id_it_came_with() -> None:
    assert answer("trace-0123456789") == ("trace-0123456789", "trace-0123456789")


@pytest.mark.parametrize("given", [None, "", "short", "x" * 65, "a b c d e f g", "né-0123456789"])
def test_otherwise_it_gets_a_new_one(given: str | None) -> None:
    seen, sent = answer(given)
    assert seen == sent != given
    assert len(sent) == 36
    assert answer(given)[0] != seen


def test_what_changes_something_leaves_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "muster.request")
    handle = request_id_middleware(lambda _: HttpResponse(status=201))
    handle(
        RequestFactory().post("/api/v1/jobs?tenant=secret", headers={"Authorization": "Bearer s"})
    )
    handle(RequestFactory().get("/api/v1/jobs"))
    assert [line.getMessage() for line in caplog.records] == ["POST /api/v1/jobs 201"]

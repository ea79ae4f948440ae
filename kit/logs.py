"""Log lines that can be followed: each carries the ids of what is being worked on.

Ids (`request_id`, `job`, `fence`, `cluster`, `task`, ...) are bound at the edges with `bound`, in a
context variable; both formatters add whatever is bound to every line of that thread or task, from
whichever library it comes. Message and ids are all that a line says: never a body, a header or a
setting.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING

from kit.ids import new_id
from kit.intervals import iso

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse  # 10 MB that beat does without

REQUEST_ID = "X-Request-Id"
_GIVEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_BOUND: ContextVar[Mapping[str, str]] = ContextVar("muster_log_ids")
_NOTHING: Mapping[str, str] = {}


@contextmanager
def bound(**ids: object) -> Iterator[None]:
    """Adds ids to every line that is logged inside; what is empty is left out."""
    held = _BOUND.set({**ids_now(), **{name: str(value) for name, value in ids.items() if value}})
    try:
        yield
    finally:
        _BOUND.reset(held)


def ids_now() -> Mapping[str, str]:
    """The ids that are bound here."""
    return _BOUND.get(_NOTHING)


def _ids_of(record: logging.LogRecord) -> dict[str, object]:
    """What is bound, and the line's own ids (`extra={"ids": {...}}`), which win."""
    return {**ids_now(), **getattr(record, "ids", _NOTHING)}


class LineFormatter(logging.Formatter):
    """For people: the message, then the ids in brackets."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line without a traceback."""
        ids = " ".join(f"{name}={value}" for name, value in _ids_of(record).items())
        line = super().formatMessage(record)
        return f"{line} [{ids}]" if ids else line


class JsonFormatter(logging.Formatter):
    """For programs: one JSON object a line. Ids never replace a field of the line itself."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole line; a traceback is the field `exception`."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": iso(at),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": process_name(sys.argv),
            "pid": record.process,
        }
        for name, value in _ids_of(record).items():
            line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def process_name(argv: Sequence[str]) -> str:
    """What a process is called in its lines, of its command line: `web`, `worker-dispatch`, ..."""
    program = PurePath(argv[0]).name if argv else ""
    words = [word for word in argv[1:] if not word.startswith("-")]
    if program in _SERVERS:
        return _SERVERS[program]
    if program == "worker.py" and words:
        return f"worker-{words[0]}"
    if program == "manage.py" and words:
        return words[0]
    return program or "python"


_SERVERS = {"gunicorn": "web", "uvicorn": "stream", "beat.py": "beat"}


def request_id_middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Every request has an id, the caller's own if it sent a fit one; the answer bears it too.

    What changes something leaves a line.
    """
    logger = logging.getLogger("muster.request")

    def handle(request: HttpRequest) -> HttpResponse:
        given = request.headers.get(REQUEST_ID, "")
        number = given if _GIVEN.fullmatch(given) else str(new_id())
        with bound(request_id=number):
            response = get_response(request)
            response.headers[REQUEST_ID] = number
            if request.method not in ("GET", "HEAD"):
                logger.info("%s %s %s", request.method, request.path, response.status_code)
        return response

    return handle

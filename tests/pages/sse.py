"""A small reader of server-sent events for tests."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx


class Reader:
    """Reads one stream: `events` are the documents in order, `comments` the comment lines."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.events: list[dict[str, Any]] = []
        self.comments: list[str] = []
        self.last_id = ""
        self._lines = response.iter_lines()

    def until(self, done: "Callable[[Reader], bool]", timeout_s: float = 60.0) -> bool:
        """Read until `done(self)`; False when the stream ended first. Heartbeats keep it awake."""
        deadline = time.monotonic() + timeout_s
        while not done(self):
            assert time.monotonic() < deadline, (self.events, self.comments)
            line = next(self._lines, None)
            if line is None:
                return False
            self._take(line)
        return True

    def take(self, count: int) -> list[str]:
        """The subjects of the first `count` events."""
        self.until(lambda reader: len(reader.events) >= count)
        return [event["subject"] for event in self.events[:count]]

    def _take(self, line: str) -> None:
        name, _, value = line.partition(": ")
        if line.startswith(":"):
            self.comments.append(line[2:])
        elif name == "id":
            self.last_id = value
        elif name == "data":
            self.events.append(json.loads(value))


@contextmanager
def reading(url: str, token: str, since: int | None = None, **headers: str) -> Iterator[Reader]:
    """Open the stream and read its greeting, so that what happens next is seen."""
    parameters = {} if since is None else {"since": str(since)}
    given = {"Authorization": f"Bearer {token}", **headers}
    with (
        httpx.Client(timeout=60) as client,
        client.stream("GET", f"{url}/api/v1/events", params=parameters, headers=given) as response,
    ):
        assert response.status_code == 200, response.read()
        reader = Reader(response)
        reader.until(lambda it: it.last_id)
        yield reader

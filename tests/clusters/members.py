"""Members of one's own words behind the real Slurm backend: how hard they are called, and what
they do then. `connect` takes the place of the Slurm backend in the registry.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from clusters import backends
from clusters.backends.slurm.backend import SlurmBackend
from clusters.backends.slurm.client import SlurmClient
from clusters.core.backend import Connection
from tests.clusters.backends.fake import reply


class Member(httpx.BaseTransport):
    """A controller that keeps what is submitted; `first` may answer, hang or fail in its place."""

    def __init__(self, first: Callable[[httpx.Request], httpx.Response | None]) -> None:
        self.first = first
        self.jobs: dict[int, dict[str, object]] = {}
        self.asked: list[str] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        path = request.url.path.rpartition("/v0.0.38/")[2]
        with self._lock:
            self.asked.append(f"{request.method} {path}")
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            return self.first(request) or self._answer(request.method, path, request.content)
        finally:
            with self._lock:
                self._now -= 1

    def _answer(self, method: str, path: str, content: bytes) -> httpx.Response:
        with self._lock:
            if path == "job/submit":
                wanted = json.loads(content)["job"]
                number = len(self.jobs) + 1
                self.jobs[number] = {
                    "job_id": number,
                    "name": wanted["name"],
                    "comment": wanted["comment"],
                    "user_name": "mia",
                    "job_state": "PENDING",
                    "state_reason": "JobHeldUser",
                    "nodes": "",
                }
                return reply(job_id=number)
            if method == "GET":
                return reply(jobs=list(self.jobs.values()))
            found = self.jobs[int(path.removeprefix("job/"))]
            found["state_reason"] = "Priority"
            if method == "DELETE":
                found["job_state"] = "CANCELLED"
            return reply()


_members: dict[str, Member] = {}


def connect(connection: Connection) -> SlurmBackend:
    """The Slurm backend over the member of this name."""
    return SlurmBackend(SlurmClient(connection, transport=_members[connection.name]))


@contextmanager
def installed(**members: Member) -> Iterator[None]:
    """These members by the names of their clusters."""
    patch = pytest.MonkeyPatch()
    patch.setitem(backends.BACKENDS, "slurm", __name__)
    _members.update(members)
    try:
        yield
    finally:
        patch.undo()
        _members.clear()

"""A slurmrestd of one's own words: a table of replies, for shapes that no recording has."""

import json
from collections.abc import Callable, Mapping

import httpx

from clusters.backends.slurm.backend import SlurmBackend
from clusters.backends.slurm.client import SlurmClient
from clusters.core.backend import Connection

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


def reply(status: int = 200, **body: object) -> httpx.Response:
    return httpx.Response(status, json={"errors": [], **body})


def faulty(status: int, *errors: object, **body: object) -> httpx.Response:
    return httpx.Response(status, json={"errors": list(errors), **body})


class Table(httpx.BaseTransport):
    """Answers by `METHOD path` (below the API's prefix, without query); keeps what was asked."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, object]] = []
        self.headers: list[httpx.Headers] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        path = request.url.path
        key = f"{request.method} {path.split('/', 3)[3] if path.count('/') > 2 else path}"
        if path.startswith("/slurmdb/"):
            key = key.replace(" ", " slurmdb/", 1)
        body = json.loads(request.content) if request.content else None
        self.asked.append((f"{key}?{request.url.query.decode()}".rstrip("?"), body))
        self.headers.append(request.headers)
        answer = self.answers[key]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer


def connection(**options: str) -> Connection:
    named = {key.replace("__", "."): value for key, value in options.items()}
    return Connection("made", "http://made.example", b"k" * 32, "slurm", named)


def client(table: httpx.BaseTransport, **options: str) -> SlurmClient:
    return SlurmClient(connection(api_version="v0.0.38", **options), transport=table)


def backend(table: httpx.BaseTransport, **options: str) -> SlurmBackend:
    given = {"api_version": "v0.0.38", **options}
    return SlurmBackend(SlurmClient(connection(**given), transport=table))

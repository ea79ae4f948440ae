"""Transports for tests: record a real exchange, replay it, lose an answer on the way."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx

Json = dict[str, object]


def _request_of(request: httpx.Request) -> Json:
    """What must be the same on replay: everything but the token and the host."""
    body = request.content.decode() if request.content else ""
    return {
        "method": request.method,
        "path": request.url.raw_path.decode(),
        "user": request.headers["X-SLURM-USER-NAME"],
        "body": json.loads(body) if body else None,
    }


def _slim(path: str, reply: str, salt: str) -> str:
    """The reply without what no test reads, so that recordings stay small and equal replies equal.

    Cut: other scenarios' jobs, the load of nodes, statistics but the clock, schemas but paths.
    """
    try:
        body = json.loads(reply)
    except ValueError:
        return reply
    if path == "/openapi/v3":
        body = {"paths": {name: {} for name in body["paths"]}}
    if "statistics" in body:
        body["statistics"] = {"req_time": body["statistics"].get("req_time", 0)}
    for node in body.get("nodes") or []:
        node.update(cpu_load=0, free_memory=0)
    if path.endswith("/jobs"):
        body["jobs"] = [job for job in body.get("jobs") or [] if salt in job["name"]]
    return json.dumps(body, separators=(",", ":"))


class Recording(httpx.BaseTransport):
    """Passes on to the real thing and keeps every exchange, tokens left out."""

    def __init__(self, inner: httpx.BaseTransport, salt: str) -> None:
        self.inner = inner
        self.salt = salt
        self.exchanges: list[Json] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        response = self.inner.handle_request(request)
        response.read()
        reply = _slim(request.url.path, response.text, self.salt)
        self.exchanges.append(
            _request_of(request) | {"status": response.status_code, "reply": reply}
        )
        return httpx.Response(response.status_code, content=reply)  # what will be replayed

    def save(self, path: Path, facts: Json) -> None:
        """A line of facts that repeat the scenario, then one exchange a line; a reply that came
        before is told by the line it stands on.
        """
        lines = [json.dumps(facts)]
        first: dict[object, int] = {}
        for exchange in self.exchanges:
            line = first.setdefault(exchange["reply"], len(lines))
            told = exchange | {"reply": line} if line < len(lines) else exchange
            lines.append(json.dumps(told))
        path.write_text("\n".join(lines) + "\n")


class Replay(httpx.BaseTransport):
    """Answers exactly the recorded requests, in their order, and nothing else."""

    def __init__(self, path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines[1:]:
            if isinstance(line["reply"], int):
                line["reply"] = lines[line["reply"]]["reply"]
        self.facts: Json = lines[0]
        self.left = lines[1:]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        assert self.left, f"beyond the recording: {request.method} {request.url}"
        exchange = self.left.pop(0)
        expected = {key: exchange[key] for key in ("method", "path", "user", "body")}
        assert _request_of(request) == expected
        return httpx.Response(exchange["status"], content=exchange["reply"])


class LosesAnswers(httpx.BaseTransport):
    """Sends what it should, then loses the answers of those requests that `when` picks."""

    def __init__(
        self, inner: httpx.BaseTransport, when: Callable[[httpx.Request], bool], times: int = 1
    ) -> None:
        self.inner = inner
        self.when = when
        self.left = times

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        if self.left and self.when(request):
            self.left -= 1
            response.read()
            response.close()
            raise httpx.ReadError("connection reset by the test", request=request)
        return response


def is_submit(request: httpx.Request) -> bool:
    return request.url.path.endswith("/job/submit")


def is_release(request: httpx.Request) -> bool:
    return request.method == "POST" and not is_submit(request)

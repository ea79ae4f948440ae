"""A cluster in the same process, as an httpx transport, for tests that own the time.

`httpx.Client(transport=InProcess(cluster), base_url=...)` speaks to a cluster with a manual clock
and no sockets. Faults look to the client as they do on a wire: refused, reset and dropped
connections are httpx's own errors, and a delay lets the manual clock go on. Where a delay is longer
than the client's read timeout, the client gets its timeout, and the request goes on without it when
the clock gets there: that is how a late duplicate is made. A watch is an answer that goes on: who
reads its lines lets the clock go on.
"""

import contextlib
import types
from collections.abc import Callable, Generator, Iterator
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

from simulator.runtime import Timed
from simulator.server import respond
from simulator.slurm.calls import DropConnection

Waits = Generator[int, None, Response]


@types.coroutine
def _wait(ms: int) -> Generator[int, None, None]:
    """Hand the delay to whoever drives the request."""
    yield ms


class InProcess(httpx.BaseTransport):
    """Calls a cluster directly. `elapse` lets milliseconds pass; by default the cluster's own."""

    def __init__(self, cluster: Timed, elapse: Callable[[int], object] | None = None) -> None:
        """Take the cluster's delays into virtual time."""
        self.cluster = cluster
        self.elapse = elapse or cluster.advance_ms
        cluster.pause = _wait

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The cluster's answer, or the error of httpx that its fault looks like."""
        if self.cluster.now_ms() < self.cluster.faults.refused_until_ms:
            raise httpx.ConnectError("[Errno 111] Connection refused", request=request)
        try:
            answered = self._drive(_begin(self.cluster, request), request)
        except DropConnection as drop:
            raise _lost(drop, request) from None
        headers = [(k, v) for k, v in answered.headers.items() if k != "content-length"]
        if isinstance(answered, StreamingResponse):
            stream = _Flow(answered, self.elapse, request)
            return httpx.Response(answered.status_code, headers=headers, stream=stream)
        return httpx.Response(answered.status_code, headers=headers, content=bytes(answered.body))

    def _drive(self, waits: Waits, request: httpx.Request) -> Response:
        """Let the request wait as often as it wants, until the client's patience is over."""
        patience_s = request.extensions.get("timeout", {}).get("read")
        left_ms = None if patience_s is None else round(patience_s * 1000)
        while True:
            try:
                ms = next(waits)
            except StopIteration as done:
                answered: Response = done.value
                return answered
            if left_ms is not None and ms > left_ms:
                self._go_on_later(waits, ms)
                self.elapse(left_ms)
                raise httpx.ReadTimeout("timed out", request=request)
            left_ms = None if left_ms is None else left_ms - ms
            self.elapse(ms)

    def _go_on_later(self, waits: Waits, ms: int) -> None:
        """The client has gone; what it asked for happens all the same."""

        def go_on() -> None:
            with contextlib.suppress(StopIteration, DropConnection):
                self._go_on_later(waits, next(waits))

        self.cluster.later(self.cluster.now_ms() + ms, go_on)


class _Flow(httpx.SyncByteStream):
    """The chunks of an answer that goes on, each when the clock gets there."""

    def __init__(
        self, answered: StreamingResponse, elapse: Callable[[int], object], request: httpx.Request
    ) -> None:
        self.chunks: Any = answered.body_iterator
        self.elapse = elapse
        self.request = request

    def __iter__(self) -> Iterator[bytes]:
        """ReadTimeout and RemoteProtocolError as on a wire."""
        patience_s = self.request.extensions.get("timeout", {}).get("read")
        left_ms = most_ms = None if patience_s is None else round(patience_s * 1000)
        waits = self.chunks.__anext__().__await__()
        while True:
            try:
                ms = next(waits)
            except StopIteration as done:
                yield done.value
                left_ms, waits = most_ms, self.chunks.__anext__().__await__()
                continue
            except StopAsyncIteration:
                return
            except DropConnection as drop:
                raise _lost(drop, self.request) from None
            self.elapse(ms)
            left_ms = None if left_ms is None else left_ms - ms
            if left_ms is not None and left_ms < 0:
                raise httpx.ReadTimeout("timed out", request=self.request)


def _begin(cluster: Timed, request: httpx.Request) -> Waits:
    """The request under way; it yields the milliseconds it wants to wait."""
    body = request.read()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    scope: dict[str, Any] = {
        "type": "http",
        "method": request.method,
        "path": request.url.path,
        "raw_path": request.url.raw_path,
        "query_string": request.url.query,
        "headers": [(k.lower(), v) for k, v in request.headers.raw],
        "client": ("127.0.0.1", 1),
    }
    waits: Waits = respond(cluster, Request(scope, receive)).__await__()
    return waits


def _lost(drop: DropConnection, request: httpx.Request) -> httpx.HTTPError:
    if drop.reset:
        return httpx.ReadError("[Errno 104] Connection reset by peer", request=request)
    words = "Server disconnected without sending a response."
    if drop.sent is not None:
        words = "peer closed connection without sending complete message body"
    return httpx.RemoteProtocolError(words, request=request)

"""A proxy in front of one slurmrestd that stops a chosen call at a chosen moment.

It stands between Muster and the cluster only while a test wants to be in between. A held call goes
on (`release`) or is lost (`drop`) when the test says so, whoever still waits for it.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

PATIENCE_S = 60
Side = Literal["request", "reply"]


@dataclass
class Moment:
    """One call that is to be stopped, once: before slurmrestd sees it, or before it is answered."""

    method: str
    path: str
    side: Side
    _reached: threading.Event = field(default_factory=threading.Event)
    _decided: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _lost: bool = False
    _taken: bool = False

    def reached(self, within_s: float = 30) -> None:
        """Waits until the call stands still."""
        assert self._reached.wait(within_s), f"no {self.method} {self.path} within {within_s} s"

    def release(self) -> None:
        """Lets it go on, and waits until slurmrestd has answered it."""
        self._decided.set()
        assert self._over.wait(PATIENCE_S), "slurmrestd does not answer"

    def drop(self) -> None:
        """Loses it: what is on the way never arrives, and the connection ends."""
        self._lost = True
        self._decided.set()

    def take(self, method: str, path: str) -> bool:
        """Whether this call is the one; only the first is."""
        fits = not self._taken and method == self.method and re.search(self.path, path) is not None
        self._taken = self._taken or fits
        return fits

    def stop(self) -> bool:
        """Stands still until the test has decided; whether the call is lost."""
        self._reached.set()
        self._decided.wait(PATIENCE_S)
        return self._lost

    def end(self) -> None:
        """Says that slurmrestd has answered."""
        self._over.set()


class Gate:
    """The proxy itself; `endpoint` is where Muster is to go."""

    def __init__(self, endpoint: str) -> None:
        self._target = urlsplit(endpoint)
        self._moments: list[Moment] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def hold(self, method: str, path: str, side: Side) -> Moment:
        """The next call with this method and a path that the expression finds will be held."""
        moment = Moment(method, path, side)
        with self._lock:
            self._moments.append(moment)
        return moment

    def _moment(self, method: str, path: str) -> Moment | None:
        with self._lock:
            return next((one for one in self._moments if one.take(method, path)), None)

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, str, bytes] | None:
        """slurmrestd's answer, or None when the call or its answer is lost."""
        moment = self._moment(method, path)
        if moment and moment.side == "request" and moment.stop():
            return None
        upstream = HTTPConnection(self._target.hostname or "", self._target.port, timeout=30)
        try:
            upstream.request(method, path, body or None, headers)
            reply = upstream.getresponse()
            kind = reply.headers.get("Content-Type", "application/json")
            answer = reply.status, kind, reply.read()
        except OSError:
            return None
        finally:
            upstream.close()
            if moment:
                moment.end()
        return None if moment and moment.side == "reply" and moment.stop() else answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kept = {
                    name: value
                    for name, value in self.headers.items()
                    if name.lower().startswith(("x-slurm", "content-type", "accept"))
                }
                answer = gate.forward(self.command, self.path, kept, body)
                self.close_connection = answer is None
                if answer is None:
                    return
                status, kind, content = answer
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:  # the worker that asked is dead
                    self.close_connection = True

            do_GET = do_POST = do_DELETE = _pass  # noqa: N815 - the server's names

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler

    @contextmanager
    def open(self) -> Iterator["Gate"]:
        """Serves until the block ends; what is still held is lost then."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            for moment in self._moments:
                moment.drop()
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)

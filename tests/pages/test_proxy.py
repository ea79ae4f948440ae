"""The one origin: what the stream process passes on to web, and how."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.pages.servers import stream


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked, in headers and body."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self._chunks() if "Transfer-Encoding" in self.headers else self.rfile.read(length)
        lines = [
            f"{self.command} {self.path}",
            *(f"{k.lower()}: {v}" for k, v in self.headers.items()),
        ]
        self.send_response(207)
        self.send_header("Set-Cookie", "a=1")
        self.send_header("Set-Cookie", "b=2")
        self.send_header("Connection", "X-Private")
        self.send_header("X-Private", "for this connection only")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in ("\n".join(lines).encode(), b"\n\n", body):
            if part:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    do_POST = do_GET  # noqa: N815 - the handler's own naming

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def front(django_db_setup: None) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as echo:
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        with stream(f"http://127.0.0.1:{echo.server_port}") as url:
            yield url
        echo.shutdown()


def test_a_request_goes_through_as_it_is(front: str) -> None:
    headers = {"Host": "muster.example", "X-Mine": "kept", "X-Forwarded-Host": "evil.example",
               "Connection": "close, X-Hop", "X-Hop": "dropped"}  # fmt: skip
    answer = httpx.get(f"{front}/a%2Fb/%C3%BC?x=1&y=%20", headers=headers)
    head = answer.text.partition("\n\n")[0].splitlines()
    assert head[0] == "GET /a%2Fb/%C3%BC?x=1&y=%20"
    assert "host: muster.example" in head
    assert "x-mine: kept" in head
    assert "x-forwarded-for: 127.0.0.1" in head
    assert "x-forwarded-proto: http" in head
    assert not [line for line in head if "x-hop" in line.partition(":")[0] or "evil" in line]
    assert answer.status_code == 207
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert "x-private" not in answer.headers


@pytest.mark.parametrize("is_chunked", [False, True])
def test_bodies_are_passed_on_whole(front: str, is_chunked: bool) -> None:
    body = bytes(range(256)) * 8192  # 2 MiB
    content = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    answer = httpx.post(f"{front}/x", content=content if is_chunked else body, timeout=30)
    head, _, back = answer.content.partition(b"\n\n")
    assert back == body
    assert (b"content-length: 2097152" in head) is not is_chunked


def test_events_do_not_go_there(front: str) -> None:
    assert httpx.get(f"{front}/api/v1/events").json()["code"] == "not_authenticated"

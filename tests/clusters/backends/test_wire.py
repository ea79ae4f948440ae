"""Exchanges over real sockets: what is kept, what is a lost answer, and when time is over."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from kit.wire import KeptWire, Request, WireError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Odd: Yes\r\n\r\n{}"
ASK = Request("POST", "/x?y=1", {"X-A": "b"}, b"{}")
Serve = Callable[[socket.socket], None]


@contextmanager
def serving(*connections: Serve) -> Iterator[str]:
    """A server that treats its first connection by the first function, and so on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def run() -> None:
            for serve in connections:
                with closing(listener.accept()[0]) as peer:
                    serve(peer)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/base/"
        thread.join(60)
        assert not thread.is_alive()


def heard(peer: socket.socket) -> bytes:
    """One whole request."""
    data = b""
    while not data.endswith(b"\r\n\r\n{}"):
        data += peer.recv(65536)
    return data


def answers(*replies: bytes) -> Serve:
    """Gives each request the next reply, then ends the connection."""

    def serve(peer: socket.socket) -> None:
        for reply in replies:
            assert heard(peer).startswith(b"POST /base/x?y=1 HTTP/1.1\r\n")
            peer.sendall(reply)

    return serve


def test_a_connection_is_kept_between_exchanges() -> None:
    with serving(answers(OK, OK, OK)) as url, closing(KeptWire(url, 5)) as wire:
        found = [wire.exchange(ASK, 60) for _ in range(3)]
    assert [(answer.status, answer.content) for answer in found] == [(200, b"{}")] * 3
    assert found[0].headers["x-odd"] == "Yes"


def test_a_connection_that_the_server_ended_meanwhile_is_not_used_again() -> None:
    ended = threading.Event()

    def once(peer: socket.socket) -> None:
        answers(OK)(peer)
        peer.shutdown(socket.SHUT_RDWR)
        ended.set()

    with serving(once, answers(OK)) as url, closing(KeptWire(url, 5)) as wire:
        wire.exchange(ASK, 60)
        assert ended.wait(60)
        assert wire.exchange(ASK, 60).status == 200


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n[1,2]",
        b"HTTP/1.1 200 OK\r\n\r\n[1,2]",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n3\r\n,2]\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[1,2]",
    ],
    ids=["closed after", "until the end", "chunked", "kept"],
)
def test_every_form_of_a_whole_answer(reply: bytes) -> None:
    with serving(answers(reply)) as url, closing(KeptWire(url, 5)) as wire:
        assert wire.exchange(ASK, 60).content == b"[1,2]"


def test_an_empty_answer_and_a_large_one() -> None:
    large = b"x" * 3_000_000
    replies = (
        b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + large,
    )
    with serving(answers(*replies)) as url, closing(KeptWire(url, 5)) as wire:
        assert wire.exchange(ASK, 60).content == b""
        assert wire.exchange(ASK, 60).content == large


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[1",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[1",
        b"SSH-2.0-OpenSSH\r\n",
    ],
    ids=["nothing", "half a body", "half a chunk", "no HTTP"],
)
def test_an_answer_that_is_not_whole_was_sent_all_the_same(reply: bytes) -> None:
    with (
        serving(answers(reply)) as url,
        closing(KeptWire(url, 5)) as wire,
        pytest.raises(WireError) as caught,
    ):
        wire.exchange(ASK, 60)
    assert caught.value.was_sent


def test_nobody_listens_so_nothing_was_sent() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(WireError) as caught:
        KeptWire(f"http://127.0.0.1:{port}", 5).exchange(ASK, 60)
    assert not caught.value.was_sent


def test_an_answer_that_trickles_ends_at_the_deadline() -> None:
    is_over = threading.Event()

    def trickle(peer: socket.socket) -> None:
        heard(peer)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not is_over.wait(0.02):
            peer.sendall(b"x")

    began_s = time.monotonic()
    with serving(trickle) as url, closing(KeptWire(url, 5)) as wire:
        with pytest.raises(WireError, match="time") as caught:
            wire.exchange(ASK, 0.5)
        is_over.set()
    assert caught.value.was_sent
    assert time.monotonic() - began_s < 60  # 100,000 bytes would have taken half an hour

"""Real web and stream processes over the test database, on free ports."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import httpx
from django.db import connection


def database_url() -> str:
    """The address of the database the test's own connection uses."""
    at = connection.settings_dict
    login = f"{quote(at['USER'])}:{quote(at['PASSWORD'])}"
    return f"postgres://{login}@{at['HOST']}:{at['PORT']}/{at['NAME']}"


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A socket bound to a free port of the loopback, for a child to inherit."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        yield server


@contextmanager
def running(argv: list[str], server: socket.socket, ready: str, **own: str) -> Iterator[str]:
    """A child that serves on the inherited socket; yields its address, stops it by SIGTERM."""
    url = f"http://127.0.0.1:{server.getsockname()[1]}"
    environment = {
        **os.environ,
        "DATABASE_URL": database_url(),
        "DATABASE_DIRECT_URL": database_url(),
        "MUSTER_SECURE_COOKIES": "false",
        **own,
    }
    command = [sys.executable, "-m", *argv]
    with subprocess.Popen(command, env=environment, pass_fds=[server.fileno()]) as child:  # noqa: S603
        try:
            _await_answer(child, url + ready)
            yield url
        finally:
            child.terminate()
            assert child.wait(60) is not None, "a server did not stop"


def _await_answer(child: "subprocess.Popen[bytes]", url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert child.poll() is None, "a server ended before it was ready"
        try:
            if httpx.get(url, timeout=5).status_code != httpx.codes.SERVICE_UNAVAILABLE:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


@contextmanager
def web() -> Iterator[str]:
    """The web process under gunicorn."""
    with listening() as server:
        argv = ["gunicorn", "config.wsgi:application", "--worker-class", "gthread", "--threads", "4",
                "--no-control-socket", "--bind", f"fd://{server.fileno()}"]  # fmt: skip
        with running(argv, server, "/login") as url:
            yield url


@contextmanager
def stream(upstream: str = "", ready: str = "") -> Iterator[str]:
    """The stream process under uvicorn, in front of `upstream` if given."""
    with listening() as server:
        argv = ["uvicorn", "tests.pages.stream_app:application", "--fd", str(server.fileno()),
                "--no-access-log"]  # fmt: skip
        path = ready or ("/login" if upstream else "/readyz")
        with running(argv, server, path, MUSTER_WEB_UPSTREAM=upstream) as url:
            yield url

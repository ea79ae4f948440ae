"""The whole of Muster as processes, for system and live tests: started, killed and stopped by name.

The processes use the database of the test, so a test seeds rows and reads them as usual; it must
run without a surrounding transaction.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
from django.conf import settings
from django.db import connection

from script.bootstrap import free_ports
from script.processes import Layout, commands, listens, web_upstream

ROOT = Path(__file__).resolve().parent.parent
QUICK = {
    "MUSTER_ARBITER_INTERVAL_MS": "250",
    "MUSTER_OBSERVE_INTERVAL_MS": "400",
    "MUSTER_LEASE_MS": "4000",
    "MUSTER_SECURE_COOKIES": "false",
}


def database_url() -> str:
    """The address of the database this test uses."""
    parts = connection.settings_dict
    password = quote(str(parts["PASSWORD"]), safe="")
    return f"postgres://{parts['USER']}:{password}@{parts['HOST']}:{parts['PORT']}/{parts['NAME']}"


def broker_url() -> str:
    """The test's Valkey, in a database of this test worker's own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    parts = urlsplit(settings.ENVIRONMENT.redis_url)
    return parts._replace(path=f"/{1 + int(worker[2:]) % 15}").geturl()


def eventually(
    true: Callable[[], object], *, within_s: float = 90, what: str = "", every_s: float = 0.1
) -> None:
    """Waits until `true()` is; fails the test with `what` (or the last value) when it never is."""
    deadline = time.monotonic() + within_s
    while not (value := true()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not true within {within_s} s: {what or value!r}")
        time.sleep(every_s)


@dataclass
class Stack:
    """Processes by the names of `script/processes.py`, and a client for their front door."""

    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    roots: Mapping[str, Path] = field(default_factory=dict)  # of processes of another release
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)  # theirs, where they differ
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        port, web_port = free_ports(2)
        self.layout = Layout(port=port, web_port=web_port, schedule=self.directory / "beat")
        self.url = f"http://127.0.0.1:{port}"
        self._commands = {**commands(self.layout), **self.lines}

    def start(self, *names: str) -> None:
        """Starts processes (all when none is named); does not wait for them."""
        env = {
            **os.environ,
            **QUICK,
            "DATABASE_URL": database_url(),
            "REDIS_URL": broker_url(),
            "MUSTER_WEB_UPSTREAM": web_upstream(self.layout),
            "MUSTER_PUBLIC_URL": self.url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **self.environment,
        }
        for name in names or self._commands:
            known = env
            if name in self.roots:  # another release does not start with a setting that it lacks
                known = {key: value for key, value in env.items() if key != "MUSTER_PUBLIC_URL"}
            with (self.directory / f"{name}.log").open("ab") as log:
                self.running[name] = subprocess.Popen(  # noqa: S603 - our own processes
                    self._commands[name],
                    cwd=self.roots.get(name, ROOT),
                    env=known,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def wait_until_ready(self, within_s: float = 60) -> None:
        """Waits until the front door says that it is ready; without one, until nothing died."""

        def ready() -> bool:
            dead = [name for name, process in self.running.items() if process.poll() is not None]
            if dead:
                raise AssertionError(f"{dead} ended:\n{self.log(dead[0])[-3000:]}")
            if "stream" not in self.running:
                return True
            try:
                return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
            except httpx.HTTPError:
                return False

        eventually(ready, within_s=within_s, what="/readyz")

    def log(self, name: str) -> str:
        """What a process printed so far."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def send(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a process; SIGKILL and SIGTERM wait until it is gone.

        A killed web leaves a worker behind that serves, and holds the port, until it finds itself
        an orphan: some ten seconds. A new one gives up after five, and nobody here starts it again.
        """
        process = self.running[name]
        process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            process.wait(60)
            if name == "web":
                is_held = listens([self.layout.web_port])
                eventually(lambda: not is_held(), what="the port of web is free")

    def restart(self, name: str) -> None:
        """Kills a process without warning and starts it again."""
        self.send(name, signal.SIGKILL)
        self.start(name)

    def stop(self) -> None:
        """Ends everything that was started."""
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def api(self, token: str) -> httpx.Client:
        """A REST client with a bearer token; paths start below `/api/v1`."""
        return httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )


@contextmanager
def started(
    directory: Path, *names: str, environment: Mapping[str, str] | None = None
) -> Iterator[Stack]:
    """A running stack, stopped at the end whatever happens."""
    stack = Stack(directory, environment or {})
    try:
        stack.start(*names)
        stack.wait_until_ready()
        yield stack
    finally:
        stack.stop()

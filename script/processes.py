"""The command line of every process, in one place: the demo runs them, docker-compose.yml repeats
them, and a test compares the two."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

# Django's checks load every page and form into each worker, some 10 MB apiece, to look at what
# script/lint has looked at; the arbiter's --skip-checks is for the same reason.
ENVIRONMENT = {"CELERY_SKIP_CHECKS": "1"}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the processes listen and keep their scratch files.

    The `stream` process is the front: it answers the event stream and forwards the rest to `web`.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    web_host: str = "127.0.0.1"
    web_port: int = 8001
    schedule: Path = Path("/tmp/beat-schedule")  # noqa: S108 (the container's own tmpfs)


def _worker(queue: str, concurrency: int) -> tuple[str, ...]:
    return ("python", "-m", "config.worker", queue, "--concurrency", str(concurrency))


def commands(layout: Layout) -> dict[str, tuple[str, ...]]:
    """Return the command line of each process by its name, in starting order."""
    return {
        "web": (
            "gunicorn", "config.wsgi:application", "--worker-class", "gthread", "--workers", "1",
            "--threads", "8", "--no-control-socket",
            "--bind", f"{layout.web_host}:{layout.web_port}",
        ),
        "stream": (
            "uvicorn", "config.asgi:application", "--host", layout.host,
            "--port", str(layout.port), "--no-access-log",
            "--timeout-graceful-shutdown", "3",  # an open event stream would never end by itself
        ),
        "arbiter": ("python", "manage.py", "arbiter", "--skip-checks"),
        "worker-dispatch": _worker("dispatch", 8),
        "worker-observe": _worker("observe", 8),
        "worker-accounting": _worker("accounting", 2),
        "beat": ("python", "-m", "config.beat", "--schedule", str(layout.schedule)),
    }  # fmt: skip


def web_upstream(layout: Layout, *, web_host: str | None = None) -> str:
    """Return MUSTER_WEB_UPSTREAM for the stream process; `web_host` is web's name from there."""
    return f"http://{web_host or layout.web_host}:{layout.web_port}"


def listens(ports: Sequence[int]) -> Callable[[], bool]:
    """Return a readiness check: something listens on each of these ports of 127.0.0.1."""

    def check() -> bool:
        try:
            for port in ports:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    return check


def answers(port: int, path: str, *, statuses: tuple[int, ...] = (200,)) -> Callable[[], bool]:
    """Return a readiness check: a GET of `path` on 127.0.0.1 answers with one of the statuses."""

    def check() -> bool:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().status in statuses
        except OSError:
            return False
        finally:
            connection.close()

    return check

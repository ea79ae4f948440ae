"""Simulated fleets, Muster's processes beside them, and what each of them costs (needs Django)."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.db import connection

from script.benchmarks._processes import cpu_s_of, parent_of, rss_mb_of
from tests.stack import Stack
from tests.world import World, make_world, simulated

WAITS_S = 0.05


@contextmanager
def fleet(
    directory: Path, count: int, *, nodes: int, flavor: str = "h100-sxm-80", **settings_: Any
) -> Iterator[World]:
    """So many simulated clusters of so many nodes, members of one organisation.

    `settings_` are fields of the simulator's configuration of each.
    """
    configured = {
        f"c{number:03}": {"nodes": nodes, "gpu_type": "h100", "seed": number + 1, **settings_}
        for number in range(count)
    }
    with simulated(directory, **configured) as clusters:
        device = "nvidia.com/gpu:h100" if settings_.get("kind") == "volcano" else "h100"
        devices = dict.fromkeys(clusters, (device, flavor))
        yield make_world(clusters, devices, gpus=count * nodes * 8)


@contextmanager
def running(
    directory: Path, *names: str, environment: Mapping[str, str] | None = None
) -> Iterator[Stack]:
    """Muster's processes by name, with the settings of production but for `environment`."""
    defaults = {
        "MUSTER_ARBITER_INTERVAL_MS": "1000",
        "MUSTER_OBSERVE_INTERVAL_MS": "2000",
        "MUSTER_LEASE_MS": "15000",
        "REDIS_URL": settings.ENVIRONMENT.redis_url,
        **(environment or {}),
    }
    defaults.pop("MUSTER_TEST_DB", None)
    stack = Stack(directory, defaults)
    try:
        stack.start(*names)
        stack.wait_until_ready()
        yield stack
    finally:
        stack.stop()


class Costs:
    """CPU of processes since the last call of `begin`, by name; PostgreSQL and Valkey included."""

    def __init__(self, stack: Stack) -> None:
        self._pids = {name: process.pid for name, process in stack.running.items()}
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self._postmaster = parent_of(cursor.fetchone()[0])
        broker = redis.Redis.from_url(settings.ENVIRONMENT.redis_url)
        self._pids["valkey"] = int(broker.info("server")["process_id"])
        broker.close()
        self._before: dict[str, float] = {}

    def _now(self) -> dict[str, float]:
        used = {name: cpu_s_of(pid) for name, pid in self._pids.items()}
        return {**used, "postgres": cpu_s_of(self._postmaster, with_children=True)}

    def begin(self) -> None:
        """Counts from here on."""
        self._before = self._now()

    def so_far(self) -> dict[str, float]:
        """CPU seconds by process."""
        return {name: used - self._before[name] for name, used in self._now().items()}

    def rss_mb(self, name: str) -> float:
        """Resident memory of a process."""
        return rss_mb_of(self._pids[name])


def wait_for(true: Callable[[], object], *, within_s: float, what: str) -> None:
    """Waits until `true()` is.

    Raises:
        RuntimeError: it was not, in time; the message says what.
    """
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {within_s} s: {what}")
        time.sleep(WAITS_S)

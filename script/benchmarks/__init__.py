"""Benchmarks, one a module; and what they share: a scratch database, CPU seconds, the JSON line."""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def scratch_database() -> Iterator[None]:
    """Django set up on a new, migrated database of its own, dropped at the end."""
    os.environ.setdefault("MUSTER_TEST_DB", f"muster_bench_{os.getpid()}")
    import django
    from django.db import connection

    django.setup()
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        connection.creation.destroy_test_db("", verbosity=0)


def backend_cpu_s(pid: int) -> float:
    """CPU seconds that a process of this machine has used (Linux, nanosecond counter)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def cpu_s(act: Callable[[], Any], backend_pid: int) -> tuple[float, Any]:
    """CPU seconds of this process and one PostgreSQL backend during `act`, and its result."""
    before = time.process_time() + backend_cpu_s(backend_pid)
    result = act()
    return time.process_time() + backend_cpu_s(backend_pid) - before, result


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of log(cost) over log(size), least squares: cost grows as size to this power."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum(
        (x - mean_x) ** 2 for x, _ in logs
    )


def report(benchmark: str, metrics: Mapping[str, Any], context: Mapping[str, Any]) -> None:
    """Print the one JSON line; the machine's load stands in its context."""
    load = dict(zip(("load_1m", "load_5m", "load_15m"), os.getloadavg(), strict=True))
    line = {"benchmark": benchmark, "metrics": metrics, "context": {**context, **load}}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()

"""The whole demo: how much memory it holds idle, and how long a second start takes.

Runs `script/demo` twice on a state of its own. PSS (a shared page counted by its share) is summed
over the demo's process tree, PostgreSQL and Valkey included, the simulated clusters apart; "idle"
is 20 s after it was ready, with no job in the system. The start is wall time until `/readyz`
answers, with `.venv` made and the database there.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from script.benchmarks import report
from script.bootstrap import ROOT, free_ports

SETTLE_S = 20
LONGEST_START_S = 300


def is_ready(port: int) -> bool:
    """Whether the demo answers that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def running_demo(state: str, port: int) -> Iterator[tuple[int, float]]:
    """A running demo: its process id, and the seconds until it was ready."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"DATABASE_URL", "REDIS_URL"} and not name.startswith("MUSTER_")
    }
    began_s = time.monotonic()
    demo = subprocess.Popen(
        [sys.executable, "script/demo", "--state", state, "--port", str(port)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        while not is_ready(port):
            if demo.poll() is not None or time.monotonic() - began_s > LONGEST_START_S:
                raise RuntimeError("the demo did not start; run script/demo to see why")
            time.sleep(0.1)
        yield demo.pid, time.monotonic() - began_s
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(60)


def process_tree(root: int) -> Iterator[int]:
    """The process and all below it."""
    children: dict[int, list[int]] = defaultdict(list)
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            children[int(fields[1])].append(int(directory.name))
    found = [root]
    for pid in found:
        found.extend(children[pid])
    yield from found


def pss_kb(pid: int) -> int:
    """Proportional set size of a process (Linux)."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1])


def kind(pid: int) -> str:
    """What a process of the demo is, from its command line."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    line = " ".join(words)
    names = ("simulator", "gunicorn", "uvicorn", "arbiter", "dispatch", "observe", "accounting")
    for name in (*names, "config.beat", "valkey", "postgres"):
        if name in line:
            return name.removeprefix("config.")
    return "supervisor"


def idle_memory_mb(root: int) -> dict[str, float]:
    """PSS in MB (10^6 bytes) by kind of process."""
    found: dict[str, float] = defaultdict(float)
    for pid in process_tree(root):
        try:
            found[kind(pid)] += pss_kb(pid) * 1024 / 1e6
        except (OSError, StopIteration):
            continue
    return found


def main() -> None:
    """Measure and print."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="muster-bench-demo-") as state:
        with running_demo(state, port) as (pid, first_s):
            time.sleep(SETTLE_S)
            memory = idle_memory_mb(pid)
        with running_demo(state, port) as (_, second_s):
            pass
    ours = sum(mb for name, mb in memory.items() if name != "simulator")
    report(
        "demo",
        {"idle_pss_mb": round(ours, 1), "second_start_s": round(second_s, 1)},
        {
            "first_start_s": round(first_s, 1),
            "by_process_mb": {name: round(mb, 1) for name, mb in sorted(memory.items())},
        },
    )


if __name__ == "__main__":
    main()

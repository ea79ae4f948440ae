"""CPU and memory of processes, from /proc (Linux)."""

import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    """The fields of `/proc/<pid>/stat` from the third (state) on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def parent_of(pid: int) -> int:
    """The process that started it."""
    return int(_fields(pid)[1])


def children_of(pid: int) -> list[int]:
    """The living processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for task in tasks for word in task.read_text().split()]


def cpu_s_of(pid: int, *, with_children: bool = False) -> float:
    """CPU seconds, user and system, all threads; `with_children`: living and ended ones too."""
    fields = _fields(pid)
    own = sum(map(int, fields[11:15] if with_children else fields[11:13])) / _TICKS_PER_S
    if not with_children:
        return own
    return own + sum(_cpu_if_alive(child) for child in children_of(pid))


def _cpu_if_alive(pid: int) -> float:
    try:
        return cpu_s_of(pid)
    except OSError:  # it ended meanwhile, and its parent has its time
        return 0.0


def rss_mb_of(pid: int) -> float:
    """Resident memory in MB (10^6 bytes)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024 / 1e6

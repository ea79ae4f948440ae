"""docs/examples/survive-preemption/watch.sh as a process: a signal written on a pod reaches a trainer."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

WATCH = Path("docs/examples/survive-preemption/watch.sh").absolute()
PAGE = Path("docs/how-to/survive-preemption.md")
# A launcher that ignores the signal, and a rank in a session of its own that handles it.
RANK = """
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("saved", flush=True))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("trains as", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
"""
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]


@pytest.fixture(params=SHELLS)
def pod(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The container: the watcher, a launcher, a rank that trains."""
    (tmp_path / "rank.py").write_text(RANK)
    launcher = f"""trap "" USR1; setsid {sys.executable} rank.py & wait $!; exit 5"""
    with watched(request.param, tmp_path, "sh", "-c", launcher) as process:
        rank = int(heard(process).removeprefix("trains as "))
        yield process
        os.kill(rank, signal.SIGKILL)
        assert process.wait(10) == 5


def watched(shell: str, directory: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own example
        [shell, str(WATCH), *command],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "ANNOTATIONS": "annotations", "PAUSE": "0.1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def write(directory: Path, *lines: str) -> None:
    """What the kubelet does: a new file in the place of the old one."""
    new = directory / "new"
    new.write_text("\n".join(lines))
    new.replace(directory / "annotations")


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_each_signal_is_passed_on_once(pod: subprocess.Popen[str], tmp_path: Path) -> None:
    write(tmp_path, 'kubernetes.io/config.seen="2026"', 'volcano.sh/job-version="0"')
    write(tmp_path, 'muster/signal="USR1 1"', 'volcano.sh/job-version="0"')
    assert heard(pod) == "saved\n"
    write(tmp_path, 'muster/signal="USR1 1"', 'a="b"')  # other annotations change nothing
    time.sleep(0.4)
    write(tmp_path, 'muster/signal="USR1 2"')
    assert heard(pod) == "saved\n"
    assert pod.poll() is None


def test_the_example_is_on_the_page() -> None:
    assert "watch.sh" in PAGE.read_text()
    assert 'muster/signal="USR1 1"' in WATCH.read_text()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("code", [0, 3])
def test_it_ends_as_its_command_does(code: int, shell: str, tmp_path: Path) -> None:
    with watched(shell, tmp_path, "sh", "-c", f"exit {code}") as process:
        assert process.wait(10) == code


@pytest.mark.parametrize("shell", SHELLS)
def test_the_end_of_the_pod_is_passed_on(shell: str, tmp_path: Path) -> None:
    """Kubernetes sends TERM to the watcher alone; the trainer has the pod's grace to end."""
    (tmp_path / "rank.py").write_text(RANK)
    with watched(shell, tmp_path, sys.executable, "rank.py") as process:
        assert heard(process).startswith("trains")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 7

"""The supervisor: order, readiness, restart, clean stop, and what it says when something fails."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from script.bootstrap import ROOT
from script.console import Console, SetupError
from script.supervisor import BoundedLog, Program, Supervisor

JOURNALIST = """
import signal, sys, time
name, journal = sys.argv[1:]
def note(what):
    with open(journal, "a") as file:
        file.write(what + " " + name + "\\n")
def stop(number, frame):
    note("stop")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
note("start")
print("hello from", name, flush=True)
time.sleep(60)
"""


pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    return Supervisor(logs=tmp_path, run=tmp_path, console=Console(), backoff_s=0.05)


def program(tmp_path: Path, name: str, code: str, *arguments: str, **options: Any) -> Program:
    return Program(
        name=name, argv=[sys.executable, "-c", code, *arguments], env=dict(os.environ),
        cwd=tmp_path, **options,
    )  # fmt: skip


def journalist(tmp_path: Path, name: str) -> Program:
    journal = tmp_path / "journal"
    return program(
        tmp_path, name, JOURNALIST, name, str(journal),
        ready=lambda: journal.exists() and f"start {name}\n" in journal.read_text(),
    )  # fmt: skip


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come true in time"
        await asyncio.sleep(0.02)


async def test_stages_start_in_order_and_stop_in_the_reverse_order(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    async with supervisor:
        for name in ("first", "second", "third"):
            await supervisor.start(journalist(tmp_path, name))
    journal = (tmp_path / "journal").read_text().splitlines()
    assert journal == [
        "start first", "start second", "start third", "stop third", "stop second", "stop first",
    ]  # fmt: skip
    assert "hello from second" in (tmp_path / "second.log").read_text()


async def test_what_dies_is_started_again_and_the_console_says_so(
    supervisor: Supervisor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid_file = tmp_path / "worker.pid"
    async with supervisor:
        await supervisor.start(journalist(tmp_path, "worker"))
        first = int(pid_file.read_text())
        os.kill(first, signal.SIGKILL)
        await until(lambda: (tmp_path / "journal").read_text().count("start worker") == 2)
        second = int(pid_file.read_text())
    assert first != second
    assert not alive(second)
    assert (
        "worker ended (killed by SIGKILL); starting it again in 0.05 s" in capsys.readouterr().out
    )


async def test_a_death_is_seen_though_a_grandchild_lives_and_the_grandchild_is_ended(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    code = textwrap.dedent("""
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        with open("children", "a") as file:
            file.write(f"{child.pid}\\n")
        time.sleep(60)
    """)
    children = tmp_path / "children"
    async with supervisor:
        await supervisor.start(program(tmp_path, "web", code, ready=children.exists))
        os.kill(int((tmp_path / "web.pid").read_text()), signal.SIGKILL)
        await until(lambda: children.read_text().count("\n") == 2)
        first = int(children.read_text().split()[0])
        await until(lambda: not alive(first))


async def test_a_program_that_ends_before_it_is_ready_fails_with_its_last_words(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    code = "import sys; print('no such database'); sys.exit(3)"
    async with supervisor:
        with pytest.raises(SetupError) as failure:
            await supervisor.start(program(tmp_path, "arbiter", code, ready=lambda: False))
    assert "arbiter ended at its start (exit code 3)" in str(failure.value)
    assert "no such database" in str(failure.value)


async def test_a_program_that_never_gets_ready_fails_and_its_siblings_are_stopped(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    slow = program(
        tmp_path, "slow", "import time; time.sleep(60)", ready=lambda: False, ready_within_s=0.3
    )
    async with supervisor:
        await supervisor.start(journalist(tmp_path, "sibling"))
        with pytest.raises(SetupError, match=r"slow was not ready within 0\.3 s"):
            await supervisor.start(slow)
    assert "stop sibling" in (tmp_path / "journal").read_text()


async def test_a_program_that_cannot_be_run_is_named(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    missing = Program(
        name="web", argv=["/nonexistent/gunicorn"], env={}, cwd=tmp_path, ready=lambda: False
    )
    async with supervisor:
        with pytest.raises(SetupError, match="web"):
            await supervisor.start(missing)


async def test_a_program_that_ignores_the_stop_signal_is_killed_with_its_children(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    code = textwrap.dedent("""
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open("pids", "w").write(f"{os.getpid()} {child.pid}")
        time.sleep(60)
    """)
    pids = tmp_path / "pids"
    async with supervisor:
        await supervisor.start(
            program(
                tmp_path, "stubborn", code, stop_within_s=0.3,
                ready=lambda: pids.exists() and len(pids.read_text().split()) == 2,
            )
        )  # fmt: skip
    await until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


async def test_a_step_returns_its_exit_code_and_last_lines(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    async with supervisor:
        code = "import sys; print('one'); print('two'); sys.exit(4)"
        assert await supervisor.run(program(tmp_path, "step", code)) == (4, ["one", "two"])


def test_a_log_is_bounded_by_two_files(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "web.log", limit=1000)
    for number in range(100):
        log.write(b"%090d\n" % number)
    log.close()
    assert {p.name for p in tmp_path.iterdir()} == {"web.log", "web.log.1"}
    assert all(p.stat().st_size <= 1000 for p in tmp_path.iterdir())
    assert b"%090d" % 99 in (tmp_path / "web.log").read_bytes()


SUPERVISED = """
import asyncio, os, sys
from pathlib import Path
from typing import Any
from script.console import Console
from script.supervisor import Program, Supervisor
here = Path(sys.argv[1])
sleeper = Program(name="sleeper", argv=[sys.executable, "-c", "import time; time.sleep(60)"],
                  env=dict(os.environ), cwd=here)
async def main():
    async with Supervisor(logs=here, run=here, console=Console()) as supervisor:
        await supervisor.start(sleeper)
        print("up", flush=True)
        await asyncio.Event().wait()
try:
    asyncio.run(main())
except asyncio.CancelledError:
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_nothing_stays_behind_when_the_supervisor_is_told_to_stop_or_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISED, str(tmp_path)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        sleeper = int((tmp_path / "sleeper.pid").read_text())
        process.send_signal(number)
        said = process.stdout.read()
    assert ("stopped" in said) == (number != signal.SIGKILL)
    await until(lambda: not alive(sleeper))

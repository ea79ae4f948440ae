"""A small supervisor: ordered start with readiness, logs, restart of what dies, clean ordered stop.

Programs start in stages and stop in the reverse order, a stage at a time. No shell is involved:
each program is a list of arguments, runs in a session of its own (so that Ctrl-C reaches the
supervisor only) and, on Linux, is told to stop by the kernel should the supervisor be killed.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from script.console import Console, SetupError

LOG_BYTES = 5_000_000
LONGEST_LINE_BYTES = 1_000_000
TAIL_LINES = 15
STABLE_AFTER_S = 60.0
LONGEST_BACKOFF_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program to keep running.

    `ready` is asked until it says yes (None: started is ready); `prepare` runs before every start.
    `uid` and `gid` make the program run as another user (only root can ask for that).
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    ready: Callable[[], bool] | None = None
    ready_within_s: float = 60.0
    prepare: Callable[[], None] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: float = 15.0
    uid: int | None = None
    gid: int | None = None


# A parent that died before the kernel was asked sends nothing any more: then it does not begin.
STILL_OURS = 'test "$PPID" -eq "$0" && exec "$@"'


def bound_to_parent(argv: Sequence[str], stop_signal: signal.Signals) -> list[str]:
    """Return the command that has the kernel send `stop_signal` to it when its parent dies.

    Without setpriv (not Linux) the command is returned as it is.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return list(argv)
    name = stop_signal.name.removeprefix("SIG")
    guard = [setpriv, "--pdeathsig", name, "--"]
    # Entering a user namespace may clear the parent-death signal: ask for it inside.
    if os.path.basename(argv[0]) == "unshare":
        inside = list(argv).index("--") + 1
        return [*argv[:inside], *guard, *argv[inside:]]
    return [*guard, "/bin/sh", "-c", STILL_OURS, str(os.getpid()), *argv]


def describe_exit(code: int) -> str:
    """Say how a process ended: `exit code 3`, or the signal's name."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class BoundedLog:
    """A log file that is moved to `NAME.1` when it is full, so that two files are the most."""

    def __init__(self, path: Path, *, limit: int = LOG_BYTES) -> None:
        self.path = path
        self._limit = limit
        self._file = path.open("ab", buffering=0)

    def write(self, line: bytes) -> None:
        """Append one line."""
        if self._file.tell() + len(line) > self._limit:
            self._file.close()
            self.path.replace(self.path.with_name(self.path.name + ".1"))
            self._file = self.path.open("ab", buffering=0)
        self._file.write(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Child:
    """A program and the process that runs it now."""

    def __init__(self, program: Program, *, log: BoundedLog, echo: Callable[[str], None] | None,
                 pid_file: Path) -> None:  # fmt: skip
        self.program = program
        self.process: asyncio.subprocess.Process | None = None
        self.began_s = 0.0
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._log = log
        self._echo = echo
        self._pid_file = pid_file
        self._reader: asyncio.Task[None] | None = None

    async def spawn(self, *, inherit: bool = False) -> None:
        """Start a process; `inherit` lets it write to the terminal itself.

        Raises SetupError when the program cannot be run.
        """
        program = self.program
        if program.prepare is not None:
            await asyncio.to_thread(program.prepare)
        self.began_s = time.monotonic()
        output = None if inherit else await self._open_output()
        try:
            self.process = await asyncio.create_subprocess_exec(
                *bound_to_parent(program.argv, program.stop_signal),
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
                env=dict(program.env), cwd=program.cwd, start_new_session=True,
                user=program.uid, group=program.gid,
                extra_groups=None if program.uid is None else [],
            )  # fmt: skip
        except OSError as error:
            raise SetupError(f"{program.name} cannot be started: {error}") from error
        finally:
            if output is not None:
                os.close(output)
        self._pid_file.write_text(str(self.process.pid))

    async def wait(self) -> int:
        """Wait for the process to end and its output to be written; return the exit code.

        What it leaves in its group is killed: it may hold the port that the next one needs.
        """
        assert self.process is not None
        code = await self.process.wait()
        self.kill()
        if self._reader is not None:
            # A daemon may have kept the output open: what it says is not worth waiting for.
            await asyncio.wait([self._reader], timeout=1.0)
            self._reader.cancel()
        self._pid_file.unlink(missing_ok=True)
        return code

    async def until_ready(self) -> None:
        """Wait until the program says it is ready.

        Raises SetupError, with its last words, when it ends first or takes too long.
        """
        program = self.program
        deadline_s = time.monotonic() + program.ready_within_s
        while True:
            assert self.process is not None
            if self.process.returncode is not None:
                code = await self.wait()
                raise SetupError(self._last_words(f"ended at its start ({describe_exit(code)})"))
            if program.ready is None or await asyncio.to_thread(program.ready):
                return
            if time.monotonic() > deadline_s:
                raise SetupError(
                    self._last_words(f"was not ready within {program.ready_within_s:g} s")
                )
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """Ask the process to end; kill it, and what it left in its group, when it does not."""
        process = self.process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(self.program.stop_signal)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self.program.stop_within_s)
        if process.returncode is None:
            self.kill()
        await self.wait()
        self._log.close()

    def kill(self) -> None:
        """Kill the process and its group at once."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def _open_output(self) -> int:
        """Return the writing end of a pipe whose other end is copied to the log.

        Our own pipe, because with asyncio's the end of a process is not seen until its
        grandchildren, too, have closed it.
        """
        source, output = os.pipe()
        lines = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(source, "rb", buffering=0)
        )
        self._reader = asyncio.create_task(self._copy_output(lines, transport))
        return output

    async def _copy_output(
        self, lines: asyncio.StreamReader, transport: asyncio.ReadTransport
    ) -> None:
        with contextlib.closing(transport):
            while True:
                try:
                    line = await lines.readline()
                except ValueError:  # too long: drop that line, keep reading
                    continue
                if not line:
                    return
                self._log.write(line)
                text = line.decode(errors="replace").rstrip()
                self.tail.append(text)
                if self._echo is not None:
                    self._echo(f"{self.program.name:<18} | {text}")

    def _last_words(self, what: str) -> str:
        words = "\n".join(f"  {line}" for line in self.tail) or "  (nothing)"
        return f"{self.program.name} {what}. Its last words:\n\n{words}\n\nMore: {self._log.path}"


class Supervisor:
    """Starts programs in stages, keeps them running, and stops them in the reverse order.

    An async context manager: leaving it stops everything. SIGINT, SIGTERM and SIGHUP cancel the
    task that entered it; a second one while stopping kills what is left.
    """

    def __init__(self, *, logs: Path, run: Path, console: Console, verbose: bool = False,
                 backoff_s: float = 0.5) -> None:  # fmt: skip
        self._logs = logs
        self._run = run
        self._console = console
        self._verbose = verbose
        self._backoff_s = backoff_s
        self._stages: list[list[Child]] = []
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._interrupt, task)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:  # fmt: skip
        await self.stop()

    async def start(self, *programs: Program) -> None:
        """Start one stage and wait until all of it is ready; raises SetupError when it is not."""
        stage = [self._child(program) for program in programs]
        self._stages.append(stage)
        starts = [asyncio.create_task(self._start(child)) for child in stage]
        try:
            await asyncio.gather(*starts)
        finally:  # after a failure the others need not get ready
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        self._keepers += [asyncio.create_task(self._keep(child)) for child in stage]

    async def run(self, program: Program, *, show: bool = False) -> tuple[int, list[str]]:
        """Run a program to its end; return its exit code and last lines.

        With `show` it writes to the terminal itself and no lines are kept.
        """
        child = self._child(program)
        self._stages.append([child])
        await child.spawn(inherit=show)
        code = await child.wait()
        await child.stop()
        self._stages.remove([child])
        return code, list(child.tail)

    async def stop(self) -> None:
        """Stop everything, last stage first; safe to call twice."""
        self._stopping = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        while self._stages:
            await asyncio.gather(*(child.stop() for child in self._stages[-1]))
            self._stages.pop()

    def _child(self, program: Program) -> Child:
        return Child(
            program,
            log=BoundedLog(self._logs / f"{program.name}.log"),
            echo=self._console.plain if self._verbose else None,
            pid_file=self._run / f"{program.name}.pid",
        )

    async def _start(self, child: Child) -> None:
        await child.spawn()
        await child.until_ready()

    async def _keep(self, child: Child) -> None:
        delay_s = self._backoff_s
        while True:
            code = await child.wait()
            if time.monotonic() - child.began_s > STABLE_AFTER_S:
                delay_s = self._backoff_s
            self._console.say(
                f"{child.program.name} ended ({describe_exit(code)}); "
                f"starting it again in {delay_s:g} s"
            )
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, LONGEST_BACKOFF_S)
            await self._revive(child)

    async def _revive(self, child: Child) -> None:
        while True:
            try:
                return await child.spawn()
            except SetupError as error:
                self._console.say(str(error))
                await asyncio.sleep(LONGEST_BACKOFF_S)

    def _interrupt(self, task: asyncio.Task[object]) -> None:
        if self._stopping:
            for stage in self._stages:
                for child in stage:
                    child.kill()
        else:
            self._stopping = True
            task.cancel()

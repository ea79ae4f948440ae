"""A program that a long-lived process starts now and then, at most once at a time."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

NICENESS = 10  # it yields to all that serves people and clusters


class Child:
    """A command that runs beside this process, at a low priority; threads may share it.

    It is not waited for. `is_over` also takes note of its end, so that no zombie is left for longer
    than until the next question.
    """

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        self._command = ["nice", "-n", str(NICENESS), *command]
        self._directory = directory
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def is_over(self) -> bool:
        """Whether none runs now."""
        with self._lock:
            return self._has_ended()

    def start(self) -> None:
        """Starts it, unless one runs."""
        with self._lock:
            if self._has_ended():
                self._process = subprocess.Popen(  # noqa: S603 - a command of our own
                    self._command, cwd=self._directory, stdin=subprocess.DEVNULL
                )

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

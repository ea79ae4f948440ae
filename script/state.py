"""The demo's state directory: one user at a time, secrets made once and readable by the owner only."""

import base64
import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import IO

from script.console import SetupError

IN_USE = """\
Another Muster runs with its state in {path} (process {pid}).
Stop it first (Ctrl-C in its terminal, or `kill {pid}`), or give this one a directory of its own:
  --state DIR"""


class State:
    """A directory that holds what must survive a restart: databases, secrets, logs."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs = self.path / "log"
        self.run = self.path / "run"
        for directory in (self.logs, self.run):
            directory.mkdir(mode=0o700, exist_ok=True)
        self._lock: IO[str] | None = None

    def acquire(self) -> None:
        """Take the directory for this process; the lock ends with the process, however it ends.

        Raises SetupError when another process has it.
        """
        lock = (self.path / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "unknown"
            lock.close()
            raise SetupError(IN_USE.format(path=self.path, pid=pid)) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def release(self) -> None:
        """Give the directory back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def secrets(self) -> dict[str, str]:
        """Return the secrets, making them at the first call.

        Keys: `secret_key`, `encryption_key` (32 bytes in URL-safe base64: a Fernet key),
        `postgres_password`, `valkey_password`.
        """
        path = self.path / "secrets.json"
        if not path.exists():
            write_private(path, json.dumps(new_secrets(), indent=1))
        return dict(json.loads(path.read_text()))


def new_secrets() -> dict[str, str]:
    """Make a set of secrets; the passwords need no quoting in a URL."""
    return {
        "secret_key": secrets.token_urlsafe(48),
        "encryption_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "postgres_password": secrets.token_hex(24),
        "valkey_password": secrets.token_hex(24),
    }


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)

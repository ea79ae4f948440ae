"""From a bare `python3` to a `.venv` with the hash-locked requirements. Standard library only."""

import hashlib
import importlib.util
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from script.console import Console, SetupError

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
RUNTIME = "requirements.txt"
TRACES = "requirements-traces.txt"  # the runtime and what traces need
DEVELOPMENT = "requirements-dev.txt"
MIN_FREE_BYTES = 1_000_000_000
PROGRESS_EVERY_S = 5.0

NO_VENV = """\
This Python ({python}) cannot make virtual environments: its {module} module is missing.
On Debian or Ubuntu:  apt install python3-venv
On Fedora:            it is part of python3; reinstall it
Then run this again."""

INSTALL_FAILED = """\
Installing {requirements} failed. The last words of pip:

{tail}

If the network or the package index was away, run this again: what was done is kept."""

DISK_FULL = """\
The disk that holds {path} has {free_mb} MB free; {need_mb} MB are needed.
Free some space, then try again."""

PORT_TAKEN = """\
Port {port} on {host} is taken by another program.
Choose another one, for instance:  {command} --port {other}"""


def venv_python(venv: Path = VENV) -> Path:
    """Return the interpreter of the virtual environment (it need not exist yet)."""
    return venv / "bin" / "python"


def child_environment(extra: dict[str, str] | None = None, *, venv: Path = VENV) -> dict[str, str]:
    """Return the environment for programs that run from the virtual environment.

    PYTHONDONTWRITEBYTECODE is dropped: with it each of the eight processes compiles all of the
    project at every start, which costs seconds and memory.
    """
    environment = dict(os.environ)
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH"):
        environment.pop(name, None)
    environment["PATH"] = f"{venv / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    environment["VIRTUAL_ENV"] = str(venv)
    environment["PYTHONUNBUFFERED"] = "1"
    environment.update(extra or {})
    return environment


def require_free_space(path: Path, *, need: int = MIN_FREE_BYTES) -> None:
    """Raise SetupError unless the disk that holds `path` has `need` bytes free."""
    free = shutil.disk_usage(path).free
    if free < need:
        raise SetupError(
            DISK_FULL.format(path=path, free_mb=free // 1_000_000, need_mb=need // 1_000_000)
        )


def require_free_port(port: int, *, host: str = "127.0.0.1", command: str = "script/demo") -> None:
    """Raise SetupError when something else listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError:
            raise SetupError(f"Port {port} needs root. Choose one above 1023.") from None
        except OSError:
            raise SetupError(
                PORT_TAKEN.format(port=port, host=host, command=command, other=port + 1)
            ) from None


def free_ports(count: int) -> list[int]:
    """Return `count` different free TCP ports on 127.0.0.1.

    They lie below those the system gives to outgoing connections (from 32768 on Linux): one of
    these could take the port while its server is away for a moment.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(15_000, 32_000)  # noqa: S311 - no secret
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def ensure_environment(requirements: str, *, console: Console, venv: Path = VENV) -> None:
    """Make the virtual environment if there is none and install what `requirements` locks.

    Does nothing when the environment's stamp says that exactly this lock is in it already.
    Raises SetupError when Python cannot make environments, the disk is full or pip fails.
    """
    wanted = _stamp([requirements])
    if wanted.items() <= _read_stamp(venv).items():
        return
    require_free_space(ROOT)
    if not venv_python(venv).exists():
        _require_modules(("venv", "ensurepip"))
        console.say(f"making {venv.name} with Python {sys.version.split()[0]}")
        _make_venv(venv)
    console.say(f"installing {requirements} (each package checked against its hash)")
    _install(requirements, console=console, venv=venv)
    # The development lock holds everything the runtime lock holds, at the same versions.
    installed = [RUNTIME, DEVELOPMENT] if requirements == DEVELOPMENT else [RUNTIME]
    _stamp_path(venv).write_text(json.dumps(_stamp(installed)))
    console.say("installed")


def _require_modules(modules: Iterable[str]) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise SetupError(NO_VENV.format(python=sys.executable, module=module))


def _make_venv(venv: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(venv)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        shutil.rmtree(venv, ignore_errors=True)
        said = (made.stderr + made.stdout).strip()
        raise SetupError(f"Making the virtual environment failed:\n\n{said}")


def _install(requirements: str, *, console: Console, venv: Path) -> None:
    command = [
        str(venv_python(venv)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
        "--progress-bar", "off", "--require-hashes", "--only-binary", ":all:", "--compile",
        "-r", str(ROOT / requirements),
    ]  # fmt: skip
    lines: list[str] = []
    fetched, told = 0, time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env=child_environment(venv=venv),
    ) as pip:  # fmt: skip
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line.rstrip())
            fetched += line.startswith("Collecting ")
            if line.startswith("Installing collected") or (
                line.startswith("Collecting ") and time.monotonic() - told > PROGRESS_EVERY_S
            ):
                told = time.monotonic()
                unpacking = line.startswith("Installing")
                console.say(f"  {fetched} packages{' fetched, unpacking' if unpacking else ''}")
    if pip.returncode != 0:
        _raise_install_failure(requirements, lines)


def _raise_install_failure(requirements: str, lines: list[str]) -> None:
    if any("No space left on device" in line for line in lines):
        raise SetupError(f"The disk became full while {requirements} was installed.")
    tail = "\n".join(line for line in lines if line)[-1500:]
    raise SetupError(INSTALL_FAILED.format(requirements=requirements, tail=tail))


def _stamp_path(venv: Path) -> Path:
    return venv / "installed.json"


def _stamp(requirements: Iterable[str]) -> dict[str, str]:
    return {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in requirements}


def _read_stamp(venv: Path) -> dict[str, str]:
    if not venv_python(venv).exists():  # for instance: the Python it was made with is gone
        return {}
    try:
        return dict(json.loads(_stamp_path(venv).read_text()))
    except (OSError, ValueError):
        return {}

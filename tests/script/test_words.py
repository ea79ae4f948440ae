"""What the scripts say when something is missing, seen as a person at a terminal sees it."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from script import bootstrap
from script.bootstrap import ROOT
from script.console import Console, SetupError
from script.state import State


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, cwd=ROOT,
        env={**os.environ, **environment},
    )  # fmt: skip


def copy_of_the_scripts(directory: Path) -> Path:
    shutil.copytree(ROOT / "script", directory / "script")
    for name in ("requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, directory)
    return directory


def test_a_taken_port_is_named_with_a_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = run(sys.executable, "script/demo", "--port", str(port), "--state", str(tmp_path))
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken by another program." in done.stderr
    assert f"script/demo --port {port + 1}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_without_venv_is_told_what_to_install(tmp_path: Path) -> None:
    root = copy_of_the_scripts(tmp_path)
    # As on a Debian without python3-venv: the interpreter is there, ensurepip is not.
    code = (
        "import runpy, sys\n"
        "sys.modules['ensurepip'] = None\n"
        f"sys.argv = ['script/demo', '--port', '{bootstrap.free_ports(1)[0]}']\n"
        f"runpy.run_path('{root}/script/demo', run_name='__main__')"
    )
    done = run(sys.executable, "-c", code)
    assert done.returncode == 1
    assert "its ensurepip module is missing" in done.stderr
    assert "apt install python3-venv" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failed_install_shows_pips_words_and_is_tried_again_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements.txt").write_text("no-such-package==1.0 --hash=sha256:" + "0" * 64)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for _ in range(2):
        with pytest.raises(SetupError, match=r"(?s)Installing requirements.txt failed.*no-such-pa"):
            bootstrap.ensure_environment(
                "requirements.txt", console=Console(), venv=Path(sys.prefix)
            )


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=rf"(?s){tmp_path} has \d+ MB free; .* MB are needed"):
        bootstrap.require_free_space(tmp_path, need=10**18)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the Linux device that is full")
def test_a_disk_that_fills_up_later_is_words_too() -> None:
    code = (
        "from script.console import exit_code_of\n"
        "def main():\n"
        "    with open('/dev/full', 'w') as file:\n"
        "        file.write('x')\n"
        "raise SystemExit(exit_code_of(main))"
    )
    done = run(sys.executable, "-c", code)
    assert done.returncode == 1
    assert "The disk is full" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_old_python_is_told_at_once() -> None:
    source = (ROOT / "script" / "demo").read_text()
    pretend = "import sys; sys.version_info = (3, 9, 2); sys.version = '3.9.2 (old)'\n"
    done = run(sys.executable, "-c", pretend + source)
    assert done.returncode == 1
    assert done.stderr.strip() == "Muster needs Python 3.11 or newer; this is 3.9.2."


def test_two_runs_do_not_share_a_state_directory(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.acquire()
    hold = (
        "import sys; from pathlib import Path; from script.state import State\n"
        f"State(Path({str(tmp_path)!r})).acquire()"
    )
    refused = run(sys.executable, "-c", hold)
    assert f"Another Muster runs with its state in {tmp_path} (process {os.getpid()})" in (
        refused.stderr
    )
    state.release()
    assert run(sys.executable, "-c", hold).returncode == 0


def test_secrets_are_made_once_and_closed_to_others(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    secrets = state.secrets()
    assert State(tmp_path / "state").secrets() == secrets
    assert (tmp_path / "state" / "secrets.json").stat().st_mode & 0o077 == 0
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert len(set(secrets.values())) == 4


def test_a_port_that_cannot_be_is_refused() -> None:
    done = run(sys.executable, "script/demo", "--port", "70000")
    assert done.returncode == 2
    assert "a port is between 1 and 65535" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--live-only"], "--live-only needs --live"),
        (["--live", "nomad"], "invalid choice: 'nomad'"),
    ],
)
def test_a_suite_that_does_not_exist_is_refused(arguments: list[str], words: str) -> None:
    done = run(sys.executable, "script/test", *arguments)
    assert done.returncode == 2
    assert words in done.stderr

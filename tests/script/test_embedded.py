"""PostgreSQL and Valkey from the wheels, really started: data survives, leftovers do not block."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from script.bootstrap import free_ports
from script.console import SetupError
from script.embedded import (
    Identity,
    Postgres,
    Valkey,
    choose_identity,
    nobody_identity,
    postgres_bin,
    valkey_server,
)
from script.supervisor import Program

VENV = Path(sys.prefix)


def postgres(home: Path, identity: Identity) -> Postgres:
    return Postgres(
        bin=postgres_bin(VENV), data=home / "postgres" / "data", port=free_ports(1)[0],
        password="correct-horse", identity=identity, throwaway=True,
    )  # fmt: skip


def until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come true in time"
        time.sleep(0.02)


def launch(program: Program) -> subprocess.Popen[bytes]:
    if program.prepare is not None:
        program.prepare()
    return subprocess.Popen(
        list(program.argv), env=dict(program.env), cwd=program.cwd, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True, user=program.uid, group=program.gid,
        extra_groups=None if program.uid is None else [],
    )  # fmt: skip


@contextmanager
def running(program: Program) -> Iterator[subprocess.Popen[bytes]]:
    process = launch(program)
    try:
        assert program.ready is not None
        until(lambda: program.ready() or process.poll() is not None)  # type: ignore[misc]
        assert process.returncode is None, f"{program.name} ended at its start"
        yield process
    finally:
        process.send_signal(program.stop_signal)
        process.wait(timeout=60)


def keeps_its_data(server: Postgres) -> None:
    assert server.initialise() is True
    with running(server.program(dict(os.environ))) as process:
        server.create_database()
        server.create_database()  # again: no harm
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 'Ärger' AS word")
    assert process.returncode == 0
    assert server.initialise() is False
    with running(server.program(dict(os.environ))):
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT lower(word) FROM kept").fetchall() == [("ärger",)]
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(server.url().replace("correct-horse", "wrong"))


def test_postgres_keeps_its_data_over_a_restart(tmp_path: Path) -> None:
    keeps_its_data(postgres(tmp_path, choose_identity()))


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that any user can enter (pytest's own are closed)."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_postgres_runs_as_nobody_where_user_namespaces_are_forbidden(open_directory: Path) -> None:
    server = postgres(open_directory / "state", nobody_identity())
    keeps_its_data(server)
    assert server.data.owner() == "nobody"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_a_state_directory_that_nobody_cannot_enter_is_explained(open_directory: Path) -> None:
    closed = open_directory / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(SetupError, match=f"cannot enter {closed}"):
        postgres(closed / "state", nobody_identity())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Postgres:
    made = postgres(tmp_path_factory.mktemp("server"), choose_identity())
    made.initialise()
    return made


def test_a_dead_lock_file_is_removed(server: Postgres) -> None:
    lock = server.data / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{server.data}\n")  # alive, but no PostgreSQL
    with running(server.program(dict(os.environ))):
        assert server.is_ready()


def test_a_server_left_by_a_killed_supervisor_is_stopped_first(server: Postgres) -> None:
    orphan = launch(server.program(dict(os.environ)))
    until(server.is_ready)
    with running(server.program(dict(os.environ))) as process:
        assert orphan.wait(timeout=60) == 0
        assert process.poll() is None


def test_a_killed_server_recovers(server: Postgres) -> None:
    """Its children outlive it (here one for a second); the next starts at the first try."""
    process = launch(server.program(dict(os.environ)))
    until(server.is_ready)
    with psycopg.connect(server.url("postgres")) as connection:
        child = connection.info.backend_pid
        os.kill(child, signal.SIGSTOP)
        process.kill()
        process.wait()
        wakes = threading.Timer(1.0, os.kill, (child, signal.SIGCONT))
        wakes.start()
        with running(server.program(dict(os.environ))):
            assert server.is_ready()
        wakes.join()


def test_a_half_made_data_directory_is_made_anew(tmp_path: Path) -> None:
    server = postgres(tmp_path, choose_identity())
    server.data.mkdir(parents=True)
    (server.data / "PG_VERSION").write_text("18\n")
    assert server.initialise() is True
    assert (server.data / "global" / "pg_control").exists()


def test_a_failing_initdb_is_explained(tmp_path: Path) -> None:
    server = postgres(tmp_path, choose_identity())
    server.password = ""
    with pytest.raises(SetupError, match=r"initdb failed:\n\n.*password"):
        server.initialise()


def test_missing_programs_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PG_BIN", raising=False)
    monkeypatch.delenv("VALKEY_BIN", raising=False)
    with pytest.raises(SetupError, match="Set PG_BIN"):
        postgres_bin(tmp_path)
    with pytest.raises(SetupError, match="Set VALKEY_BIN"):
        valkey_server(tmp_path)
    monkeypatch.setenv("PG_BIN", str(postgres_bin(VENV)))
    assert postgres_bin(tmp_path) == postgres_bin(VENV)


def test_valkey_keeps_its_data_over_a_kill_and_hides_its_password(tmp_path: Path) -> None:
    server = Valkey(
        server=valkey_server(VENV), directory=tmp_path / "valkey", port=free_ports(1)[0],
        password="correct-horse",
    )  # fmt: skip
    program = server.program(dict(os.environ))
    process = launch(program)
    until(server.is_ready)
    with redis.Redis.from_url(server.url()) as client:
        client.rpush("dispatch", "nudge")
    without_password = redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0))
    with without_password as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    assert "correct-horse" not in " ".join(program.argv)
    assert stat.S_IMODE((server.directory / "valkey.conf").stat().st_mode) == 0o600
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with running(program), redis.Redis.from_url(server.url()) as client:
        assert client.lrange("dispatch", 0, -1) == [b"nudge"]

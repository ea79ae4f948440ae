"""Runs one benchmark with a PostgreSQL and a Valkey of its own; the benchmark prints one JSON line.

A benchmark is a module of `script/benchmarks`: its docstring's first line says what it measures,
and running it (`python -m script.benchmarks.NAME`) measures. This module needs only the standard
library.
"""

import argparse
import ast
import asyncio
import tempfile
from pathlib import Path

from script import bootstrap, embedded
from script.console import Console, SetupError
from script.state import new_secrets
from script.supervisor import Program, Supervisor

BENCHMARKS = Path(__file__).parent / "benchmarks"


def names(directory: Path) -> dict[str, str]:
    """Return the first line that each module there says of itself, by its name."""
    found = {}
    for path in sorted(directory.glob("[a-z]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        found[path.stem.replace("_", "-")] = text.split("\n", 1)[0]
    return found


ABOUT = """\
Run one benchmark and print one JSON line. DATABASE_URL and REDIS_URL, when set, name servers to \
use; databases made there are dropped again."""


def main(argv: list[str]) -> int:
    """Run the benchmark that is named, or list them; return the exit code."""
    return choose(argv, program="script/bench", directory=BENCHMARKS, about=ABOUT)


def choose(argv: list[str], *, program: str, directory: Path, about: str) -> int:
    """Run the module of a directory of `script/` that is named, or list them; its exit code."""
    known = names(directory)
    parser = argparse.ArgumentParser(prog=program, description=about)
    parser.add_argument("name", choices=("list", *known), metavar="NAME", help="or `list`")
    arguments, rest = parser.parse_known_args(argv)
    console = Console()
    if arguments.name == "list":
        for name, words in known.items():
            console.plain(f"{name:10} {words}")
        return 0
    bootstrap.ensure_environment(bootstrap.DEVELOPMENT, console=console)
    package = f"script.{directory.name}"
    with tempfile.TemporaryDirectory(prefix="muster-run-") as scratch:
        try:
            return asyncio.run(run(arguments.name, package, rest, Path(scratch), console))
        except asyncio.CancelledError:
            return 130


async def run(
    name: str, package: str, arguments: list[str], directory: Path, console: Console
) -> int:
    """Run a module of the package beside its servers; return its exit code (0 or 1)."""
    environment = bootstrap.child_environment()
    secrets = new_secrets()
    own = {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "MUSTER_SECRET_KEY": secrets["secret_key"],
        "MUSTER_ENCRYPTION_KEYS": secrets["encryption_key"],
        "MUSTER_LOG_LEVEL": "WARNING",
    }
    supervisor = Supervisor(logs=directory, run=directory, console=console)
    async with supervisor:
        if "DATABASE_URL" not in environment:
            postgres = embedded.Postgres(
                bin=embedded.postgres_bin(bootstrap.VENV),
                data=directory / "postgres" / "data",
                port=bootstrap.free_ports(1)[0],
                password=secrets["postgres_password"],
                identity=embedded.choose_identity(),
            )
            await asyncio.to_thread(postgres.initialise)
            await supervisor.start(postgres.program(environment))
            await asyncio.to_thread(postgres.create_database)
            own["DATABASE_URL"] = postgres.url()
        if "REDIS_URL" not in environment:
            valkey = embedded.Valkey(
                server=embedded.valkey_server(bootstrap.VENV),
                directory=directory / "valkey",
                port=bootstrap.free_ports(1)[0],
                password=secrets["valkey_password"],
                throwaway=True,
            )
            await supervisor.start(valkey.program(environment))
            own["REDIS_URL"] = valkey.url()
        module = f"{package}.{name.replace('-', '_')}"
        program = Program(
            name=name,
            argv=[str(bootstrap.venv_python()), "-m", module, *arguments],
            env={**environment, **own},
            cwd=bootstrap.ROOT,
        )
        code, _ = await supervisor.run(program, show=True)
    if code not in (0, 1):
        raise SetupError(f"{name} failed (exit code {code}).")
    return code

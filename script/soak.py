"""Runs one soak with a PostgreSQL and a Valkey of its own, as `script/bench` runs a benchmark.

A soak is a module of `script/soaks`: its docstring's first line says what it is for. This module
needs only the standard library.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from script import bootstrap
from script.bench import names, run
from script.console import Console

SOAKS = Path(__file__).parent / "soaks"


def main(argv: list[str]) -> int:
    """Run the soak that is named, or list them; return the exit code."""
    known = names(SOAKS)
    parser = argparse.ArgumentParser(
        prog="script/soak",
        description="Run one soak; what follows its name is for it. DATABASE_URL, when set, names "
        "a server to use; databases made there are dropped again.",
    )
    parser.add_argument("name", choices=("list", *known), metavar="NAME", help="or `list`")
    arguments, rest = parser.parse_known_args(argv)
    console = Console()
    if arguments.name == "list":
        for name, words in known.items():
            console.plain(f"{name:10} {words}")
        return 0
    bootstrap.ensure_environment(bootstrap.DEVELOPMENT, console=console)
    with tempfile.TemporaryDirectory(prefix="muster-soak-") as directory:
        try:
            return asyncio.run(run(arguments.name, "script.soaks", rest, Path(directory), console))
        except asyncio.CancelledError:
            return 130

"""Runs one soak with a PostgreSQL and a Valkey of its own, as `script/bench` runs a benchmark.

A soak is a module of `script/soaks`: its docstring's first line says what it is for. This module
needs only the standard library.
"""

from pathlib import Path

from script.bench import choose

SOAKS = Path(__file__).parent / "soaks"
ABOUT = """\
Run one soak; what follows its name is for it. DATABASE_URL, when set, names a server to use; \
databases made there are dropped again."""


def main(argv: list[str]) -> int:
    """Run the soak that is named, or list them; return the exit code."""
    return choose(argv, program="script/soak", directory=SOAKS, about=ABOUT)

"""Every static check, one after the other; all of them run even when one fails."""

import argparse
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

from script import bootstrap
from script.console import Console
from script.state import new_secrets


@dataclass(frozen=True)
class Check:
    """A named command, run from the project's root with the virtual environment first in PATH."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


def checks() -> Iterator[Check]:
    """Yield the checks that make sense in this checkout."""
    yield Check("ruff check", ["ruff", "check", "."])
    yield Check("ruff format", ["ruff", "format", "--check", "."])
    yield Check("mypy", ["mypy"], _settings())
    yield Check("import-linter", ["lint-imports", "--no-cache"], _settings())
    if any((bootstrap.ROOT / "templates").rglob("*.html")):
        yield Check("djlint", ["djlint", "templates", "--lint", "--quiet"])
    yield Check(
        "compose schema",
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"],
    )
    yield Check("static files", ["python", "manage.py", "collectstatic", "--dry-run", "--no-input",
                                 "--verbosity", "0"], _settings())  # fmt: skip
    # Asked of the models alone: no database answers, so Django must not look for one.
    yield Check(
        "migrations", ["python", "manage.py", "makemigrations", "--check", "--dry-run"], _settings()
    )
    yield Check("deployment", ["python", "-W", "error", "manage.py", "check", "--deploy",
                               "--fail-level", "ERROR"], _settings())  # fmt: skip
    if shutil.which("promtool"):
        rules = "deploy/monitoring/muster.rules.yml"
        yield Check("alarms", ["promtool", "check", "rules", rules])
    if shutil.which("uv"):
        yield Check("locks", [str(bootstrap.ROOT / "script" / "lock"), "--check"])


def _settings() -> dict[str, str]:
    secrets = new_secrets()
    return {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "MUSTER_SECRET_KEY": secrets["secret_key"],
        "MUSTER_ENCRYPTION_KEYS": secrets["encryption_key"],
    }


def main(argv: list[str]) -> int:
    """Run the checks; return 0 when all pass."""
    argparse.ArgumentParser(prog="script/lint", description=__doc__).parse_args(argv)
    console = Console()
    bootstrap.ensure_environment(bootstrap.DEVELOPMENT, console=console)
    failed = []
    for check in checks():
        began_s = console.elapsed_s()
        done = subprocess.run(
            _in_venv(check.command), cwd=bootstrap.ROOT, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=bootstrap.child_environment(check.environment),
        )  # fmt: skip
        verdict = "ok" if done.returncode == 0 else "FAILED"
        console.say(f"{check.name}: {verdict} ({console.elapsed_s() - began_s:.1f} s)")
        if done.returncode != 0:
            failed.append(check.name)
            console.plain(done.stdout)
    console.plain(f"\nFailed: {', '.join(failed)}" if failed else "\nPassed.")
    return 1 if failed else 0


def _in_venv(command: list[str]) -> list[str]:
    program = bootstrap.VENV / "bin" / command[0]
    return [str(program) if program.exists() else command[0], *command[1:]]

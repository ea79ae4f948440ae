"""Write the requirement files from pyproject.toml, or check that they follow it.

One lock serves every Python from 3.11 on and every platform; it names no package index, so it
installs from whichever one the machine uses.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

from script import bootstrap
from script.console import Console, SetupError

TRACES = ("--extra", "traces")
NO_UV = """\
uv was not found; it writes the lock files. Install it (pip install uv), then run this again."""


def direct_dependencies(root: Path = bootstrap.ROOT) -> dict[str, list[str]]:
    """Return the names (normalised) that pyproject.toml asks for, by lock file."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    runtime = project["project"]["dependencies"]
    traces = project["project"]["optional-dependencies"]["traces"]
    development = project["dependency-groups"]["dev"]
    return {
        bootstrap.RUNTIME: sorted(map(_name, runtime)),
        bootstrap.TRACES: sorted(map(_name, [*runtime, *traces])),
        bootstrap.DEVELOPMENT: sorted(map(_name, [*runtime, *traces, *development])),
    }


def locked(text: str) -> dict[str, int]:
    """Return the packages that a lock file pins, each with its number of hashes."""
    packages: dict[str, int] = {}
    name = ""
    for line in text.splitlines():
        pinned = re.match(r"([A-Za-z0-9._-]+)(\[[^\]]*\])?==\S+", line)
        if pinned:
            name = _name(pinned[1])
            packages[name] = 0
        elif line.strip().startswith("--hash=sha256:"):
            packages[name] += 1
    return packages


def main(argv: list[str]) -> int:
    """Write the lock files, or with `--check` compare; return 0 when they are in step."""
    parser = argparse.ArgumentParser(prog="script/lock", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions allowed")
    arguments = parser.parse_args(argv)
    console = Console()
    uv = shutil.which("uv")
    if uv is None:
        raise SetupError(NO_UV)
    with tempfile.TemporaryDirectory() as directory:
        drafts = Path(directory)
        shutil.copy(bootstrap.ROOT / "pyproject.toml", drafts)
        if not arguments.upgrade:  # keep the versions that are locked now
            for name in direct_dependencies():
                shutil.copy(bootstrap.ROOT / name, drafts / name)
        _compile(uv, drafts, bootstrap.RUNTIME)
        _compile(uv, drafts, bootstrap.TRACES, *TRACES, "-c", bootstrap.RUNTIME)
        _compile(
            uv, drafts, bootstrap.DEVELOPMENT, *TRACES, "--group", "dev", "-c", bootstrap.TRACES
        )
        stale = [path.name for path in sorted(drafts.glob("*.txt")) if _differs(path)]
        if arguments.check:
            console.plain(f"stale: {', '.join(stale)}" if stale else "the locks are in step")
            return 1 if stale else 0
        for name in stale:
            shutil.copy(drafts / name, bootstrap.ROOT / name)
            console.say(f"wrote {name}")
    return 0


def _compile(uv: str, directory: Path, output: str, *more: str) -> None:
    done = subprocess.run(
        [
            uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes",
            "--no-emit-index-url", "--python-version", "3.11", "--custom-compile-command",
            "script/lock", "pyproject.toml", *more, "-o", output,
        ],
        cwd=directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SetupError(f"uv could not resolve the dependencies:\n\n{done.stderr.strip()}")


def _differs(draft: Path) -> bool:
    return draft.read_bytes() != (bootstrap.ROOT / draft.name).read_bytes()


def _name(requirement: str) -> str:
    bare = re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", bare).lower()

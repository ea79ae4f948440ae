"""Make the secrets that docker-compose.yml reads, once; what is there already stays."""

import argparse
from pathlib import Path

from script import bootstrap
from script.console import Console, SetupError
from script.state import new_secrets

VALKEY = """\
bind * -::*
requirepass {password}
dir /data
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
"""

HALF = """\
{directory} lacks: {missing}.
The files hold each other's passwords, so they are made together. Bring these back from your backup;
or, where there is no data yet, remove the directory and run this again."""


def main(argv: list[str]) -> int:
    """Write the files; return 0. Raises SetupError when only some of them are there."""
    parser = argparse.ArgumentParser(prog="script/secrets", description=__doc__)
    parser.add_argument("--directory", type=Path, default=bootstrap.ROOT / "secrets")
    directory = parser.parse_args(argv).directory
    console = Console()
    made = files()
    missing = [name for name in made if not (directory / name).exists()]
    if missing and len(missing) < len(made):
        raise SetupError(HALF.format(directory=directory, missing=", ".join(missing)))
    for name in missing:
        _write(directory / name, made[name])
    console.plain(f"{directory}: {'made' if missing else 'kept as they are'}")
    return 0


def files() -> dict[str, str]:
    """Return the content of each secret file, with fresh secrets."""
    new = new_secrets()
    postgres, valkey = new["postgres_password"], new["valkey_password"]
    return {
        "postgres_password": postgres,
        "database_url": f"postgres://muster:{postgres}@postgres:5432/muster",
        "valkey_conf": VALKEY.format(password=valkey),
        "redis_url": f"redis://:{valkey}@valkey:6379/0",
        "secret_key": new["secret_key"],
        "encryption_keys": new["encryption_key"],
    }


def _write(path: Path, text: str) -> None:
    """Write one file.

    The directory is the owner's alone; the files are readable, because the containers' users,
    which are not root, read them where they are mounted.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text)
    path.chmod(0o444)

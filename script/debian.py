"""Debian packages that the live suites and the browser tests need."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from script.console import SetupError


def can_install() -> bool:
    """Return whether we may install packages here: root, on a Debian or a child of it."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def is_installed(package: str) -> bool:
    """Return whether dpkg has the package installed."""
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Status}", package],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stdout == "install ok installed"


def install(packages: Sequence[str]) -> None:
    """Install packages without questions; raises SetupError with apt's own words."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "-q", "update"],
        ["apt-get", "-q", "install", "-y", "--no-install-recommends", *packages],
    ):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode != 0 and command[2] == "install":
            said = (done.stdout + done.stderr).strip()[-1500:]
            raise SetupError(f"apt-get could not install {' '.join(packages)}:\n\n{said}")

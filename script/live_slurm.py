"""Two real Slurm clusters for the live suite: Debian's packages, all daemons on the loopback."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from script import bootstrap, debian
from script.console import Console, SetupError

PACKAGES = (
    "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurm-client", "slurm-wlm-basic-plugins",
    "slurm-wlm-jwt-plugin", "slurm-wlm-mysql-plugin", "munge", "mariadb-server", "bc", "curl", "jq",
)  # fmt: skip
CLUSTERS = {"alpha": "h100", "beta": "a100"}
SCRIPTS = bootstrap.ROOT / "script" / "slurm-lab"
PORTS_EACH = 40  # controller, REST, accounting, then from +10 on one port a node

NEEDS_ROOT = """\
The live Slurm suite needs these Debian packages, and root to install them:
  {packages}
Missing: {missing}"""


def ensure_packages(console: Console) -> None:
    """Install the Slurm packages that are missing; raises SetupError where that cannot be done."""
    missing = [package for package in PACKAGES if not debian.is_installed(package)]
    if not missing:
        return
    if not debian.can_install():
        raise SetupError(NEEDS_ROOT.format(packages=" ".join(PACKAGES), missing=" ".join(missing)))
    console.say(f"installing {len(missing)} Debian packages for Slurm")
    debian.install(missing)


class Lab:
    """The clusters of one run, in one directory."""

    def __init__(self, directory: Path, *, console: Console) -> None:
        self.directory = directory
        self._console = console
        self._started: list[str] = []

    def up(self) -> None:
        """Start the clusters side by side; raises SetupError with the words of one that fails."""
        self._open_to_daemons()
        base = _free_port_range(PORTS_EACH * len(CLUSTERS))
        ports = range(base, base + PORTS_EACH * len(CLUSTERS), PORTS_EACH)
        with ThreadPoolExecutor(len(CLUSTERS)) as pool:
            runs = {}
            for port, (name, gpu) in zip(ports, CLUSTERS.items(), strict=True):
                self._console.say(f"starting the Slurm cluster {name} ({gpu})")
                self._started.append(name)
                runs[name] = pool.submit(self._script, "up.sh", name, str(port), gpu)
        for name, run in runs.items():
            done = run.result()
            if done.returncode != 0:
                said = (done.stdout + done.stderr).strip()[-2000:]
                raise SetupError(f"The Slurm cluster {name} did not come up:\n\n{said}")

    def down(self) -> None:
        """Stop what was started; the directory goes with the run."""
        while self._started:
            name = self._started.pop()
            last = [] if self._started else ["--db"]
            self._script("down.sh", name, *last)
        deadline_s = time.monotonic() + 30  # the database writes until it is gone
        while (self.directory / "db" / "pid").exists() and time.monotonic() < deadline_s:
            time.sleep(0.1)
        self._console.say("the Slurm clusters are stopped")

    def _open_to_daemons(self) -> None:
        """Let the daemons' own users (slurm, mysql, nobody) enter; secrets inside are closed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for directory in (self.directory, self.directory.parent):
            directory.chmod(0o755)

    def _script(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        # A file, not a pipe, takes the output: the daemons inherit it and would hold a pipe open.
        path = self.directory / f"{script}-{arguments[0]}.log"
        with path.open("w") as output:
            done = subprocess.run(
                [str(SCRIPTS / script), *arguments], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, check=False,
                env={**os.environ, "LAB": str(self.directory)},
            )  # fmt: skip
        return subprocess.CompletedProcess(done.args, done.returncode, path.read_text(), "")


def _free_port_range(count: int) -> int:
    """Return the first of `count` neighbouring ports that are free now."""
    for base in range(20_000, 32_000, count):
        try:
            for port in range(base, base + count):
                bootstrap.require_free_port(port)
        except SetupError:
            continue
        return base
    raise SetupError(f"No {count} neighbouring free ports between 20000 and 32000.")

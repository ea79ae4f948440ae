"""A real Kubernetes API server for the live suite: built from Go modules, all on the loopback."""

import os
import shutil
import subprocess
from pathlib import Path

from script import bootstrap, debian
from script.console import Console, SetupError
from script.supervisor import Program, Supervisor

PACKAGES = ("openssl", "curl")  # each is named as its program
CLUSTER = "gamma"
SCRIPTS = bootstrap.ROOT / "script" / "kubernetes-lab"
PORTS = 5
BUILD_BYTES = 8_000_000_000

NEEDS_PACKAGES = """\
The live Kubernetes suite needs these programs: {missing}
On Debian or Ubuntu:  apt install {missing}"""


def ensure_packages(console: Console) -> None:
    """Install the programs that are missing; raises SetupError where that cannot be done."""
    missing = [package for package in PACKAGES if shutil.which(package) is None]
    if not missing:
        return
    if not debian.can_install():
        raise SetupError(NEEDS_PACKAGES.format(missing=" ".join(missing)))
    console.say(f"installing {' and '.join(missing)}")
    debian.install(missing)


async def ensure_built(supervisor: Supervisor, console: Console) -> None:
    """Build what is not in the cache; it tells its progress.

    Raises SetupError when the disk is too full, there is no Go or the build fails.
    """
    build = str(SCRIPTS / "build.sh")
    asked = subprocess.run([build, "--where"], capture_output=True, text=True, check=False)
    if asked.returncode == 0:
        return
    bootstrap.require_free_space(Path.home(), need=BUILD_BYTES)
    console.say("building the Kubernetes API server; the first time some 10 minutes on two cores")
    program = Program(
        name="kubernetes-build", argv=[build], env=dict(os.environ), cwd=bootstrap.ROOT
    )
    code, _ = await supervisor.run(program, show=True)
    if code != 0:
        raise SetupError("The Kubernetes API server could not be built; why is said above.")


class Lab:
    """The cluster of one run, in one directory."""

    def __init__(self, directory: Path, *, console: Console) -> None:
        self.directory = directory
        self._console = console

    def up(self) -> None:
        """Start the cluster; raises SetupError with the words of what fails."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._console.say(f"starting the Kubernetes cluster {CLUSTER}")
        code, said = self._script("up.sh", CLUSTER, str(_first_free_port()))
        if code != 0:
            raise SetupError(f"The Kubernetes cluster {CLUSTER} did not come up:\n\n{said}")

    def down(self) -> None:
        """Stop what was started; the directory goes with the run."""
        self._script("down.sh", CLUSTER)
        self._console.say("the Kubernetes cluster is stopped")

    def _script(self, script: str, *arguments: str) -> tuple[int, str]:
        """Run a script of the lab; return its exit code and its last words."""
        # A file, not a pipe, takes the output: what the daemons inherit would hold a pipe open.
        path = self.directory / f"{script}.log"
        with path.open("w") as output:
            done = subprocess.run(
                [str(SCRIPTS / script), *arguments], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, check=False,
                env={**os.environ, "LAB": str(self.directory)},
            )  # fmt: skip
        return done.returncode, path.read_text().strip()[-2000:]


def _first_free_port() -> int:
    """Return the first of the neighbouring ports that a cluster takes, all free now."""
    for base in range(24_000, 31_000, PORTS):
        try:
            for port in range(base, base + PORTS):
                bootstrap.require_free_port(port)
        except SetupError:
            continue
        return base
    raise SetupError(f"No {PORTS} neighbouring free ports between 24000 and 31000.")

"""The whole test suite: brings its own PostgreSQL and Valkey, and says what it did not run."""

import argparse
import asyncio
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from script import bootstrap, debian, embedded, live_kubernetes, live_slurm
from script.console import Console, SetupError
from script.state import new_secrets
from script.supervisor import Program, Supervisor

EVERYDAY = "not live and not soak and not benchmark"
# Half as many again as cores: system tests and browsers wait for much of their time.
WORKER_COUNT = str((os.cpu_count() or 1) * 3 // 2)
# A file is one worker's, so what its tests share is made once; tests/conftest.py has the order.
WORKERS = ("-n", WORKER_COUNT, "--dist", "loadfile", "--no-loadscope-reorder")
NO_TESTS = 5  # pytest's exit code when nothing was collected
# A killed server must keep what it promised to keep: tests kill it.
POSTGRES = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "synchronous_commit": "on",
}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Report:
    """Which suites failed, and which were not run and why."""

    failed: list[str] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)

    def print(self, console: Console) -> None:
        """Print what was not run and what failed."""
        if self.not_run:
            console.plain("\nNot run:")
            for suite, why in self.not_run.items():
                console.plain(f"  {suite}: {why}")
        console.plain(f"\nFailed: {', '.join(self.failed)}" if self.failed else "\nPassed.")


def parse_arguments(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parse the command line of `script/test`; what it does not know goes to pytest."""
    parser = argparse.ArgumentParser(
        prog="script/test",
        description="Run the test suite with a PostgreSQL and a Valkey of its own. Arguments not "
        "listed here go to pytest. DATABASE_URL and REDIS_URL, when set, name servers to use.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--live", action="append", default=[], choices=("slurm", "kubernetes"),
        help="also run the suite against the real thing (slurm installs what it needs, as root on "
        "Debian; kubernetes is built with Go 1.26, the first time some 10 minutes)",
    )  # fmt: skip
    parser.add_argument(
        "--live-only", action="store_true", help="with --live: leave the everyday suite out"
    )
    arguments, rest = parser.parse_known_args(argv)
    if arguments.live_only and not arguments.live:
        parser.error("--live-only needs --live")
    return arguments, rest


def main(argv: list[str]) -> int:
    """Run the suites asked for; return 0 when all of them passed."""
    arguments, pytest_arguments = parse_arguments(argv)
    console = Console()
    bootstrap.ensure_environment(bootstrap.DEVELOPMENT, console=console)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="muster-test-") as directory:
        suite = Suite(Path(directory), console=console, report=report)
        try:
            asyncio.run(
                suite.run(pytest_arguments, live=arguments.live, everyday=not arguments.live_only)
            )
        except asyncio.CancelledError:
            console.say("stopped")
            return 130
    report.print(console)
    return 1 if report.failed else 0


class Suite:
    """One run of the tests over one temporary directory."""

    def __init__(self, directory: Path, *, console: Console, report: Report) -> None:
        self._directory = directory
        self._console = console
        self._report = report
        self._environment = bootstrap.child_environment()
        self._supervisor = Supervisor(logs=directory, run=directory, console=console)

    async def run(self, pytest_arguments: list[str], *, live: list[str], everyday: bool) -> None:
        """Start the services, run the suites, stop the services."""
        async with self._supervisor:
            await self._start_services()
            if everyday:
                await self._run_everyday(pytest_arguments)
            else:
                self._report.not_run["the everyday suite"] = "--live-only was given"
            if "slurm" in live:
                await self._run_live_slurm(pytest_arguments if not everyday else [])
            else:
                self._report.not_run["live Slurm"] = "add --live slurm (root on Debian)"
            if "kubernetes" in live:
                await self._run_live_kubernetes(pytest_arguments if not everyday else [])
            else:
                self._report.not_run["live Kubernetes"] = "add --live kubernetes (needs Go 1.26)"
            self._report.not_run["long runs and measurements"] = "script/soak and script/bench"

    async def _start_services(self) -> None:
        postgres_port, valkey_port = bootstrap.free_ports(2)
        secrets = new_secrets()
        own = {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "MUSTER_SECRET_KEY": secrets["secret_key"],
            "MUSTER_ENCRYPTION_KEYS": secrets["encryption_key"],
        }
        programs: list[Program] = []
        if "DATABASE_URL" not in self._environment:
            postgres = embedded.Postgres(
                bin=embedded.postgres_bin(bootstrap.VENV),
                data=self._directory / "postgres" / "data",
                port=postgres_port,
                password=secrets["postgres_password"],
                identity=embedded.choose_identity(),
                throwaway=True,
                settings=POSTGRES,
            )
            await asyncio.to_thread(postgres.initialise)
            programs.append(postgres.program(self._environment))
            own["DATABASE_URL"] = postgres.url()
        if "REDIS_URL" not in self._environment:
            valkey = embedded.Valkey(
                server=embedded.valkey_server(bootstrap.VENV),
                directory=self._directory / "valkey",
                port=valkey_port,
                password=secrets["valkey_password"],
                throwaway=True,
            )
            programs.append(valkey.program(self._environment))
            own["REDIS_URL"] = valkey.url()
        await self._supervisor.start(*programs)
        if "DATABASE_URL" in own:
            await asyncio.to_thread(postgres.create_database)
        self._environment = bootstrap.child_environment(own)
        self._console.say("PostgreSQL and Valkey are up")

    async def _run_everyday(self, given: list[str]) -> None:
        marks = EVERYDAY
        missing = await asyncio.to_thread(self._why_no_chromium)
        if missing is not None:
            marks += " and not browser"
            self._report.not_run["browser tests"] = missing
        arguments = [*given]
        if not any(word.startswith(("-n", "--numprocesses")) for word in given):
            arguments = [*WORKERS, *arguments]
        if not any(word.startswith("-m") for word in given):
            arguments = ["-m", marks, *arguments]
        await self._pytest("everyday", arguments)

    async def _run_live_slurm(self, given: list[str]) -> None:
        await asyncio.to_thread(live_slurm.ensure_packages, self._console)
        lab = live_slurm.Lab(self._directory / "slurm", console=self._console)
        own = {"MUSTER_LIVE_SLURM": str(lab.directory)}
        await self._run_live(
            "Slurm", lab, own, ["tests/clusters/backends", "tests/live/slurm", *given]
        )

    async def _run_live_kubernetes(self, given: list[str]) -> None:
        await asyncio.to_thread(live_kubernetes.ensure_packages, self._console)
        await live_kubernetes.ensure_built(self._supervisor, self._console)
        lab = live_kubernetes.Lab(self._directory / "kubernetes", console=self._console)
        own = {"MUSTER_LIVE_KUBERNETES": str(lab.directory)}
        await self._run_live("Kubernetes", lab, own, ["tests/live/kubernetes", *given])

    async def _run_live(
        self,
        what: str,
        lab: live_slurm.Lab | live_kubernetes.Lab,
        own: dict[str, str],
        arguments: list[str],
    ) -> None:
        up = asyncio.create_task(asyncio.to_thread(lab.up))
        try:
            await asyncio.shield(up)
            alone = ["-m", "live", "-p", "no:xdist"]  # a lab is shared by all tests
            await self._pytest(f"live {what}", [*alone, *arguments], own)
        finally:
            await asyncio.wait([up])  # a thread cannot be cancelled: let it end, then undo it
            lab.down()

    async def _pytest(
        self, name: str, arguments: list[str], own: dict[str, str] | None = None
    ) -> None:
        self._console.say(f"{name}: pytest {' '.join(arguments)}")
        program = Program(
            name="pytest",
            argv=[str(bootstrap.venv_python()), "-m", "pytest", *arguments],
            env={**self._environment, **(own or {})},
            cwd=bootstrap.ROOT,
            stop_within_s=60.0,
        )
        code, _ = await self._supervisor.run(program, show=True)
        if code != 0:
            why = " (no tests were found)" if code == NO_TESTS else ""
            self._report.failed.append(f"{name}{why}")

    def _why_no_chromium(self) -> str | None:
        """Install Chromium where that is ours to do; return why there is none, or None."""
        if any(shutil.which(name) for name in CHROMIUM):
            return None
        if not debian.can_install():
            return "no Chromium here; install it (Debian: apt install chromium)"
        self._console.say("installing Chromium for the browser tests")
        try:
            debian.install(["chromium"])
        except SetupError as error:
            return f"Chromium could not be installed: {str(error).splitlines()[0]}"
        return None

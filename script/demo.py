"""Set up and run everything on this machine, with simulated member clusters."""

import argparse
import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from script import bootstrap, embedded, processes
from script.console import Console, SetupError
from script.state import State
from script.supervisor import Program, Supervisor

FIRST_WORDS = """
Muster is ready:  {url}
  sign in as      {username}
  password        {password}
  API token       {token}

  curl -H "Authorization: Bearer {token}" {base}/api/v1/me

State and logs are in {state}. Ctrl-C stops everything."""

STEP_FAILED = """\
{step} failed ({how}). Its last words:

{tail}

All of it: {log}"""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line of `script/demo`."""
    parser = argparse.ArgumentParser(
        prog="script/demo",
        description="Set up and run Muster with simulated clusters. DATABASE_URL and REDIS_URL, "
        "when set, name servers to use instead of the embedded ones.",
    )
    parser.add_argument("--port", type=_port, default=8000, help="port of the front (default 8000)")
    parser.add_argument(
        "--state", type=Path, default=bootstrap.ROOT / ".muster", help="directory of the state"
    )
    parser.add_argument(
        "--check", action="store_true",
        help="submit the demo's jobs, wait for their ends, print a summary, exit 0 or 1",
    )  # fmt: skip
    parser.add_argument("--verbose", action="store_true", help="show every process's output")
    return parser.parse_args(argv)


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65536:
        raise argparse.ArgumentTypeError("a port is between 1 and 65535")
    return port


def main(argv: list[str]) -> int:
    """Run the demo until Ctrl-C, or its check; return the exit code."""
    arguments = parse_arguments(argv)
    console = Console()
    bootstrap.require_free_port(arguments.port)
    state = State(arguments.state)
    state.acquire()
    try:
        bootstrap.ensure_environment(bootstrap.RUNTIME, console=console)
        bootstrap.require_free_space(state.path, need=300_000_000)
        demo = Demo(state, port=arguments.port, console=console, verbose=arguments.verbose)
        return asyncio.run(demo.run(check=arguments.check))
    finally:
        state.release()


class Demo:
    """One run of the demo over one state directory."""

    def __init__(self, state: State, *, port: int, console: Console, verbose: bool) -> None:
        self._state = state
        self._console = console
        self._secrets = state.secrets()
        postgres_port, valkey_port, web_port = bootstrap.free_ports(3)
        self._layout = processes.Layout(
            port=port, web_port=web_port, schedule=state.path / "beat-schedule"
        )
        self._base = f"http://127.0.0.1:{port}"
        self._environment = bootstrap.child_environment()
        self._supervisor = Supervisor(
            logs=state.logs, run=state.run, console=console, verbose=verbose
        )
        self._postgres = self._embedded_postgres(postgres_port)
        self._valkey = self._embedded_valkey(valkey_port)
        self._environment = self._muster_environment()

    async def run(self, *, check: bool) -> int:
        """Start everything, then check or wait; stop everything; return the exit code."""
        try:
            async with self._supervisor:
                await self._start()
                if check:
                    return await self._check()
                self._greet()
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._console.say("stopped")
            return 130 if check else 0
        return 0

    async def _start(self) -> None:
        await self._start_services()
        await self._step("migrate", "migrate", "--no-input", "--skip-checks")
        await self._step("seed", "seed_demo", "--skip-checks", "--state", str(self._state.path))
        self._console.say("starting the simulated clusters")
        await self._supervisor.start(self._simulator())
        self._console.say("starting web, stream, arbiter, workers, beat")
        await self._supervisor.start(*self._muster_programs())
        self._console.say("everything runs")

    async def _start_services(self) -> None:
        programs = []
        if self._postgres is not None:
            made = await asyncio.to_thread(self._postgres.initialise)
            self._console.say("starting PostgreSQL" + (" on a new database" if made else ""))
            programs.append(self._postgres.program(bootstrap.child_environment()))
        if self._valkey is not None:
            self._console.say("starting Valkey")
            programs.append(self._valkey.program(bootstrap.child_environment()))
        await self._supervisor.start(*programs)
        if self._postgres is not None:
            await asyncio.to_thread(self._postgres.create_database)

    async def _step(self, name: str, *arguments: str) -> None:
        """Run one `manage.py` command to its end; raises SetupError when it fails."""
        self._console.say(f"manage.py {arguments[0]}")
        program = self._program(name, ("python", "manage.py", *arguments))
        code, tail = await self._supervisor.run(program)
        if code != 0:
            raise SetupError(
                STEP_FAILED.format(
                    step=f"manage.py {arguments[0]}",
                    how=f"exit code {code}",
                    tail="\n".join(f"  {line}" for line in tail),
                    log=self._state.logs / f"{name}.log",
                )
            )

    async def _check(self) -> int:
        self._console.say("submitting the demo's jobs and following them to their ends")
        asked = ("--url", self._base, "--state", str(self._state.path))
        program = self._program("check", ("python", "manage.py", "demo_check", *asked))
        code, _ = await self._supervisor.run(program, show=True)
        self._console.say("the check passed" if code == 0 else f"the check failed ({code})")
        return 0 if code == 0 else 1

    def _greet(self) -> None:
        login = json.loads((self._state.path / "login.json").read_text())
        url = f"{self._base}{login['url_path']}"
        self._console.plain(
            FIRST_WORDS.format(**login, url=url, base=self._base, state=self._state.path)
        )

    def _simulator(self) -> Program:
        path = self._state.path / "simulator.json"
        clusters = json.loads(path.read_text())["clusters"]
        return self._program(
            "simulator",
            ("python", "-m", "simulator", "--config", str(path)),
            ready=processes.listens([cluster["port"] for cluster in clusters]),
        )

    def _muster_programs(self) -> list[Program]:
        ready = {
            "web": processes.answers(self._layout.web_port, "/readyz"),
            "stream": processes.answers(self._layout.port, "/readyz"),
        }
        return [
            self._program(name, command, ready=ready.get(name))
            for name, command in processes.commands(self._layout).items()
        ]

    def _program(
        self, name: str, command: tuple[str, ...], *, ready: Callable[[], bool] | None = None
    ) -> Program:
        executable = bootstrap.VENV / "bin" / command[0]
        return Program(
            name=name,
            argv=[str(executable), *command[1:]],
            env=self._environment,
            cwd=bootstrap.ROOT,
            ready=ready,
        )

    def _embedded_postgres(self, port: int) -> embedded.Postgres | None:
        if "DATABASE_URL" in self._environment:
            return None
        return embedded.Postgres(
            bin=embedded.postgres_bin(bootstrap.VENV),
            data=self._state.path / "postgres" / "data",
            port=port,
            password=self._secrets["postgres_password"],
            identity=embedded.choose_identity(),
        )

    def _embedded_valkey(self, port: int) -> embedded.Valkey | None:
        if "REDIS_URL" in self._environment:
            return None
        return embedded.Valkey(
            server=embedded.valkey_server(bootstrap.VENV),
            directory=self._state.path / "valkey",
            port=port,
            password=self._secrets["valkey_password"],
        )

    def _muster_environment(self) -> dict[str, str]:
        own = {
            **processes.ENVIRONMENT,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "MUSTER_SECRET_KEY": self._secrets["secret_key"],
            "MUSTER_ENCRYPTION_KEYS": self._secrets["encryption_key"],
            "MUSTER_SECURE_COOKIES": "false",  # the demo speaks plain HTTP on the loopback
            "MUSTER_WEB_UPSTREAM": processes.web_upstream(self._layout),
        }
        if self._postgres is not None:
            own["DATABASE_URL"] = self._postgres.url()
        if self._valkey is not None:
            own["REDIS_URL"] = self._valkey.url()
        return bootstrap.child_environment(own)

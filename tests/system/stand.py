"""A whole Muster whose every part can be taken away: its own PostgreSQL, Valkey and networks.

processes ── relay ── PostgreSQL (and, once asked for, a standby)
    │  └──── Valkey
    └─────── relay ── simulated cluster, one relay each
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, connection

from accounting.models import Transfer, UsageInterval
from clusters.models import Cluster, Command
from clusters.selectors.connection import configuration_etag
from clusters.services.configure import update_cluster
from federation.models import Attempt, Job
from script import bootstrap, embedded
from script.bootstrap import free_ports
from tests.load import Load
from tests.relay import Relay
from tests.stack import Stack, eventually
from tests.system.postgres import PASSWORD, Server, primary
from tests.world import World, make_world, simulated, utc_now

CLUSTERS = ("aurora", "borealis")
PRICE_NANO = 2_000_000_000  # as `make_world` sets it for what is guaranteed
MS_PER_HOUR = 3_600_000


@dataclass
class Broker:
    """A Valkey that the test starts, kills and starts again."""

    server: embedded.Valkey
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, empty, and waits until it answers."""
        program = self.server.program(dict(os.environ))
        self.server.write_configuration()
        self.process = subprocess.Popen(  # noqa: S603 - our own server
            list(program.argv),
            cwd=program.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        eventually(self.server.is_ready, what="Valkey is up")

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends it; what it held is gone."""
        if self.process:
            self.process.send_signal(number)
            self.process.wait(60)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.server.url(), socket_timeout=60)


@dataclass
class Stand:
    """The parts by name, and what must hold when all of them are back."""

    directory: Path
    world: World
    stack: Stack
    postgres: Server
    address: Relay
    broker: Broker
    networks: Mapping[str, Relay]
    promised: list[str] = field(default_factory=list)

    @contextmanager
    def load(self, *clusters: str, every_s: float = 0.4) -> Iterator[Load]:
        """Small gangs come in over REST for as long as the block runs."""
        only: dict[str, Any] = {"clusters": {"only": list(clusters)}} if clusters else {}
        sizes = iter(range(1_000_000))

        def body() -> dict[str, object]:
            return self.world.body(nodes=1 + next(sizes) % 3, gpus=2, seconds=1, **only)

        load = Load(self.stack.url, self.world.token, body, every_s)
        try:
            with load.running():
                yield load
        finally:
            self.promised += load.ids

    def all_agree(self) -> None:
        """Everything that was ever promised ran once, and is paid to the last nano-unit.

        What ran is counted in the clusters' own accounting, and the price is worked out from it.
        """
        eventually(self._ended, within_s=300, what="every job succeeded")
        fences = set(Attempt.objects.values_list("fence", flat=True))
        runs = [run for lab in self.world.simulated.values() for run in lab.runs()]
        ours = [run for run in runs if run["name"] in fences]
        assert len(ours) == len(self.promised) == Job.objects.count() == len(fences)
        assert {run["name"] for run in ours} == fences
        assert {run["state"]["current"] for run in ours} == {"COMPLETED"}
        due = sum(_cost_nano(run) for run in ours)
        eventually(lambda: self._paid() == due, within_s=60, what=f"the ledger holds {due}")
        assert UsageInterval.objects.count() == len(ours)
        assert not UsageInterval.objects.filter(ended_ms=None).exists()

    def nothing_died(self) -> None:
        """Every process is the one that was started: they came through by themselves."""
        dead = [name for name, one in self.stack.running.items() if one.poll() is not None]
        assert not dead, f"{dead} ended; see {self.directory}"

    def _ended(self) -> bool:
        try:
            open_attempts = Attempt.objects.exclude(state="ended").count()
            orders = Command.objects.filter(state__in=["waiting", "sent"]).count()
            ended = Job.objects.filter(state="succeeded").count()
        except (DatabaseError, InterfaceError):
            connection.close()
            return False
        return (open_attempts, orders, ended) == (0, 0, len(self.promised))

    def _paid(self) -> int:
        return sum(Transfer.objects.values_list("amount_nano", flat=True))


def _cost_nano(run: dict[str, Any]) -> int:
    """GPUs x time x price, rounded down once a run."""
    time, tres = run["time"], run["tres"]
    gpus = sum(row["count"] for row in tres["allocated"] if row["name"] == "gpu")
    held_ms = 1000 * (time["end"] - time["start"])
    return int(PRICE_NANO * gpus * held_ms // MS_PER_HOUR)


@contextmanager
def stand(directory: Path) -> Iterator[Stand]:
    """Everything, started and ready; stopped at the end whatever happens."""
    with ExitStack() as opened:
        postgres_port, valkey_port = free_ports(2)
        server = primary(directory, postgres_port)
        opened.callback(server.close)
        broker = _broker(directory, valkey_port)
        opened.callback(broker.end)
        address = opened.enter_context(Relay(server.port).open())
        opened.enter_context(_database_at(address.port))
        call_command("migrate", verbosity=0, skip_checks=True)
        fleet = {name: {"nodes": 8, "gpu_type": "h100"} for name in CLUSTERS}
        clusters = opened.enter_context(simulated(directory, **fleet))
        world = make_world(clusters, dict.fromkeys(CLUSTERS, ("h100", "h100-sxm-80")))
        networks = {
            name: opened.enter_context(Relay(lab.port).open()) for name, lab in clusters.items()
        }
        for name, relay in networks.items():
            _move(world.clusters[name], f"http://127.0.0.1:{relay.port}")
        stack = Stack(
            directory,
            {
                "REDIS_URL": broker.server.url(),
                "MUSTER_LEASE_MS": "2000",
                "MUSTER_BACKEND_TIMEOUT_MS": "2000",
            },
        )
        opened.callback(stack.stop)
        stack.start()
        stack.wait_until_ready()
        yield Stand(directory, world, stack, server, address, broker, networks)


def _broker(directory: Path, port: int) -> Broker:
    server = embedded.valkey_server(bootstrap.VENV)
    broker = Broker(
        embedded.Valkey(
            server=server,
            directory=directory / "valkey",
            port=port,
            password=PASSWORD,
            throwaway=True,
        )
    )
    broker.start()
    return broker


def _move(cluster: Cluster, endpoint: str) -> None:
    cluster.refresh_from_db()
    update_cluster(
        actor=None,
        cluster=cluster,
        changes={"endpoint": endpoint},
        expected_etag=configuration_etag(cluster),
        now=utc_now(),
    )


@contextmanager
def _database_at(port: int) -> Iterator[None]:
    """This process, too, uses the database behind the relay."""
    kept = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(
        NAME=embedded.DATABASE,
        USER=embedded.USER,
        PASSWORD=PASSWORD,
        HOST="127.0.0.1",
        PORT=str(port),
    )
    try:
        yield
    finally:
        with contextlib.suppress(DatabaseError, InterfaceError):
            connection.close()
        connection.settings_dict.update(kept)

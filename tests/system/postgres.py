"""A PostgreSQL of a test's own, and a standby that has all that was ever committed."""

import os
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from script import bootstrap, embedded
from tests.stack import eventually

PASSWORD = "only-for-this-test"
STANDBY = "standby"
# Committed is what the standby has written too: so a failover loses nothing that was promised.
REPLICATED = {
    "wal_level": "replica",
    "max_wal_senders": "4",
    "max_connections": "100",
    "synchronous_commit": "remote_write",
    "wal_keep_size": "256MB",
    "wal_retrieve_retry_interval": "200ms",
}


@dataclass
class Server:
    """One PostgreSQL server that the test starts, kills and starts again."""

    server: embedded.Postgres
    process: subprocess.Popen[bytes] | None = None
    follower: "Server | None" = None

    @property
    def port(self) -> int:
        return self.server.port

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        program = self.server.program(dict(os.environ))
        self.server.clear_stale_lock()
        with (self.server.data.parent / f"{self.server.data.name}.log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own server
                list(program.argv),
                cwd=program.cwd,
                env=dict(program.env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=program.uid,
                group=program.gid,
                extra_groups=None if program.uid is None else [],
            )
        eventually(self.server.is_ready, within_s=60, what="PostgreSQL is up")

    def end(self, number: signal.Signals) -> None:
        """Ends it: SIGINT is a fast shutdown, SIGQUIT an immediate one, SIGKILL a crash."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)

    def restart(self, number: signal.Signals) -> None:
        """Ends it that way and starts it again."""
        self.end(number)
        self.start()

    def close(self) -> None:
        """Ends it, and the standby that was made of it; nobody needs their data any more."""
        for one in (self.follower, self):
            if one is not None:
                one.end(signal.SIGKILL)

    def promote(self) -> None:
        """Makes a standby the primary."""
        self._tool("pg_ctl", "promote", "-w", "-D", str(self.server.data))

    def standby(self, port: int) -> "Server":
        """A running copy that follows, without which nothing is committed from now on."""
        data = self.server.data.with_name(STANDBY)
        source = (
            f"host=127.0.0.1 port={self.port} user={embedded.USER} password={PASSWORD}"
            f" application_name={STANDBY}"
        )
        data.mkdir(mode=0o700)
        if self.server.identity.uid is not None:
            os.chown(data, self.server.identity.uid, -1)
        self._tool("pg_basebackup", "-D", str(data), "-d", source, "-R", "-c", "fast", "--no-sync")
        copy = Server(replace(self.server, data=data, port=port))
        copy.start()
        self.follower = copy
        self._sql(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        self._sql("SELECT pg_reload_conf()")
        eventually(
            lambda: "sync" in self._sql("SELECT sync_state FROM pg_stat_replication"),
            what="the standby follows",
        )
        return copy

    def _sql(self, statement: str) -> str:
        url = self.server.url("postgres")
        return self._tool("psql", url, "--no-psqlrc", "--tuples-only", "-c", statement)

    def _tool(self, tool: str, *arguments: str) -> str:
        identity = self.server.identity
        done = subprocess.run(  # noqa: S603 - PostgreSQL's own tools
            [*identity.prefix, str(self.server.bin / tool), *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            stdin=subprocess.DEVNULL,
            user=identity.uid,
            group=identity.gid,
            extra_groups=None if identity.uid is None else [],
        )
        assert done.returncode == 0, f"{tool}: {done.stderr}"
        return done.stdout


def primary(directory: Path, port: int) -> Server:
    """A new server with one database, running, that a standby can follow."""
    server = Server(
        embedded.Postgres(
            bin=embedded.postgres_bin(bootstrap.VENV),
            data=directory / "postgres" / "primary",
            port=port,
            password=PASSWORD,
            identity=embedded.choose_identity(),
            throwaway=True,
            settings=dict(REPLICATED),
        )
    )
    server.server.initialise()
    server.start()
    server.server.create_database()
    return server

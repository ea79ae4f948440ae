"""The lab clusters of `script/slurm-lab` as tests use them, and an admin's hands on them."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from clusters.core.backend import Connection

HOW = "set MUSTER_LIVE_SLURM to a LAB directory where script/slurm-lab/up.sh made alpha and beta"


@dataclass(frozen=True)
class LabCluster:
    """One cluster that `up.sh` brought up; `directory` is `$LAB/clusters/NAME`."""

    directory: Path

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def slurm_conf(self) -> str:
        return str(self.directory / "etc" / "slurm.conf")

    @property
    def endpoint(self) -> str:
        """slurmrestd listens on the port after slurmctld's."""
        return f"http://127.0.0.1:{int(self.setting('SlurmctldPort')) + 1}"

    @property
    def key(self) -> bytes:
        return (self.directory / "etc" / "jwt_hs256.key").read_bytes()

    def setting(self, name: str) -> str:
        """A value of slurm.conf."""
        lines = Path(self.slurm_conf).read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith(f"{name}="))

    def connection(self, account: str = "slurm", **options: str) -> Connection:
        """How Muster would be configured for it; `__` in option names stands for `.`."""
        given = {key.replace("__", "."): value for key, value in options.items()}
        site = {"environment.SLURM_CONF": self.slurm_conf, "timeout_s": "15"}
        return Connection(self.name, self.endpoint, self.key, account, site | given)

    def run(self, *words: str) -> str:
        """One of Slurm's own commands as its admin; its output."""
        environment = os.environ | {"SLURM_CONF": self.slurm_conf}
        done = subprocess.run(  # noqa: S603 - words of our own
            words, env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def requeue(self, job_id: str) -> None:
        """What an admin may do even to a job submitted with no_requeue."""
        self.run("scontrol", "update", f"jobid={job_id}", "requeue=1")
        self.run("scontrol", "requeue", job_id)

    def node_down(self, node: str) -> None:
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=contract")

    def node_up(self, node: str) -> None:
        self.run("scontrol", "update", f"nodename={node}", "state=resume")

    def forget_finished(self, seconds: int) -> None:
        """Let slurmctld forget finished jobs after so many seconds (MinJobAge)."""
        path = Path(self.slurm_conf)
        now = self.setting("MinJobAge")
        path.write_text(path.read_text().replace(f"MinJobAge={now}", f"MinJobAge={seconds}"))
        self.run("scontrol", "reconfigure")

    def drop_jobs(self) -> None:
        """Cancel whatever is still there, so that every test starts on an idle cluster."""
        for user in ("mia", "ben"):
            self.run("scancel", "--quiet", f"--user={user}")


def lab_directory() -> Path | None:
    """Where the lab is, or None when nobody said."""
    where = os.environ.get("MUSTER_LIVE_SLURM")
    return Path(where) if where else None

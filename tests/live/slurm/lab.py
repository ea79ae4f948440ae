"""The lab clusters of `script/slurm-lab` as tests use them, and an admin's hands on them."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from clusters.core.backend import Connection

SCRIPTS = Path(__file__).resolve().parents[3] / "script" / "slurm-lab"
LOG_TAIL = 100_000
SAVING_S = 0.2  # from taking stock of the jobs to the end of writing it
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
        self.configure("MinJobAge", str(seconds))

    def configure(self, name: str, value: str) -> None:
        """Change a value of slurm.conf that running daemons take over."""
        path = Path(self.slurm_conf)
        now = self.setting(name)
        path.write_text(path.read_text().replace(f"{name}={now}\n", f"{name}={value}\n"))
        self.run("scontrol", "reconfigure")

    def kill(self, daemon: str) -> None:
        """End a daemon without warning: slurmctld, slurmdbd, slurmrestd or `slurmd-<node>`."""
        pid = self._pid(daemon)
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 60
        while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
            assert time.monotonic() < until, f"{daemon} does not end"
            time.sleep(0.05)

    def kill_saved_controller(self) -> None:
        """End slurmctld without warning, at a moment at which it has written all it knows of jobs.

        It writes a few seconds after a change, and what it had not written it forgets, runs and all
        (see `test_a_controller_that_comes_back_with_an_older_state`).
        """
        pid, until = self._pid("slurmctld"), time.monotonic() + 120
        while True:
            assert time.monotonic() < until, "slurmctld never comes to write its state"
            if re.search(r"DBD Agent queue size: *0\b", self.run("sdiag")):
                os.kill(pid, signal.SIGSTOP)
                if self._is_saved():
                    break
                os.kill(pid, signal.SIGCONT)
            time.sleep(0.05)
        self.kill("slurmctld")

    def _is_saved(self) -> bool:
        """Whether the controller's state was written a while after its last word about a job."""
        with (self.directory / "log" / "slurmctld.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL))
            words = re.findall(rb"^\[([-0-9T:.]+)\].* JobId=", log.read(), re.MULTILINE)
        changed = datetime.fromisoformat(words[-1].decode()).timestamp() if words else 0.0
        return changed + SAVING_S < self.saved_jobs.stat().st_mtime

    def _pid(self, daemon: str) -> int:
        pid = int((self.directory / "run" / f"{daemon}.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        assert daemon.partition("-")[0] in command, f"{pid} is no {daemon}"
        return pid

    def up(self) -> None:
        """Start whatever of the cluster does not run, as it was started (by `up.sh`)."""
        base, kind = self.setting("SlurmctldPort"), self.device
        log = self.directory / "log" / "up.log"
        with log.open("w") as output:  # a pipe would stay open: the daemons inherit it
            done = subprocess.run(  # noqa: S603 - our own script
                [str(SCRIPTS / "up.sh"), self.name, base, kind],
                env=os.environ | {"LAB": str(self.directory.parent.parent)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
        assert done.returncode == 0, log.read_text()

    def mend(self) -> None:
        """Bring back nodes that are down, with their daemons and the settings of `up.sh`."""
        words = ("sinfo", "--noheader", "--Node", "--states=down,drain", "--format=%N")
        down = self.run(*words).split()
        if down:
            for node in down:
                self.node_up(node)
            self.up()
            self.run("scontrol", "reconfigure")

    @contextmanager
    def without(self, daemon: str) -> Iterator[None]:
        """A time without one of the daemons."""
        self.kill(daemon)
        try:
            yield
        finally:
            self.up()

    @property
    def saved_jobs(self) -> Path:
        """What a controller that starts anew knows of its jobs; written a while after a change."""
        return self.directory / "state" / "job_state"

    def wait_until_saved(self) -> None:
        """Waits as long as slurmctld may take to write a change (SAVE_MAX_WAIT, 5 s)."""
        time.sleep(6)

    @property
    def device(self) -> str:
        """The GRES type of its GPUs."""
        return self.setting("AccountingStorageTRES").rpartition(":")[2]

    def sbatch(self, *options: str, user: str, nodes: str, seconds: int = 600) -> str:
        """A job that Muster knows nothing of, on these nodes alone; its id."""
        words = ("sbatch", "--parsable", f"--uid={user}", "--account=ml", "--exclusive")
        place = (
            f"--nodelist={nodes}",
            f"--gres=gpu:{self.device}:8",
            "--chdir=/",
            "--time=1:00:00",
        )
        files = ("--output=/dev/null", f"--wrap=sleep {seconds}")
        return self.run(*words, *place, *files, *options).strip()

    def state_of(self, job_id: str) -> str:
        """What the controller says of a job, such as RUNNING."""
        return self.run(
            "squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job_id}"
        ).strip()

    def stays(self) -> list["Stay"]:
        """Every stay on GPUs of every job, by the cluster's own accounting."""
        fields = "JobIDRaw,JobName,User,QOS,State,Start,End,NNodes,AllocTRES"
        told = self.run(
            "env", "SLURM_TIME_FORMAT=%s", "sacct", "-D", "-X", "--allusers", "--parsable2",
            "--noheader", "--starttime=2020-01-01", f"--format={fields}",
        )  # fmt: skip
        rows = (line.split("|") for line in told.splitlines())
        return [stay for row in rows if (stay := _stay(self.name, row)).gpus and stay.start_s]

    def drop_limits(self, *accounts: str) -> None:
        """No limit on the GPUs of these accounts any more; others may share the lab."""
        named = f"name={','.join(accounts)}"
        none = "GrpTRES=gres/gpu=-1,gres/gpu:h100=-1"
        self.run("sacctmgr", "-i", "-Q", "modify", "account", "where", named, "set", none)

    def drop_jobs(self) -> None:
        """Cancel whatever is still there, so that every test starts on an idle cluster."""
        for user in ("mia", "ben"):
            self.run("scancel", "--quiet", f"--user={user}")


@dataclass(frozen=True)
class Stay:
    """One stay of a job on nodes as `sacct` tells it; `end_s` None while it lasts."""

    cluster: str
    job_id: str
    name: str
    user: str
    qos: str
    state: str
    start_s: int
    end_s: int | None
    nodes: int
    gpus: int


def _stay(cluster: str, row: list[str]) -> Stay:
    job_id, name, user, qos, state, start, end, nodes, tres = row
    held = dict(part.split("=") for part in tres.split(",") if part)
    return Stay(
        cluster,
        job_id,
        name,
        user,
        qos,
        state.split()[0],
        int(start) if start.isdigit() else 0,
        int(end) if end.isdigit() else None,
        int(nodes),
        int(held.get("gres/gpu", 0)),
    )


def lab_directory() -> Path | None:
    """Where the lab is, or None when nobody said."""
    where = os.environ.get("MUSTER_LIVE_SLURM")
    return Path(where) if where else None

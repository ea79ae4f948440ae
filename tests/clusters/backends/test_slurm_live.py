"""What only real Slurm can show: files, users, processes, signals, its daemons going away."""

import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clusters.backends.slurm.client import forget_versions
from clusters.core.backend import BackendUnavailableError
from clusters.core.observation import GangState
from clusters.core.resources import GangShape, NodeShape
from tests.clusters.backends.site import NOW_MS, Site
from tests.live.slurm.lab import HOW, LabCluster, lab_directory

pytestmark = pytest.mark.live

# What torchrun would find, written by each node's task; then it waits to be asked for a checkpoint.
TRAINER = """#!/usr/bin/python3
import os, signal, sys, time
rank = os.environ["SLURM_PROCID"]
names = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_RDZV_ENDPOINT", "MASTER_ADDR", "WORLD_SIZE")
with open(f"rank-{rank}.env", "w") as file:
    file.write(" ".join(os.environ[name] for name in names))
def save(number, frame):
    with open(f"rank-{rank}.checkpoint", "a") as file:
        file.write("saved")
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
open(f"rank-{rank}.ready", "w").close()
time.sleep(120)
"""


@pytest.fixture
def cluster() -> LabCluster:
    directory = lab_directory()
    if directory is None:
        pytest.skip(HOW)
    return LabCluster(directory / "clusters" / "alpha")


@pytest.fixture
def site(cluster: LabCluster) -> Iterator[Site]:
    cluster.drop_jobs()
    forget_versions()
    wire = httpx.HTTPTransport()
    salt = f"{time.time_ns() // 1_000_000 % 10**9}"
    site = Site(cluster.connection(), wire, cluster, salt)
    yield site
    site.close()
    wire.close()


@pytest.fixture
def workdir(site: Site) -> Path:
    """A directory of the user's own."""
    person = pwd.getpwnam(site.user)
    path = Path(person.pw_dir) / f"run-{site.salt}"
    path.mkdir()
    os.chown(path, person.pw_uid, person.pw_gid)
    return path


def test_runs_as_the_user_in_its_directory_and_the_signal_reaches_the_trainer(
    site: Site, workdir: Path
) -> None:
    trainer = workdir / "trainer"
    trainer.write_text(TRAINER)
    trainer.chmod(0o755)
    nodes = site.nodes()[:2]
    script = "echo title $MUSTER_JOB_NAME\nid -un\nsrun ./trainer"
    gang = site.gang(
        "train",
        nodes,
        script,
        workdir=str(workdir),
        output="run-%j.out",
        error="run-%j.err",
        signal="USR1",
        grace_s=60,
    )
    answer = site.backend().submit(gang)
    site.until(lambda: (workdir / "rank-1.ready").exists(), "two ranks")
    site.until(lambda: (workdir / "rank-0.ready").exists(), "two ranks")
    for rank in range(2):
        nnodes, per_node, endpoint, address, world = (
            (workdir / f"rank-{rank}.env").read_text().split()
        )
        assert (nnodes, per_node, world) == ("2", "8", "16")
        assert address == nodes[0]
        assert endpoint.startswith(f"{nodes[0]}:")
    site.backend().signal(gang.fence, gang.account, "SIGUSR1")
    ended = site.until_state(gang.fence, GangState.SUCCEEDED, GangState.FAILED)
    assert ended.state is GangState.SUCCEEDED
    for rank in range(2):
        assert (workdir / f"rank-{rank}.checkpoint").read_text().startswith("saved")
    out = workdir / f"run-{answer.backend_id}.out"
    assert out.owner() == site.user
    assert (workdir / f"run-{answer.backend_id}.err").owner() == site.user
    assert out.read_text().splitlines() == [f"title {gang.title}", site.user]


def test_the_time_limit_sends_the_checkpoint_signal_and_ends_as_timed_out(
    site: Site, workdir: Path
) -> None:
    script = "srun bash -c 'trap \"touch asked\" USR1; sleep 300 & wait; sleep 300 & wait'"
    gang = site.gang(
        "limit",
        site.nodes()[:1],
        script,
        workdir=str(workdir),
        time_limit_s=60,
        signal="USR1",
        grace_s=50,
    )
    site.backend().submit(gang)
    site.until_state(gang.fence, GangState.RUNNING)
    site.until(lambda: (workdir / "asked").exists(), "the signal before the limit")
    ended = site.until_state(gang.fence, GangState.TIMED_OUT)
    assert ended.reason == "TimeLimit"


def test_small_gangs_share_a_node(site: Site) -> None:
    node = site.nodes()[0]
    shape = GangShape(1, NodeShape(2, 2, 1000), exclusive=False)
    gangs = [site.gang(f"share{n}", [node], shape=shape) for n in range(3)]
    for gang in gangs:
        site.backend().submit(gang)
    for gang in gangs:
        seen = site.until_state(gang.fence, GangState.RUNNING)
        assert (seen.nodes, seen.gpus) == ((node,), 2)


def test_a_silent_controller_is_away_and_comes_back(site: Site, cluster: LabCluster) -> None:
    gang = site.gang("away", site.nodes()[:1])
    site.backend().submit(gang)
    before = site.until_state(gang.fence, GangState.RUNNING)
    pid = int((cluster.directory / "run" / "slurmctld.pid").read_text())
    os.kill(pid, 15)
    try:
        site.until(lambda: not Path(f"/proc/{pid}").exists(), "slurmctld is gone")
        for call in (
            lambda: site.backend().observe(NOW_MS, [gang.fence]),
            lambda: site.backend().submit(gang),
            lambda: site.backend().cancel(gang.fence, gang.account),
        ):
            with pytest.raises(BackendUnavailableError) as away:
                call()
            assert away.value.code == "controller"
    finally:
        slurmctld = cluster.directory.parent.parent / "bin" / "slurmctld"
        cluster.run(str(slurmctld), "-f", cluster.slurm_conf)
    site.until(lambda: _answers(site), "slurmctld answers")
    (after,) = site.seen(gang.fence)
    assert (after.state, after.backend_id) == (GangState.RUNNING, before.backend_id)
    assert after.runs == before.runs


def _answers(site: Site) -> bool:
    try:
        return bool(site.look().nodes)
    except BackendUnavailableError:
        return False

"""Each part of the whole is taken away under load; all comes back by itself, and the books agree.

Every test leaves: one run per job in the clusters' own accounting, a ledger equal to it, nothing
open, no process that had to be started again (but those that the test killed).
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from clusters.models import Command
from federation.models import Attempt, Job
from script.bootstrap import free_ports
from tests.load import Load
from tests.relay import Line
from tests.stack import eventually
from tests.system.stand import Stand, stand

SEED = 4
FROZEN_S = 2.5  # longer than a lease of the stand
PROGRAMS = ("web", "stream", "arbiter", "worker-dispatch", "beat")  # the other workers are the same
MOMENTS = {
    "the call is on its way, and arrives after the worker's death": ("delay_before", "job/submit"),
    "the job is made, its number not answered yet": ("delay_after", "job/submit"),
    "the job is released, the answer not recorded yet": ("delay_after", r"job/\d+$"),
}


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: DjangoDbBlocker
) -> Iterator[Stand]:
    with django_db_blocker.unblock(), stand(tmp_path_factory.mktemp("stand")) as made:
        yield made


def goes_on(load: Load, *, more: int = 3) -> None:
    """Waits until so many more jobs were promised."""
    enough = len(load.jobs) + more
    eventually(lambda: len(load.jobs) >= enough, within_s=120, what="jobs are taken")


def test_a_worker_killed_around_the_submit_leaves_one_run(whole: Stand) -> None:
    """Before the cluster has the call, before it has answered, before the answer is recorded."""
    aurora = whole.world.simulated["aurora"]
    for moment, (kind, path) in MOMENTS.items():
        aurora.control("faults/clear")
        aurora.control("faults/add", kind=kind, method="POST", path=path, ms=3000, times=1)
        job = whole.world.submit(nodes=2, seconds=1, clusters={"only": ["aurora"]})
        whole.promised.append(str(job.uuid))
        eventually(lambda: aurora.state()["faults"][0]["hits"], what=f"the call: {moment}")
        fence = Attempt.objects.get(job=job).fence
        assert Command.objects.get(kind="submit", fence=fence).state == Command.State.SENT
        whole.stack.restart("worker-dispatch")
        eventually(partial(have_succeeded, {str(job.uuid)}), what=moment)
        assert [run["name"] for run in aurora.runs()].count(fence) == 1, moment
        assert Attempt.objects.filter(job=job).count() == 1
    whole.all_agree()


def test_postgresql_restarted(whole: Stand) -> None:
    """Fast, then immediate."""
    with whole.load() as load:
        for how in (signal.SIGINT, signal.SIGQUIT):
            goes_on(load)
            whole.postgres.restart(how)
        goes_on(load)
    whole.all_agree()
    whole.nothing_died()


def test_valkey_flushed_killed_and_full(whole: Stand) -> None:
    """Rows say what is due, so nothing but time is lost with the messages."""
    with whole.load() as load:
        goes_on(load)
        with whole.broker.client() as client:
            client.flushall()
        goes_on(load)
        whole.broker.end()
        goes_on(load)
        whole.broker.start()
        goes_on(load)
        with whole.broker.client() as client:
            client.config_set("maxmemory", "1")
            goes_on(load)
            client.config_set("maxmemory", "0")
        goes_on(load)
    whole.all_agree()
    whole.nothing_died()


def test_network_of_a_cluster_cut(whole: Stand) -> None:
    """Refused, swallowed, half open; the other cluster goes on meanwhile."""
    with (
        whole.load("aurora") as cut_off,
        whole.load("borealis") as beside,
    ):
        for line in (Line.REFUSE, Line.BLACKHOLE, Line.HALF_OPEN):
            goes_on(cut_off)
            whole.networks["aurora"].cut(line)
            goes_on(cut_off)
            goes_on(beside)
            ended = set(beside.ids)
            eventually(partial(have_succeeded, ended), within_s=120, what="the others' jobs end")
            whole.networks["aurora"].heal()
    whole.all_agree()
    whole.nothing_died()


def have_succeeded(ids: set[str]) -> bool:
    return Job.objects.filter(uuid__in=ids, state="succeeded").count() == len(ids)


def test_no_room_left_for_logs(whole: Stand, tmp_path: Path) -> None:
    """Each program is killed and started with its log on a disk that takes nothing more."""
    logs = [whole.directory / f"{name}.log" for name in PROGRAMS]
    with full_disk(tmp_path) as place, whole.load() as load:
        for log in logs:
            log.rename(log.with_suffix(".before"))
            log.symlink_to(place(log.name))
            whole.stack.restart(log.stem)
        goes_on(load)
    whole.all_agree()
    whole.nothing_died()
    for log in logs:
        log.unlink()


@contextmanager
def full_disk(directory: Path) -> Iterator[Callable[[str], Path]]:
    """Where a file has no room: on a disk of its own, or in /dev/full for who may not mount one."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "muster-test", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:  # noqa: S603
        yield lambda _: Path("/dev/full")
        return
    try:
        with pytest.raises(OSError, match="No space left"):
            (directory / "filler").write_bytes(bytes(65_536 + 1))
        yield directory.joinpath
    finally:
        # Lazy: the processes go on writing there until they are killed.
        subprocess.run(["umount", "--lazy", str(directory)], check=True)  # noqa: S603, S607


def test_each_process_killed_and_frozen(whole: Stand) -> None:
    """Two are killed while two others stand still for longer than a lease, in random order."""
    names, chance = list(whole.stack.running), random.Random(SEED)  # noqa: S311
    to_kill = chance.sample(names, len(names))
    to_freeze = to_kill[3:] + to_kill[:3]
    with whole.load() as load:
        for first in range(0, len(names), 2):
            frozen = to_freeze[first : first + 2]
            for name in frozen:
                whole.stack.send(name, signal.SIGSTOP)
            for name in to_kill[first : first + 2]:
                whole.stack.restart(name)
            time.sleep(FROZEN_S)
            for name in frozen:
                whole.stack.send(name, signal.SIGCONT)
        goes_on(load, more=1)
    whole.all_agree()


def test_postgresql_failed_over(whole: Stand) -> None:
    """The primary dies, its standby takes over the address: all that was committed is there."""
    (port,) = free_ports(1)
    standby = whole.postgres.standby(port)
    with whole.load() as load:
        goes_on(load)
        whole.postgres.end(signal.SIGKILL)
        standby.promote()
        whole.address.switch(standby.port)
        goes_on(load)
    whole.all_agree()
    whole.nothing_died()

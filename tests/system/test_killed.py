"""Workers killed without warning: at most one run per job on the cluster, nothing lost."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from accounting.models import UsageInterval
from clusters.models import Command
from federation.models import Attempt, Job
from tests.stack import Stack, eventually, started
from tests.world import World

WORKERS = ("arbiter", "worker-dispatch", "worker-observe", "worker-accounting", "beat")


@pytest.fixture
def stack(world: World, tmp_path: Path) -> Iterator[Stack]:
    with started(tmp_path, *WORKERS) as running:
        yield running


def runs_of(world: World, job: Job) -> list[str]:
    """Names of the runs of a job's attempts in the clusters' own accounting."""
    fences = set(Attempt.objects.filter(job=job).values_list("fence", flat=True))
    rows = [row for cluster in world.simulated.values() for row in cluster.runs()]
    return [row["name"] for row in rows if row["name"] in fences]


def ends(job: Job, state: str, *, within_s: float = 60) -> None:
    def there() -> bool:
        job.refresh_from_db()
        return job.state == state

    eventually(there, within_s=within_s, what=f"the job is {state}")


MOMENTS = {
    "the call is on its way, and arrives after the worker's death": ("delay_before", "job/submit"),
    "the job is made, its number not answered yet": ("delay_after", "job/submit"),
    "the job is released, the answer not recorded yet": ("delay_after", r"job/\d+$"),
}


def test_a_worker_killed_around_the_submit_leaves_one_run(world: World, stack: Stack) -> None:
    aurora = world.simulated["aurora"]
    for moment, (kind, path) in MOMENTS.items():
        aurora.control("faults/clear")
        aurora.control("faults/add", kind=kind, method="POST", path=path, ms=3000, times=1)
        job = world.submit(nodes=2, seconds=1)
        eventually(lambda: aurora.state()["faults"][0]["hits"], what=f"the call: {moment}")
        fence = Attempt.objects.get(job=job).fence
        assert Command.objects.get(kind="submit", fence=fence).state == Command.State.SENT
        stack.restart("worker-dispatch")
        ends(job, "succeeded")
        assert len(runs_of(world, job)) == 1, moment
        assert Attempt.objects.filter(job=job).count() == 1
        billed = UsageInterval.objects.filter(job_id=job.uuid)
        eventually(lambda billed=billed: billed.count() == 1)


def test_every_process_killed_under_load_loses_and_doubles_nothing(
    world: World, stack: Stack
) -> None:
    jobs = [world.submit(nodes=1 + number % 3, gpus=4, seconds=1) for number in range(12)]
    for name in WORKERS:
        stack.restart(name)
    stack.send("worker-dispatch", signal.SIGSTOP)
    time.sleep(5)  # longer than a lease
    stack.send("worker-dispatch", signal.SIGCONT)
    for job in jobs:
        ends(job, "succeeded", within_s=90)
    for job in jobs:
        assert len(runs_of(world, job)) == Attempt.objects.filter(job=job).count() == 1
    assert UsageInterval.objects.count() == len(jobs)

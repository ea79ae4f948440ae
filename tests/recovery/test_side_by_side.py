"""Processes of the first release beside those of this one, on the schema of this one.

`first_release/muster.tar.xz` holds the code that left `muster.sql`: what its workers and its arbiter
are made of. The order of `docs/how-to/upgrade.md` is followed, and stopped half-way.
"""

import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import Celery

from accounting.selectors.ledger import verify_ledger
from accounting.services.posting import meter_and_post
from federation.models import Attempt, Job
from federation.services.change import cancel_job, release_job
from script.processes import ENVIRONMENT
from tests.recovery.test_upgrade import FIRST, upgraded
from tests.recovery.travel import nothing_is_open, ours, theirs
from tests.stack import Stack, broker_url, eventually
from tests.world import World, utc_now


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The first release's code, unpacked."""
    root = tmp_path / "first_release"
    with tarfile.open(FIRST / "muster.tar.xz") as archive:
        # 3.11.4 and later want to be told how far an archive is trusted; ours wholly
        how = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        archive.extractall(root, **how)  # noqa: S202
    return root


@contextmanager
def running(directory: Path, old: Path, *names: str, new: Iterable[str] = ()) -> Iterator[Stack]:
    """The named processes of the first release, beside those of this one."""
    lines = {name: _as_it_started(name) for name in names if name.startswith("worker-")}
    stack = Stack(directory, ENVIRONMENT, roots=dict.fromkeys(names, old), lines=lines)
    try:
        stack.start(*names, *new)
        stack.wait_until_ready()
        yield stack
    finally:
        stack.stop()


def _as_it_started(worker: str) -> tuple[str, ...]:
    """The command line of one of the first release's workers, which had Celery's own."""
    queue = worker.removeprefix("worker-")
    return (
        "celery", "-A", "config", "--quiet", "worker", "--pool", "threads", "--concurrency", "8",
        "-Q", queue, "-n", f"{queue}@%h", "--without-gossip", "--without-mingle",
    )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_an_old_worker_forwards_what_the_new_arbiter_binds(tmp_path: Path, old: Path) -> None:
    with upgraded(tmp_path) as world, running(tmp_path, old, "worker-dispatch") as stack:
        jobs = {job.name: job for job in Job.objects.all()}
        submitted = [world.submit(seconds=1) for _ in range(6)]
        release_job(user=world.user, job_id=jobs["held"].uuid, now=utc_now())
        waiting = [*submitted, jobs["pending"], jobs["unsent"], jobs["held"]]
        with Celery(broker=broker_url()) as beat:

            def turn() -> None:
                """Of the new arbiter and the new workers; only the old one delivers."""
                world.decide()
                world.observe()
                meter_and_post(now=utc_now())
                beat.send_task("federation.tasks.dispatch_all", queue="dispatch", expires=5)

            all_are(stack, waiting, "succeeded", turn)
            all_are(stack, [jobs["runs-on"]], "running", turn)
            cancel_job(user=world.user, job_id=jobs["runs-on"].uuid, now=utc_now())
            all_are(stack, [jobs["runs-on"]], "cancelled", turn)
            all_are(stack, [jobs["waits"]], "succeeded", turn)
            eventually(lambda: turn() or nothing_is_open())
            turn()
        books_agree(world)


@pytest.mark.soak
@pytest.mark.django_db(transaction=True)
def test_an_old_arbiter_reader_and_poster_go_on_beside_new_workers(
    tmp_path: Path, old: Path
) -> None:
    before = ("arbiter", "worker-observe", "worker-accounting")
    new = ("worker-dispatch", "beat")
    with upgraded(tmp_path) as world, running(tmp_path, old, *before, new=new) as stack:
        jobs = {job.name: job for job in Job.objects.all()}
        waiting = [jobs["pending"], jobs["unsent"], *(world.submit(seconds=1) for _ in range(6))]
        all_are(stack, waiting, "succeeded")
        for name in ("runs-on", "held"):
            cancel_job(user=world.user, job_id=jobs[name].uuid, now=utc_now())
        all_are(stack, [jobs["runs-on"], jobs["held"]], "cancelled")
        all_are(stack, [jobs["waits"]], "succeeded")
        eventually(lambda: nothing_is_open() and ours(world) == theirs(world))
        books_agree(world)


def all_are(stack: Stack, jobs: list[Job], state: str, turn: Callable[[], object] = int) -> None:
    """Waits until all of the jobs are in the state; fails at once when a process ended."""
    ids = [job.id for job in jobs]

    def there() -> bool:
        turn()
        stack.wait_until_ready()
        return not Job.objects.filter(id__in=ids).exclude(state=state).exists()

    eventually(there, what=f"all are {state}", within_s=120)


def books_agree(world: World) -> None:
    """Every attempt ran once, as the cluster's own accounting counts, and is billed so."""
    (cluster,) = world.simulated.values()
    ran = Counter(run["name"] for run in cluster.runs() if run["name"].startswith("mst-"))
    assert set(ran.values()) == {1}
    assert set(ran) == set(Attempt.objects.values_list("fence", flat=True))
    assert ours(world) == theirs(world)
    assert verify_ledger() is None

"""Back to an older point: the test's database is dumped, and restored into a fresh one."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection

from accounting.models import Transfer, UsageInterval
from federation.models import Attempt
from script.backup import Server, back_up
from script.restore import check, restore
from tests.stack import database_url
from tests.world import World

Books = Counter[tuple[str, str]]


def dump(directory: Path) -> Path:
    """A backup of the database as it is now."""
    connection.close()
    return back_up(Server(database_url()), directory)


@contextmanager
def fresh_database() -> Iterator[None]:
    """The test lives in an empty database for the time; it is dropped afterwards."""
    lived_in = str(connection.settings_dict["NAME"])
    fresh = f"{lived_in}_fresh"
    make(fresh)
    connection.close()
    connection.settings_dict["NAME"] = fresh
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = lived_in
        drop(fresh)


@contextmanager
def restored(dumped: Path) -> Iterator[None]:
    """The rest of the test lives in a fresh database, restored from the dump."""
    with fresh_database():
        check(dumped)
        restore(Server(database_url()), dumped)
        yield


def make(name: str) -> None:
    """A new database, also when an earlier test run left one of the name."""
    drop(name)
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')


def drop(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def theirs(world: World) -> Books:
    """GPU-milliseconds by cluster and fence, as the clusters' own accounting has them."""
    books: Books = Counter()
    for name, cluster in world.simulated.items():
        for run in cluster.runs():
            if run["name"].startswith("mst-"):
                gpus = sum(t["count"] for t in run["tres"]["allocated"] if t["name"] == "gpu")
                held_s = run["time"]["end"] - run["time"]["start"]
                books[name, run["name"]] += gpus * held_s * 1000
    return books


def ours(world: World) -> Books:
    """The same, as the ledger has them: only what is posted counts."""
    fences = dict(Attempt.objects.values_list("id", "fence"))
    books: Books = Counter()
    posted = Transfer.objects.exclude(record=None).select_related("record__interval__cluster")
    for transfer in posted:
        interval = transfer.record.interval
        books[interval.cluster.name, fences[interval.attempt_id]] += transfer.record.gpu_ms
    return books


def nothing_is_open() -> bool:
    return not UsageInterval.objects.filter(ended_ms=None).exists()

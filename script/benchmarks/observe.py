"""Clusters read: one of 1,024 nodes and 5,000 jobs, a pass of it; and 100 of 64 nodes, how old.

A pass is a reading and its reconciliation, in this process; CPU is of this process and of its
PostgreSQL backend, its collector settled as the worker's is. *First* is the one in which a thousand
jobs of ours start at once, and all of it is written; *full* is one by a process that has read
nothing yet, *warm* one by a process that has: both find nothing new. The hundred are read by one
observe worker and beat as real processes, with an interval of 2 s.

With `--backend volcano`: one cluster of 5,000 nodes and 20,000 pods, read without being stored, and
only this process counts. *Relist* reads all by lists, *warm* what 40 writes changed since.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from script.benchmarks import cpu_s, report, scratch_database

OURS_PER_JOB = 5  # every fifth job is ours, the others are foreign load
LIFE = timedelta(seconds=60)
WATCHED_S = 60


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="script/bench observe", description=__doc__)
    parser.add_argument("--backend", choices=("slurm", "volcano"), default="slurm")
    parser.add_argument("--nodes", type=int, help="1024, on volcano 5000")
    parser.add_argument("--pods", type=int, default=20_000, help="on volcano")
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--clusters", type=int, default=100)
    return parser.parse_args()


def clock() -> datetime:
    """Now."""
    return datetime.now(UTC)  # noqa: TID251 (the edge)


def fill(world: Any, name: str, ours: int, others: int) -> None:
    """So many running jobs of one GPU that are ours, and foreign ones of a node each."""
    from clusters.models import Command
    from clusters.selectors.traffic import OPEN
    from federation.services.submit import MOST_JOBS, submit_jobs

    spec = world.spec(nodes=1, gpus=1, seconds=86_400)
    for first in range(0, ours, MOST_JOBS):
        submit_jobs(user=world.user, specs=[spec] * min(MOST_JOBS, ours - first), now=clock())
    cluster = world.simulated[name]
    world.decide()
    while Command.objects.filter(state__in=OPEN).exists():
        world.deliver()
    given = {"nodes": 1, "seconds": 86_400, "count": others}
    lever = f"{cluster.endpoint}/_control/foreign/add"
    httpx.post(lever, json=given, timeout=300).raise_for_status()


def one_pass(world: Any, name: str) -> None:
    """Reads one cluster and reconciles."""
    from clusters.services.observe import observe
    from federation.selectors.attempts import fences_to_look_up
    from federation.services.reconcile import reconcile_cluster

    cluster_id = world.clusters[name].id
    done = observe(
        cluster_id=cluster_id,
        fences=fences_to_look_up(cluster_id),
        holder="bench",
        life=LIFE,
        clock=clock,
    )
    if not done:
        raise RuntimeError(f"{name} was not read")
    reconcile_cluster(cluster_id=cluster_id, now=clock())


@contextmanager
def rows_written(found: dict[str, int]) -> Iterator[None]:
    """Counts rows inserted, updated and deleted meanwhile, by table, from PostgreSQL's counters."""
    before = _written()
    yield
    for table, count in _written().items():
        if count - before.get(table, 0):
            found[table] = count - before.get(table, 0)


def _written() -> dict[str, int]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables")
        return dict(cursor.fetchall())


def measure_large(nodes: int, jobs: int, directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metrics and context of one large cluster."""
    from django.db import connection

    from clusters.backends.slurm import memo
    from kit import collector
    from script.benchmarks._fleet import fleet

    ours = jobs // OURS_PER_JOB
    collector.settle()
    with fleet(directory, 1, nodes=nodes, tiers=[{"name": "leaf", "nodes": 16}]) as world:
        (name,) = world.clusters
        fill(world, name, ours, jobs - ours)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]
        first_s, _ = cpu_s(lambda: one_pass(world, name), pid)
        one_pass(world, name)
        memo.forget()
        full_s, _ = cpu_s(lambda: one_pass(world, name), pid)
        written: dict[str, int] = {}
        with rows_written(written):
            warm_s, _ = cpu_s(lambda: one_pass(world, name), pid)
    return (
        {
            "cpu_s_first": round(first_s, 2),
            "cpu_s_full": round(full_s, 2),
            "cpu_s_warm": round(warm_s, 2),
            "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),
        },
        {"nodes": nodes, "jobs": jobs, "ours": ours, "rows_written_warm": written},
    )


def measure_many(clusters: int, directory: Path) -> Mapping[str, Any]:
    """How old the oldest reading of many clusters gets, and what reading them costs."""
    from clusters.models import Observation
    from script.benchmarks._fleet import Costs, fleet, running, wait_for

    with (
        fleet(directory, clusters, nodes=64, tiers=[{"name": "leaf", "nodes": 16}]),
        running(directory, "worker-observe", "beat") as stack,
    ):
        costs = Costs(stack)
        began = clock()

        def all_read() -> bool:
            return not Observation.objects.filter(begun_at__lt=began).exists()

        wait_for(all_read, within_s=300, what="every cluster read once")
        costs.begin()
        oldest_s, until_s = 0.0, time.monotonic() + WATCHED_S
        while time.monotonic() < until_s:
            oldest = Observation.objects.order_by("begun_at").values_list("begun_at", flat=True)[0]
            oldest_s = max(oldest_s, (clock() - oldest).total_seconds())
            time.sleep(0.5)
        spent = costs.so_far()
    return {
        "oldest_s": round(oldest_s, 1),
        "many_clusters": clusters,
        "many_cpu_share_by_process": {
            name: round(used / WATCHED_S, 3) for name, used in sorted(spent.items())
        },
    }


def main() -> None:
    """Measure and print."""
    chosen = options()
    if chosen.backend == "volcano":
        from script.benchmarks._observe_volcano import measure

        metrics, context = measure(chosen.nodes or 5_000, chosen.pods)
        report("observe", metrics, {**context, "backend": chosen.backend})
        return
    prefix = "muster-observe-"
    with scratch_database(), tempfile.TemporaryDirectory(prefix=prefix) as directory:
        metrics, context = measure_large(chosen.nodes or 1_024, chosen.jobs, Path(directory))
    many: Mapping[str, Any] = {}
    if chosen.clusters:
        with scratch_database(), tempfile.TemporaryDirectory(prefix=prefix) as directory:
            many = measure_many(chosen.clusters, Path(directory))
    report("observe", metrics, {**context, **many, "backend": chosen.backend})


if __name__ == "__main__":
    main()

"""200,000 jobs through the whole stack in compressed time: memory, tables and lag.

Real processes over simulated clusters whose jobs of minutes take seconds. Jobs are queued as fast as
they are done, never more than a fixed number at once. Prints one JSON line: for each process the
slope of its resident memory after the first tenth (MB per 1,000 jobs, with its standard error; flat
means within two errors of 0), rows and MB by table, and the lag at the end in cycles.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from script.benchmarks import report, scratch_database

PROCESSES = ("arbiter", "worker-dispatch", "worker-observe", "worker-accounting", "beat")
CLUSTERS, NODES, SPEED = 4, 64, 60.0
JOB_S = 120  # two seconds of wall time at this speed
AT_ONCE = 1_000  # jobs that are not over yet
BATCH = 250
SAMPLES = 100
CYCLE_S = 1.0
LONGEST_PAUSE_S = 300  # without a job that ended: something is stuck


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="script/soak load", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    return parser.parse_args()


def clock() -> datetime:
    """Now."""
    return datetime.now(UTC)  # noqa: TID251 (the edge)


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of y over x, least squares, and its standard error; at least three points."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in points)
    return rise, math.sqrt(rest / (len(points) - 2) / spread)


def counts() -> tuple[int, int]:
    """Jobs that are over, and those that are not."""
    from federation.models import Job

    ended = Job.objects.exclude(ended_at=None).count()
    return ended, Job.objects.count() - ended


def oldest_order() -> float:
    """Age of the oldest order that waits to be answered, in cycles; 0 = there is none."""
    from django.db.models import Min

    from clusters.models import Command
    from clusters.selectors.traffic import OPEN

    oldest = Command.objects.filter(state__in=OPEN).aggregate(at=Min("created_at"))["at"]
    return 0.0 if oldest is None else (clock() - oldest) / timedelta(seconds=CYCLE_S)


def tables() -> dict[str, list[float]]:
    """The ten largest tables: estimated rows and MB, indexes included."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, n_live_tup, round(pg_total_relation_size(relid) / 1e6, 1)"
            " FROM pg_stat_user_tables ORDER BY pg_total_relation_size(relid) DESC LIMIT 10"
        )
        return {name: [rows, float(size)] for name, rows, size in cursor.fetchall()}


def press(world: Any, costs: Any, jobs: int) -> list[tuple[float, dict[str, float]]]:
    """Puts the jobs through; memory by process, sampled evenly over the jobs that are over.

    Raises:
        RuntimeError: no job ended for LONGEST_PAUSE_S.
    """
    from federation.services.submit import submit_jobs

    specs = [world.spec(nodes=1, gpus=8, seconds=JOB_S)] * BATCH
    queued = ended = 0
    samples: list[tuple[float, dict[str, float]]] = []
    moved_s = time.monotonic()
    while ended < jobs:
        now_ended, open_ = counts()
        if now_ended > ended:
            ended, moved_s = now_ended, time.monotonic()
        elif time.monotonic() > moved_s + LONGEST_PAUSE_S:
            raise RuntimeError(f"stuck: {ended} of {jobs} over, {open_} open")
        if ended >= jobs * (len(samples) + 1) / SAMPLES:
            samples.append((ended / 1000, {name: costs.rss_mb(name) for name in PROCESSES}))
        if queued < jobs and open_ + BATCH <= AT_ONCE:
            size = min(BATCH, jobs - queued)
            submit_jobs(user=world.user, specs=specs[:size], now=clock())
            queued += size
        else:
            time.sleep(0.2)
    return samples


def main() -> None:
    """Run and print."""
    jobs = options().jobs
    with scratch_database(), tempfile.TemporaryDirectory(prefix="muster-load-") as place:
        from script.benchmarks._fleet import Costs, fleet, running

        directory = Path(place)
        with (
            fleet(directory, CLUSTERS, nodes=NODES, speed=SPEED, tiers=[]) as world,
            running(directory, *PROCESSES) as stack,
        ):
            costs = Costs(stack)
            costs.begin()
            began_s = time.monotonic()
            samples = press(world, costs, jobs)
            lag = oldest_order()
            wall_s, spent, sizes = time.monotonic() - began_s, costs.so_far(), tables()
    settled = [sample for sample in samples if sample[0] > jobs / 1000 / 10]
    slopes = {
        name: [round(value, 4) for value in slope([(x, memory[name]) for x, memory in settled])]
        for name in PROCESSES
    }
    report(
        "load",
        {"rss_mb_per_1000_jobs_and_error": slopes, "lag_cycles": round(lag, 1)},
        {
            "jobs": jobs,
            "wall_s": round(wall_s, 1),
            "jobs_per_s": round(jobs / wall_s, 1),
            "rss_mb": {name: round(mb, 1) for name, mb in samples[-1][1].items()},
            "cpu_ms_per_job": {
                name: round(used * 1000 / jobs, 2) for name, used in sorted(spent.items())
            },
            "tables_rows_and_mb": sizes,
        },
    )


if __name__ == "__main__":
    main()

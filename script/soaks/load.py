"""200,000 jobs through the whole stack in compressed time: memory, tables and lag.

Real processes over simulated clusters whose jobs of minutes take seconds. Jobs are queued as fast as
they are done, never more than a fixed number at once. Retention is compressed as well: what was over
for a minute is deleted, by the services that do it after days, on a clock that is ahead.

Progress goes to stderr. Prints one JSON line: of each process the mean resident memory by tenths of
the jobs (flat means that the last is that of the second within some percent) and its slope after the
first (MB per 1,000 jobs, with its standard error); the most rows that tables with a retention ever
had and what all tables hold at the end; the lag at the end in cycles.
"""

import argparse
import logging
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from script.benchmarks import report, scratch_database

PROCESSES = ("arbiter", "worker-dispatch", "worker-observe", "worker-accounting", "beat")
CLUSTERS, NODES, SPEED = 4, 128, 60.0
JOB_S = 120  # two seconds of wall time at this speed
REMEMBERED_MS = 10_000  # by the controllers after a job's end, where Slurm's default is 300 s
AT_ONCE = 1_000  # jobs that are not over yet
BATCH = 250
SAMPLES = 100
CYCLE_S = 1.0
LONGEST_PAUSE_S = 300  # without a job that ended: something is stuck
TURN_S = 0.2
KEEP_DAYS = 1  # as the services are told, on a clock that is ahead by so much less KEPT
KEPT = timedelta(seconds=60)


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


def by_tenths(points: Sequence[tuple[float, float]], end: float) -> list[float]:
    """The mean of y for each tenth of x up to `end` that has points."""
    tenths: dict[int, list[float]] = {}
    for x, y in points:
        tenths.setdefault(min(int(x / end * 10), 9), []).append(y)
    return [round(sum(found) / len(found), 1) for _, found in sorted(tenths.items())]


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


def prune() -> dict[str, int]:
    """Deletes what has been over for KEPT; the rows that are left by table."""
    from clusters.models import Command
    from federation.models import Attempt, Job
    from federation.services.retention import prune_jobs, prune_orders

    ahead = clock() + timedelta(days=KEEP_DAYS) - KEPT
    prune_orders(keep_days=KEEP_DAYS, now=ahead)
    prune_jobs(keep_days=KEEP_DAYS, now=ahead)
    return {model._meta.db_table: model.objects.count() for model in (Job, Attempt, Command)}


@dataclass
class Press:
    """Jobs on their way through; what was seen of memory and tables meanwhile."""

    world: Any
    costs: Any
    jobs: int
    queued: int = 0
    ended: int = 0
    samples: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    most_rows: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Puts the jobs through.

        Raises:
            RuntimeError: no job ended for LONGEST_PAUSE_S.
        """
        from federation.models import Job

        began_s = moved_s = time.monotonic()
        while self.ended < self.jobs:
            open_ = Job.objects.filter(ended_at=None).count()
            if self.queued - open_ > self.ended:
                self.ended, moved_s = self.queued - open_, time.monotonic()
            elif time.monotonic() > moved_s + LONGEST_PAUSE_S:
                raise RuntimeError(f"stuck: {self.ended} of {self.jobs} over, {open_} open")
            if self.ended >= self.jobs * (len(self.samples) + 1) / SAMPLES:
                self._sample(time.monotonic() - began_s)
            if not self._queue(AT_ONCE - open_):
                time.sleep(TURN_S)

    def _queue(self, room: int) -> bool:
        from federation.services.submit import submit_jobs

        size = min(BATCH, self.jobs - self.queued)
        if not size or room < size:
            return False
        spec = self.world.spec(nodes=1, gpus=8, seconds=JOB_S)
        submit_jobs(user=self.world.user, specs=[spec] * size, now=clock())
        self.queued += size
        return True

    def _sample(self, wall_s: float) -> None:
        memory = {name: self.costs.rss_mb(name) for name in PROCESSES}
        self.samples.append((self.ended / 1000, memory))
        rows = prune()
        self.most_rows = {name: max(n, self.most_rows.get(name, 0)) for name, n in rows.items()}
        shown = " ".join(f"{name} {mb:.0f}" for name, mb in memory.items())
        sys.stderr.write(
            f"{wall_s:.0f} s: {self.ended} over, {self.ended / wall_s:.1f}/s;"
            f" MB: {shown}; rows: {' '.join(map(str, rows.values()))}\n"
        )


def main() -> None:
    """Run and print."""
    jobs = options().jobs
    with scratch_database(), tempfile.TemporaryDirectory(prefix="muster-load-") as place:
        from script.benchmarks._fleet import Costs, fleet, running

        logging.disable(logging.INFO)  # this process's: a line for each job
        directory = Path(place)
        with (
            fleet(
                directory,
                CLUSTERS,
                nodes=NODES,
                speed=SPEED,
                tiers=[],
                min_job_age_ms=REMEMBERED_MS,
            ) as world,
            running(directory, *PROCESSES) as stack,
        ):
            costs = Costs(stack)
            costs.begin()
            began_s = time.monotonic()
            press = Press(world, costs, jobs)
            press.run()
            lag = oldest_order()
            wall_s, spent, sizes = time.monotonic() - began_s, costs.so_far(), tables()
    settled = [sample for sample in press.samples if sample[0] > jobs / 1000 / 10]
    slopes = {
        name: [round(value, 4) for value in slope([(x, memory[name]) for x, memory in settled])]
        for name in PROCESSES
    }
    memory_by_tenths = {
        name: by_tenths([(x, memory[name]) for x, memory in press.samples], jobs / 1000)
        for name in PROCESSES
    }
    report(
        "load",
        {
            "rss_mb_by_tenths": memory_by_tenths,
            "rss_mb_per_1000_jobs_and_error": slopes,
            "lag_cycles": round(lag, 1),
            "most_rows": press.most_rows,
        },
        {
            "jobs": jobs,
            "kept_s": KEPT.total_seconds(),
            "wall_s": round(wall_s, 1),
            "jobs_per_s": round(jobs / wall_s, 1),
            "rss_mb": {name: round(mb, 1) for name, mb in press.samples[-1][1].items()},
            "cpu_ms_per_job": {
                name: round(used * 1000 / jobs, 2) for name, used in sorted(spent.items())
            },
            "tables_rows_and_mb": sizes,
        },
    )


if __name__ == "__main__":
    main()

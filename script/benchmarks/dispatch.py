"""Jobs forwarded: 1,000 jobs over 10 simulated clusters that answer in 20 ms.

Real processes: arbiter, dispatch and observe workers, beat, PostgreSQL, Valkey, the simulator. The
jobs are queued in one transaction; the clock starts when it is committed and stops when the last
order is answered, so deciding is in it. CPU is of all that is ours and PostgreSQL and Valkey, the
simulated clusters and the client apart.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from script.benchmarks import report, scratch_database

PROCESSES = ("arbiter", "worker-dispatch", "worker-observe", "beat")
ANSWER_MS = 20
LONGEST_S = 300
SETTLE_S = 5
_IMAGE = {"image": "trainer:1", "command": ["sleep", "3600"]}
# What a forwarded job asks of a cluster, counted apart from the rest.
_COUNTED = {
    "slurm": ("/job/submit$", "/v0.0.38/jobs$", r"/job/\d+$", "/(diag|nodes)$"),
    "volcano": ("/namespaces/team/jobs$", "/namespaces/team/jobs/", "/pods$", "/nodes$"),
}


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="script/bench dispatch", description=__doc__)
    parser.add_argument("--backend", choices=("slurm", "volcano"), default="slurm")
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--clusters", type=int, default=10)
    return parser.parse_args()


def queue_jobs(world: Any, count: int, backend: str) -> float:
    """Queues one-node jobs that outlast the benchmark; when that was committed (epoch seconds)."""
    from django.db import transaction

    from federation.services.submit import MOST_JOBS, submit_jobs

    more = {"run": _IMAGE} if backend == "volcano" else {"seconds": 3600}
    spec = world.spec(nodes=1, gpus=8, **more)
    now = datetime.now(UTC)  # noqa: TID251 (the edge)
    with transaction.atomic():
        for first in range(0, count, MOST_JOBS):
            size = min(MOST_JOBS, count - first)
            submit_jobs(user=world.user, specs=[spec] * size, now=now)
    return time.time()  # noqa: TID251 (the edge)


def answered() -> int:
    """How many orders to submit are done."""
    from clusters.models import Command

    return Command.objects.filter(kind="submit", state="done").count()


def last_answer() -> float:
    """When the last order was answered (epoch seconds)."""
    from django.db.models import Max

    from clusters.models import Command

    last: datetime = Command.objects.aggregate(last=Max("answered_at"))["last"]
    return last.timestamp()


def calls_per_job(world: Any, jobs: int) -> dict[str, float]:
    """HTTP calls of each cluster's dispatch a job, from what the simulators' faults counted."""
    hits: dict[str, int] = {}
    for cluster in world.simulated.values():
        for fault in cluster.state()["faults"]:
            hits[fault["path"]] = hits.get(fault["path"], 0) + fault["hits"]
    return {path: round(count / jobs, 3) for path, count in hits.items()}


def measure(
    jobs: int, clusters: int, backend: str, directory: Path
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Metrics and context of one run."""
    from script.benchmarks._fleet import Costs, fleet, running, wait_for

    nodes = -(-jobs // clusters) + 4
    with (
        fleet(directory, clusters, nodes=nodes, tiers=[], kind=backend) as world,
        running(directory, *PROCESSES) as stack,
    ):
        costs = Costs(stack)
        time.sleep(SETTLE_S)  # imports, first readings
        for cluster in world.simulated.values():
            cluster.control("faults/add", kind="delay_before", ms=ANSWER_MS, times=None)
            for path in _COUNTED[backend]:
                cluster.control("faults/add", kind="delay_before", path=path, ms=0, times=None)
        costs.begin()
        began_s = queue_jobs(world, jobs, backend)
        wait_for(lambda: answered() >= jobs, within_s=LONGEST_S, what="all orders answered")
        wall_s = last_answer() - began_s
        spent = costs.so_far()
        calls = calls_per_job(world, jobs)
    return (
        {
            "jobs_per_s": round(jobs / wall_s, 1),
            "cpu_ms_per_job": round(sum(spent.values()) * 1000 / jobs, 2),
        },
        {
            "wall_s": round(wall_s, 2),
            "cpu_ms_per_job_by_process": {
                name: round(used * 1000 / jobs, 2) for name, used in sorted(spent.items())
            },
            "calls_per_job_by_path": calls,
            "clusters": clusters,
            "jobs": jobs,
            "answer_ms": ANSWER_MS,
        },
    )


def main() -> None:
    """Measure and print."""
    chosen = options()
    with scratch_database(), tempfile.TemporaryDirectory(prefix="muster-dispatch-") as directory:
        metrics, context = measure(chosen.jobs, chosen.clusters, chosen.backend, Path(directory))
    report("dispatch", metrics, {**context, "backend": chosen.backend})


if __name__ == "__main__":
    main()

"""One cold cycle of the arbiter: snapshot, decide and commit, on a deep queue.

10,000 waiting jobs of 2,000 shapes, 50 tenants, 4 clusters of 1,024 nodes, some 500 bound. CPU is
of this process and of its PostgreSQL backend. The exponents are fitted over half, once and twice
the jobs, and half, once and twice the nodes.
"""

import random
import resource
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from script.benchmarks import cpu_s, exponent, report, scratch_database

SEED = 20_261
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NODES_PER_LEAF, LEAVES_PER_SPINE = 8, 16
FLAVORS = ("h100-sxm-80", "a100-sxm-80")


@dataclass(frozen=True)
class Size:
    """How large the federation is; `nodes` of each of the clusters."""

    jobs: int = 10_000
    shapes: int = 2_000
    tenants: int = 50
    clusters: int = 4
    nodes: int = 1_024


def shapes(count: int, rng: random.Random) -> list[dict[str, Any]]:
    """So many different asks: sizes, memory, tiers, flavors."""
    found: dict[str, dict[str, Any]] = {}
    while len(found) < count:
        gpus = rng.choice((1, 2, 4, *(8,) * 12))
        nodes = rng.choice((1, 1, 2, 3, 4, 6, 8, 8, 12, 16, 24, 32, 64)) if gpus == 8 else 1
        flavors = rng.choice((FLAVORS[:1], FLAVORS[1:], FLAVORS, FLAVORS[::-1]))
        options = [
            {
                "flavor": flavor,
                "nodes": nodes,
                "gpus_per_node": gpus,
                "cpus_per_node": gpus * rng.choice((4, 8, 12)),
                "memory_mib_per_node": gpus * 1024 * rng.choice((16, 32, 64, 100)),
            }
            for flavor in flavors
        ]
        ask = {
            "options": options,
            "required_tier": rng.choice(("", "", "spine", "leaf" if nodes <= 8 else "")),
            "time_limit_ms": 3_600_000 * rng.choice((1, 4, 24, 72)),
            "exclusive": gpus == 8 and rng.random() < 0.2,
        }
        found[repr(ask)] = ask
    return list(found.values())


def seed(size: Size) -> None:
    """Fill the empty database: tenants, people, prices, quotas, clusters, nodes, jobs."""
    from script.benchmarks import _cycle_rows as cycle_rows

    cycle_rows.clear()
    rng = random.Random(SEED)  # noqa: S311 (a repeatable benchmark, not a secret)
    people = cycle_rows.people_and_tenants(size.tenants, FLAVORS, NOW)
    cycle_rows.clusters(size.clusters, size.nodes, FLAVORS, people, rng, NOW)
    asks = shapes(size.shapes, rng)
    cycle_rows.jobs(size.jobs, asks, people, rng, NOW)


def measure(size: Size) -> tuple[float, int, int]:
    """CPU seconds of one cold cycle, and how many jobs it bound and told."""
    from django.db import connection

    from federation.core.cycle import decide
    from federation.selectors.snapshot import take_snapshot
    from federation.services.commit import begin_term, commit_plan
    from kit import collector

    seed(size)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("SET max_parallel_workers_per_gather = 0")  # all work in our one backend
    epoch = begin_term(now=NOW)
    connection.ensure_connection()
    pid = connection.connection.info.backend_pid
    collector.settle()

    @collector.paused()  # as the arbiter's
    def one_cycle() -> Any:
        plan = decide(take_snapshot(NOW + timedelta(seconds=1)))
        return commit_plan(plan=plan, epoch=epoch, now=NOW + timedelta(seconds=1))

    spent_s, committed = cpu_s(one_cycle, pid)
    assert committed.stale == 0
    return spent_s, committed.bound, committed.told


def main() -> None:
    """Measure and print."""
    base = Size()
    with scratch_database():
        spent_s, bound, told = measure(base)
        rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        more = {
            (jobs, nodes): measure(Size(jobs=jobs, nodes=nodes))[0]
            for jobs, nodes in ((5_000, 1_024), (20_000, 1_024), (10_000, 512), (10_000, 2_048))
        }
    over_jobs = [(5_000, more[5_000, 1_024]), (10_000, spent_s), (20_000, more[20_000, 1_024])]
    over_nodes = [(512, more[10_000, 512]), (1_024, spent_s), (2_048, more[10_000, 2_048])]
    report(
        "cycle",
        {
            "cpu_s": round(spent_s, 3),
            "rss_mb": round(rss_mb, 1),
            "bound": bound,
            "exponent_jobs": round(exponent(over_jobs), 3),
            "exponent_nodes": round(exponent(over_nodes), 3),
        },
        {
            **vars(base),
            "told": told,
            "seed": SEED,
            "cpu_s_over_jobs": {n: round(s, 3) for n, s in over_jobs},
            "cpu_s_over_nodes": {n: round(s, 3) for n, s in over_nodes},
        },
    )


if __name__ == "__main__":
    main()

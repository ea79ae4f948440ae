"""One cold cycle over 1,000 tenants with 50,000 waiting jobs, and its queries at two sizes.

A tree of 10 organisations, 90 teams and 900 projects on 4 clusters of 1,024 nodes, half of the GPUs
taken by others. CPU is of this process and of its PostgreSQL backend.
"""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from script.benchmarks import cpu_s, report, scratch_database
from script.benchmarks.cycle import FLAVORS, NOW, shapes

SEED = 20_262
ORGANISATIONS, TEAMS, PROJECTS = 10, 9, 10
CLUSTERS, NODES = 4, 1_024
SHAPES = 2_000


@dataclass(frozen=True)
class Cycle:
    """What one cycle cost and did."""

    cpu_s: float
    queries: int
    bound: int
    told: int


def paths() -> list[str]:
    """1,000 tenants."""
    found = []
    for organisation in range(ORGANISATIONS):
        found.append(f"o{organisation}")
        for team in range(TEAMS):
            found.append(f"o{organisation}/t{team}")
            found += [f"o{organisation}/t{team}/p{project}" for project in range(PROJECTS)]
    return found


def seed(jobs: int) -> None:
    """Fill the empty database."""
    from script.benchmarks import _cycle_rows as cycle_rows
    from script.benchmarks import _quota_rows as quota_rows

    rng = random.Random(SEED)  # noqa: S311 (a repeatable benchmark, not a secret)
    places = [quota_rows.flavor_with_prices(name, NOW) for name in FLAVORS]
    tenants = quota_rows.tenants(paths())
    owed = {0: 1_600, 1: 160, 2: 12}
    for flavor in places:
        rows = [
            (tenant, owed[depth], None if depth < 2 else 64)
            for tenant in tenants
            for depth in [tenant.path.count("/")]
        ]
        quota_rows.quotas(rows, flavor)
    user = quota_rows.person("mia", [])
    cycle_rows.clusters(CLUSTERS, NODES, FLAVORS, [(user, tenants[0])], rng, NOW)
    asks, projects = shapes(SHAPES, rng), [one for one in tenants if one.path.count("/") == 2]
    cycle_rows.jobs(jobs, asks, [(user, one) for one in projects], rng, NOW)


def measure() -> Cycle:
    """One cold cycle on what is there."""
    from django.db import connection

    from federation.core.cycle import decide
    from federation.selectors.snapshot import take_snapshot
    from federation.services.commit import begin_term, commit_plan
    from kit import collector

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("SET max_parallel_workers_per_gather = 0")  # all work in our one backend
    epoch = begin_term(now=NOW)
    connection.ensure_connection()
    collector.settle()
    now = NOW + timedelta(seconds=1)

    @collector.paused()  # as the arbiter's
    def one_cycle() -> Any:
        return commit_plan(plan=decide(take_snapshot(now)), epoch=epoch, now=now)

    queries: list[str] = []

    def count(execute: Any, sql: str, *rest: Any) -> Any:
        queries.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(count):
        spent_s, committed = cpu_s(one_cycle, connection.connection.info.backend_pid)
    assert committed.stale == 0
    return Cycle(spent_s, len(queries), committed.bound, committed.told)


def main() -> None:
    """Measure and print."""
    found = {}
    for jobs in (5_000, 50_000):
        with scratch_database():
            seed(jobs)
            found[jobs] = measure()
    small, large = found[5_000], found[50_000]
    report(
        "tenants",
        {"cpu_s": round(large.cpu_s, 3), "queries": large.queries, "bound": large.bound},
        {
            "tenants": len(paths()),
            "jobs": 50_000,
            "told": large.told,
            "queries_5000": small.queries,
            "cpu_s_5000": round(small.cpu_s, 3),
            "seed": SEED,
        },
    )


if __name__ == "__main__":
    main()

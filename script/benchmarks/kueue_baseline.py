"""Kueue's scheduler performance test on our arbiter, with real commits into PostgreSQL.

Five cohorts of six queues, each owed 20 units and borrowing up to 100; owners reclaim, and within a
queue higher priority evicts lower. Per queue 350 small, 100 medium and 50 large workloads of 1, 5
and 20 units, 15,000 in all. Time is virtual: what a cycle costs in CPU (this process and its
PostgreSQL backend) passes on the clock. Clusters are played: what was bound runs at once, what was
stopped is gone at once, in set-based SQL that is charged too; making the workloads is not. Cohorts
are clusters of one node with a flavor of their own, as Kueue's test has no topology.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any
from uuid import UUID

from kit import collector
from script.benchmarks import cpu_s, report, scratch_database
from script.benchmarks.cycle import NOW

COHORTS, QUEUES = 5, 6
NOMINAL, BORROWING = 20, 100
REST_S = 0.25
VACUUM_EVERY_S = 15.0
IDEAL_S = 66.0  # 1,320 unit-seconds a queue on 20 units a queue


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of workload: how many a queue, units of each, priority, run time, one every so often."""

    count: int
    units: int
    priority: int
    run_s: float
    every_s: float


KINDS = (Kind(350, 1, 50, 0.2, 0.1), Kind(100, 5, 100, 0.5, 0.5), Kind(50, 20, 200, 1.0, 1.2))

START = """
WITH started AS (
    UPDATE federation_attempt
    SET state = 'running', accepted_at = %(now)s, started_at = %(now)s, nodes_seen = nodes
    WHERE state = 'dispatching' RETURNING id, job_id),
done AS (
    UPDATE clusters_command SET state = 'done', answered_at = %(now)s WHERE state = 'waiting')
UPDATE federation_job AS job
SET state = 'running', started_at = coalesce(job.started_at, %(now)s), version = version + 1
FROM started WHERE job.id = started.job_id
RETURNING started.id, job.id"""
END = """
WITH ended AS (
    UPDATE federation_attempt SET state = 'ended', ended_at = %(now)s, end_cause = 'completed'
    WHERE id = ANY(%(due)s::uuid[]) AND state = 'running' RETURNING job_id)
UPDATE federation_job AS job
SET state = 'succeeded', ended_at = %(now)s, version = version + 1
FROM ended WHERE job.id = ended.job_id"""
STOP = """
WITH stopped AS (
    UPDATE federation_attempt SET state = 'ended', ended_at = %(now)s
    WHERE state = 'stopping' RETURNING id, job_id),
done AS (
    UPDATE clusters_command SET state = 'done', answered_at = %(now)s WHERE state = 'waiting')
UPDATE federation_job AS job
SET state = 'queued', class_now = '', version = version + 1
FROM stopped WHERE job.id = stopped.job_id"""


@dataclass
class Test:
    """The test as it runs; `clock_s` is virtual."""

    epoch: int
    backend: int
    waiting: Any  # what the arbiter knows of the jobs that wait
    memory: Any  # and what it told them
    coming: list[tuple[float, Any, float]]
    clock_s: float = 0.0
    spent_s: float = 0.0
    cycles: int = 0
    evicted: int = 0
    finished: int = 0
    ends: list[tuple[float, UUID]] = field(default_factory=list)
    run_s: dict[int, float] = field(default_factory=dict)
    parts_s: dict[str, float] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """The moment of the clock."""
        return NOW + timedelta(seconds=self.clock_s)

    def charge(self, name: str, act: Any) -> Any:
        """Do something; the CPU that it takes passes on the clock."""
        took_s, result = cpu_s(act, self.backend)
        self.clock_s += took_s
        self.spent_s += took_s
        self.parts_s[name] = self.parts_s.get(name, 0.0) + took_s
        return result


def workloads() -> list[tuple[float, Any, float]]:
    """Every workload as (arrival in seconds, job, run time), the last first; the rest is seeded."""
    from script.benchmarks import _quota_rows as quota_rows

    coming: list[tuple[float, Any, float]] = []
    for cohort in range(COHORTS):
        name = f"cohort-{cohort}"
        flavor = quota_rows.flavor_with_prices(f"units-{cohort}", NOW)
        cluster = quota_rows.cluster(name, flavor.name, nodes=1, gpus=NOMINAL * QUEUES, now=NOW)
        cluster.last_seen_at = NOW + timedelta(days=1)
        cluster.save()
        user = quota_rows.person(f"user-{cohort}", [cluster])
        paths = [name, *(f"{name}/queue-{queue}" for queue in range(QUEUES))]
        _, *queues = quota_rows.tenants(paths)
        quota_rows.quotas([(queue, NOMINAL, BORROWING) for queue in queues], flavor)
        for queue in queues:
            for kind in KINDS:
                need = {"gpus_per_node": kind.units, "cpus_per_node": kind.units}
                option = {"flavor": flavor.name, "nodes": 1, "memory_mib_per_node": 1, **need}
                for number in range(kind.count):
                    at_s = number * kind.every_s
                    job = quota_rows.job(
                        queue, user, number, options=[option], priority=kind.priority,
                        now=NOW + timedelta(seconds=at_s),
                    )  # fmt: skip
                    coming.append((at_s, job, kind.run_s))
    coming.sort(key=lambda one: one[0], reverse=True)
    return coming


def run_sql(sql: str, values: Mapping[str, Any]) -> Sequence[Any]:
    """The rows that a statement returns, or as many as it changed."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else range(cursor.rowcount)


def arrive(test: Test) -> None:
    """Write the workloads that have come; not charged."""
    from script.benchmarks import _quota_rows as quota_rows

    jobs = []
    while test.coming and test.coming[-1][0] <= test.clock_s:
        _, job, run_s = test.coming.pop()
        jobs.append((job, run_s))
    quota_rows.insert([job for job, _ in jobs])
    test.run_s.update({job.id: run_s for job, run_s in jobs})


def cluster_side(test: Test) -> None:
    """What has run long enough ends; what was stopped is gone."""
    due = []
    while test.ends and test.ends[0][0] <= test.clock_s:
        due.append(heappop(test.ends)[1])
    if due:
        test.finished += len(run_sql(END, {"now": test.now, "due": due}))


@collector.paused()
def one_cycle(test: Test) -> Any:
    """As the arbiter's: tend, snapshot, decide, commit; Kueue spares nobody, so nobody is here."""
    from federation.core.cycle import decide
    from federation.selectors.snapshot import take_snapshot
    from federation.services.commit import commit_plan
    from federation.services.evict import tend_evictions

    cluster_side(test)
    if tend_evictions(now=test.now):
        test.evicted += len(run_sql(STOP, {"now": test.now}))
    snapshot = take_snapshot(test.now, test.waiting)
    policy = replace(
        snapshot.policy, min_run_ms=0, cool_down_ms=0, most_evictions=1_000_000, aging_ms=0
    )
    plan = decide(replace(snapshot, policy=policy))
    committed = commit_plan(plan=plan, epoch=test.epoch, now=test.now, memory=test.memory)
    test.waiting.leave(committed.jobs)
    return committed


def start(test: Test) -> None:
    """What was bound runs."""
    for attempt, job in run_sql(START, {"now": test.now}):
        heappush(test.ends, (test.clock_s + test.run_s[job], attempt))


def step(test: Test, rest_s: float) -> None:
    """One cycle, and then on to the next moment at which there is something to do."""
    arrive(test)
    began_s = test.clock_s
    committed = test.charge("cycle", lambda: one_cycle(test))
    if committed.bound:
        test.charge("start", lambda: start(test))
    test.cycles += 1
    following = [test.ends[0][0]] if test.ends else []
    following += [test.coming[-1][0]] if test.coming else []
    soonest_s = test.clock_s if committed.claimed or not following else min(following)
    test.clock_s = max(test.clock_s, began_s + rest_s, soonest_s)


def settle_tables(test: Test) -> None:
    """What autovacuum would do; charged."""
    from django.db import connection

    def act() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "VACUUM ANALYZE federation_job, federation_telling, federation_attempt, clusters_command"
            )

    test.charge("vacuum", act)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rest", type=float, default=REST_S, help="seconds from cycle to cycle")
    rest_s = parser.parse_args().rest
    with scratch_database():
        from django.db import connection

        from federation.selectors.snapshot import Waiting
        from federation.services.commit import begin_term
        from federation.services.reasons import Memory

        coming = workloads()
        total = len(coming)
        connection.ensure_connection()
        backend = connection.connection.info.backend_pid
        test = Test(begin_term(now=NOW), backend, Waiting(), Memory(), coming)
        collector.settle()
        vacuumed_s = -VACUUM_EVERY_S
        while test.finished < total:
            if test.clock_s - vacuumed_s > VACUUM_EVERY_S:
                vacuumed_s = test.clock_s
                settle_tables(test)
            step(test, rest_s)
    report(
        "kueue-baseline",
        {
            "admitted_per_cpu_s": round(total / test.spent_s, 1),
            "makespan_s": round(test.clock_s, 1),
            "ideal_s": IDEAL_S,
        },
        {
            "workloads": total,
            "cpu_s": round(test.spent_s, 1),
            "cpu_s_by_part": {name: round(s, 1) for name, s in test.parts_s.items()},
            "cycles": test.cycles,
            "evicted": test.evicted,
            "rest_s": rest_s,
        },
    )


if __name__ == "__main__":
    main()

"""One tenant's deep queue: 536 waiting jobs with free quota and free GPUs are bound in one cycle.

Kueue's issue of a queue that admits one workload a cycle is the measure. Through the database:
snapshot, decide, commit.
"""

from datetime import timedelta
from typing import Any

from script.benchmarks import cpu_s, report, scratch_database
from script.benchmarks.cycle import FLAVORS, NOW

JOBS, NODES = 536, 128
SHAPE = {"nodes": 1, "gpus_per_node": 1, "cpus_per_node": 8, "memory_mib_per_node": 65_536}


def seed() -> None:
    """One cluster with room, one tenant that is owed all of it, and its queue."""
    from script.benchmarks import _quota_rows as quota_rows

    flavor = FLAVORS[0]
    place = quota_rows.flavor_with_prices(flavor, NOW)
    cluster = quota_rows.cluster("c0", flavor, nodes=NODES, gpus=8, now=NOW)
    user = quota_rows.person("mia", [cluster])
    (tenant,) = quota_rows.tenants(["acme"])
    quota_rows.quotas([(tenant, NODES * 8, None)], place)
    rows = [
        quota_rows.job(tenant, user, number, options=[{"flavor": flavor, **SHAPE}], now=NOW)
        for number in range(JOBS)
    ]
    quota_rows.insert(rows)


def main() -> None:
    """Measure and print."""
    with scratch_database():
        from django.db import connection

        from federation.core.cycle import decide
        from federation.selectors.snapshot import take_snapshot
        from federation.services.commit import begin_term, commit_plan

        seed()
        epoch = begin_term(now=NOW)
        connection.ensure_connection()
        now = NOW + timedelta(seconds=1)

        def one_cycle() -> Any:
            return commit_plan(plan=decide(take_snapshot(now)), epoch=epoch, now=now)

        spent_s, committed = cpu_s(one_cycle, connection.connection.info.backend_pid)
    metrics = {"bound": committed.bound, "cpu_s": round(spent_s, 3)}
    report("deep-queue", metrics, {"jobs": JOBS, "gpus": NODES * 8})


if __name__ == "__main__":
    main()

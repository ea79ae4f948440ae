"""A replay of 30,940 past jobs of 11 tenants on the real core, in virtual time.

With `--trace FILE` (`chronus_philly_MIX1`: the Philly trace as resampled by Chronus) the file's jobs;
without it jobs drawn from a seed to the same sizes, which is said. 154 nodes of 8 GPUs, 112 owed
to each tenant; no checkpoints, so that what is evicted begins anew. With `--alone` also how many
guaranteed jobs wait longer than alone: in a cluster of their tenant's own of as many nodes as it is
owed (`own_nodes`), and on the whole fleet with nobody else there (`whole_fleet`). There wide gangs
find nodes sooner and take the quota from narrow ones behind them; on own nodes they lie in each
other's way. `either` are those that wait longer than in both.
"""

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from federation.core.replay import Outcome, PastJob, Setting, replay
from federation.core.replay.staging import (
    Choices,
    ClusterWords,
    stage,
    tenant_paths,
    uid,
    workload,
)
from federation.core.replay.trace import Trace, TraceRow, read_trace
from quotas.core.cohort import GUARANTEED
from quotas.core.table import TableRow
from script.benchmarks import report

SEED = 20_263
JOBS, TENANTS, SPAN_S = 30_940, 11, 20_150
OWED_GPUS, NODE_GPUS = 112, 8
FLAVOR = "v100-sxm-32"
CHOICES = Choices(FLAVOR)


def drawn() -> Trace:
    """Jobs like the trace's: mostly of one GPU, some of 8 to 32, seven of ten owed, as many GPU-hours."""
    rng = random.Random(SEED)  # noqa: S311 (a repeatable benchmark, not a secret)
    rows = []
    for number in range(1, JOBS + 1):
        (gpus,) = rng.choices((1, 2, 4, 8, 16, 32), (28_361, 205, 1_173, 876, 124, 14))
        nodes = -(-gpus // NODE_GPUS)
        rows.append(
            TraceRow(
                number=number,
                job_id=str(number),
                submit_s=rng.randrange(SPAN_S),
                duration_s=min(4_317, 20 + int(rng.lognormvariate(4.8, 2.0))),
                gpus=gpus,
                nodes=nodes,
                gpus_per_node=gpus // nodes,
                tenant=f"vc-{rng.randrange(TENANTS)}",
                user="",
                klass="strict" if rng.random() < 0.7 else "best",
                gpu_type="",
                walltime_s=-1,
            )
        )
    return Trace(tuple(rows), {})


def read(name: str) -> Trace:
    """The trace of a file.

    Raises:
        SystemExit: it is not valid.
    """
    found = read_trace(Path(name).read_text("utf-8").splitlines())
    if isinstance(found, Trace):
        return found
    sys.exit(f"{name}: row {found[0].row}, {found[0].field}: {found[0].detail}")


def staged(names: Sequence[str], nodes: int) -> Setting:
    """So many nodes, and what each of the tenants is owed."""
    rows = [
        TableRow(number, f"philly/{name}", FLAVOR, None, OWED_GPUS)
        for number, name in enumerate(names, start=1)
    ]
    fleet = [ClusterWords("philly", FLAVOR, nodes, NODE_GPUS)]
    setting = stage(rows, fleet, [row.tenant for row in rows], CHOICES)
    assert isinstance(setting, Setting)
    return setting


def longer_than_alone(
    jobs: Sequence[PastJob], names: Sequence[str], shared: Outcome, fleet: Setting
) -> dict[str, object]:
    """How many guaranteed jobs wait longer than alone (victims have no grace here), and how much."""
    owed, longest = 0, defaultdict[str, list[int]](list)
    for name in names:
        tenant = uid(f"philly/{name}")
        own = [job for job in jobs if job.tenant == tenant and job.wanted_class == GUARANTEED]
        small = replay(own, staged([name], OWED_GPUS // NODE_GPUS)).waited_ms
        large = replay(own, fleet).waited_ms
        owed += len(own)
        for job in small:
            waited = shared.waited_ms[job]
            more = {"own_nodes": waited - small[job], "whole_fleet": waited - large[job]}
            more["either"] = min(more.values())
            for kind, ms in more.items():
                longest[kind].append(ms)
    return {"guaranteed": owed} | {
        kind: {
            "longer": sum(ms > 0 for ms in found),
            "worst_s": max(found) // 1000,
        }
        for kind, found in longest.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", help="CSV of past jobs; without it they are drawn")
    parser.add_argument("--alone", action="store_true", help="also a private cluster a tenant")
    options = parser.parse_args()
    if options.trace is None:
        sys.stderr.write("Without --trace the jobs are drawn from a seed.\n")
    trace = read(options.trace) if options.trace else drawn()
    names = sorted({row.tenant.replace("_", "-") for row in trace.rows})
    setting = staged(names, OWED_GPUS * len(names) // NODE_GPUS)
    tenants = {row.tenant for row in trace.rows}
    table = [TableRow(0, f"philly/{name}", FLAVOR, None, OWED_GPUS) for name in names]
    jobs = workload(trace.rows, tenant_paths(tenants, table), NODE_GPUS, CHOICES)
    began_s = time.process_time()
    outcome = replay(jobs, setting)
    spent_s = time.process_time() - began_s
    left_out = sum(trace.left_out.values())
    metrics: dict[str, object] = {"cpu_s": round(spent_s, 1), "jobs": len(jobs) + left_out}
    if options.alone:
        metrics["alone"] = longer_than_alone(jobs, names, outcome, setting)
    context = {
        "trace": Path(options.trace).name if options.trace else None,
        "left_out": trace.left_out,
        "cycles": outcome.cycles,
        "evictions": sum(one.evictions for one in outcome.tenants),
        "never": sum(one.never for one in outcome.tenants),
        "fairness": round(outcome.fairness, 4),
        "gpus": OWED_GPUS * len(names),
        "seed": None if options.trace else SEED,
    }
    report("simulate", metrics, context)


if __name__ == "__main__":
    main()

"""The independent calculation: what Slurm's accounting says a job costs, against what Muster says.

Nothing of Muster's own arithmetic is used: `sacct` tells the stays, exact fractions the price.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from math import floor

from kit.intervals import iso
from tests.live.slurm.federation import FLAVORS, PRICES, Job, Muster
from tests.live.slurm.lab import Stay
from tests.stack import eventually


def cost_nano(stay: Stay) -> int:
    """GPUs x seconds x price per GPU-hour, rounded down once a stay."""
    assert stay.end_s is not None
    price = PRICES[FLAVORS[stay.cluster], stay.qos]
    return floor(Fraction(price * stay.gpus * (stay.end_s - stay.start_s), 3600))


def nano(money: Job) -> int:
    """Nano-units of the API's money."""
    assert money["currency"] == "USD"
    return int(Decimal(money["amount"]).scaleb(9).to_integral_exact())


def stays_of(muster: Muster, jobs: Iterable[str]) -> dict[str, list[Stay]]:
    """Every stay on GPUs of these jobs by job, once accounting (it lags) has all that started."""
    attempts = [(job, row) for job in jobs for row in muster.attempts(job)]
    owners = {row["fence"]: job for job, row in attempts}
    started = {row["fence"] for _, row in attempts if row["started_at"]}
    found: list[Stay] = []

    def complete() -> bool:
        every = [stay for lab in muster.labs.values() for stay in lab.stays()]
        found[:] = [stay for stay in every if stay.name in owners]
        names = {stay.name for stay in found}
        return started <= names and all(stay.end_s is not None for stay in found)

    eventually(complete, within_s=60, every_s=0.5, what="Slurm's accounting has every stay")
    by_job: dict[str, list[Stay]] = {}
    for stay in sorted(found, key=lambda one: one.start_s):
        by_job.setdefault(owners[stay.name], []).append(stay)
    return by_job


def agree(muster: Muster, tenant: str, jobs: Sequence[str]) -> dict[str, list[Stay]]:
    """Checks that Slurm's accounting and Muster agree on every job of a tenant; the stays by job.

    One run for each attempt that started, its start, end, GPUs, class and cost; and the tenant's
    usage and the ledger sum up to the same, to the last nano-unit.
    """
    stays = stays_of(muster, jobs)
    total = 0
    for job in jobs:
        total += _agree_on_job(muster, job, stays.get(job, []))

    def posted() -> bool:
        rows = muster.pages("/ledger", tenant=tenant)
        return sum(nano(row["amount"]) for row in rows) == total

    eventually(posted, within_s=30, every_s=0.5, what=f"the ledger of {tenant} holds {total}")
    usage = muster.get(f"/tenants/{tenant}/usage")
    assert nano(usage["amount"]) == total
    every = [stay for found in stays.values() for stay in found]
    assert usage["gpu_ms"] == 1000 * sum(one.gpus * (one.end_s - one.start_s) for one in every)
    return stays


def _agree_on_job(muster: Muster, job: str, stays: list[Stay]) -> int:
    started = [row for row in muster.attempts(job) if row["started_at"]]
    assert [stay.name for stay in stays] == [row["fence"] for row in started]
    costs = muster.get(f"/jobs/{job}/costs")
    told = [
        (one["cluster"], one["class"], one["gpus"], one["start"], one["end"])
        for one in costs["intervals"]
    ]
    billed = [stay for stay in stays if stay.end_s != stay.start_s]
    assert told == [
        (stay.cluster, stay.qos, stay.gpus, _iso(stay.start_s), _iso(stay.end_s)) for stay in billed
    ]
    for row, stay in zip(started, stays, strict=True):
        assert (row["cluster"], row["class"], row["account"]) == (stay.cluster, stay.qos, stay.user)
        assert len(row["nodes_seen"]) == stay.nodes
        assert row["backend_id"] == stay.job_id
    due = sum(cost_nano(stay) for stay in stays)
    assert nano(costs["so_far"]) == due, (costs, stays)
    return due


def _iso(second: int | None) -> str:
    assert second is not None
    return str(iso(datetime.fromtimestamp(second, UTC)))

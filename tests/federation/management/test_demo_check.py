"""What the demo's check must notice: each doctored answer is a fault, the honest ones are none."""

import copy
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from federation.management import demo_truths as truths
from federation.management.demo_jobs import JOBS, DemoJob
from federation.management.demo_truths import Outcome
from federation.management.demo_world import CLUSTERS, TENANTS

PATHS = {
    "aurora": {
        f"n{number}": {"leaf": f"leaf{number // 4}", "spine": "spine0"} for number in range(16)
    }
}
PRICES = {("h100-sxm-80", "guaranteed"): Decimal("3.2"), ("h100-sxm-80", "spot"): Decimal("1.6")}
ASK = DemoJob(
    "video", "mia", "acme/vision", ("h100-sxm-80",), 4, 8, "guaranteed", 60,
    topology={"required": "leaf"},
)  # fmt: skip


def honest(ask: DemoJob = ASK, start: str = "2026-11-29T20:47:44.000Z") -> Outcome:
    """Four nodes of one leaf for 20 s: 640 GPU-seconds, 0.568888888 at 3.2 an hour."""
    nodes = ["n0", "n1", "n2", "n3"]
    amount = {"amount": "0.568888888", "currency": "USD"}
    return Outcome(
        ask,
        {
            "state": "succeeded",
            "attempt": {
                "cluster": "aurora",
                "state": "ended",
                "nodes": nodes,
                "nodes_seen": nodes[::-1],
                "tier_promised": "leaf",
                "tier_seen": "leaf",
                "exit_code": 0,
            },
        },
        {
            "gpu_ms": 640_000,
            "so_far": amount,
            "unposted": {"amount": "0.000000", "currency": "USD"},
            "intervals": [
                {
                    "flavor": "h100-sxm-80",
                    "class": "guaranteed",
                    "start": start,
                    "end": start.replace("20:47:44", "20:48:04"),
                    "gpu_ms": 640_000,
                    "amount": amount,
                }
            ],
        },
        {"queued", "running", "succeeded"},
    )


def faults(outcome: Outcome) -> list[str]:
    return list(truths.job_faults(outcome, PATHS, PRICES))


def test_an_honest_job_has_no_fault() -> None:
    assert faults(honest()) == []


def put(*path: str | int, value: Any) -> Callable[[Outcome], None]:
    def change(outcome: Outcome) -> None:
        target: Any = {"job": outcome.job, "costs": outcome.costs}
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("job", "state", value="failed"), "is failed, not succeeded"),
        (put("job", "attempt", "state", value="running"), "its attempt is running"),
        (put("job", "attempt", "nodes_seen", value=["n0", "n1", "n2"]), "was bound to"),
        (put("job", "attempt", "tier_promised", value="host"), "though promised was one host"),
        (put("job", "attempt", "tier_seen", value="host"), "its nodes share one leaf"),
        (put("costs", "intervals", 0, "gpu_ms", value=640_001), "640001 were booked"),
        (put("costs", "intervals", 0, "end", value=None), "still held GPUs"),
        (put("costs", "intervals", 0, "class", value="spot"), "1.6 an hour makes"),
        (put("costs", "intervals", value=[]), "nothing was booked"),
        (put("costs", "gpu_ms", value=1), "not the sum of its parts"),
        (put("costs", "unposted", "amount", value="0.000001"), "never reached the ledger"),
    ],
)
def test_a_lie_is_noticed(change: Callable[[Outcome], None], words: str) -> None:
    outcome = copy.deepcopy(honest())
    change(outcome)
    assert any(words in fault for fault in faults(outcome)), faults(outcome)


def test_a_required_leaf_is_looked_up_in_the_tree() -> None:
    outcome = copy.deepcopy(honest())
    spread = ["n0", "n1", "n2", "n4"]
    outcome.job["attempt"] |= {"nodes": spread, "nodes_seen": spread, "tier_seen": "spine"}
    found = faults(outcome)
    assert any("required was one leaf" in fault for fault in found)
    assert any("promised was one leaf" in fault for fault in found)


@pytest.mark.parametrize(
    ("nodes", "tier"),
    [(["n0"], "host"), (["n0", "n3"], "leaf"), (["n3", "n4"], "spine"), (["n0", "x"], "cluster")],
)
def test_the_closest_shared_tier(nodes: list[str], tier: str) -> None:
    assert truths.shared_tier(nodes, PATHS["aurora"]) == tier


def test_two_gangs_that_exceed_a_cluster_must_not_overlap() -> None:
    def pair(second_start: str) -> dict[str, Outcome]:
        first = DemoJob("a", "m", "t", (), 4, 8, "spot", 1, alone_with="b")
        second = DemoJob("b", "m", "t", (), 4, 8, "spot", 1, alone_with="a")
        return {"a": honest(first), "b": honest(second, second_start)}

    assert list(truths.together_faults(pair("2026-11-29T20:47:44.000Z")))
    apart = pair("2026-11-29T20:47:44.000Z")
    for part in apart["b"].costs["intervals"]:
        part |= {"start": "2026-11-29T20:48:04.000Z", "end": "2026-11-29T20:48:24.000Z"}
    assert not list(truths.together_faults(apart))


def test_the_sum_is_exact_when_nobody_else_ran() -> None:
    outcomes = {"video": honest()}
    assert not list(truths.sum_faults(outcomes, 568_888_888, is_alone=True))
    assert list(truths.sum_faults(outcomes, 568_888_889, is_alone=True))
    assert not list(truths.sum_faults(outcomes, 568_888_889, is_alone=False))
    assert list(truths.sum_faults(outcomes, 568_888_887, is_alone=False))


def test_the_jobs_cover_what_the_demo_promises() -> None:
    by_flavor = {cluster.flavor: cluster for cluster in CLUSTERS}
    assert {job.service_class for job in JOBS} == {"guaranteed", "spot", "auto"}
    assert {job.ends for job in JOBS} == truths.FINAL
    assert len({job.person for job in JOBS}) == 3
    assert {job.tenant for job in JOBS} <= {tenant.path for tenant in TENANTS}
    assert any(job.nodes == 16 for job in JOBS)
    pair = [job for job in JOBS if job.alone_with]
    assert len(pair) == 2
    assert sum(job.nodes for job in pair) > by_flavor[pair[0].flavors[0]].nodes
    for job in JOBS:
        assert all(job.nodes <= by_flavor[flavor].nodes for flavor in job.flavors)


def test_a_service_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Run seed_demo first"):
        call_command("demo_check", url="http://127.0.0.1:9", state=tmp_path)
    (tmp_path / "people.json").write_text('{"ada": {"token": "x"}}')
    with pytest.raises(CommandError, match="Nothing answers at"):
        call_command("demo_check", url="http://127.0.0.1:9", state=tmp_path)

"""Shapes and states: those of v0.0.38 that no scenario meets, and those of newer versions.

Replies of v0.0.40 and later are written from slurm.md §9 and slurm-newer.md; not yet run live.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.backends.slurm import read
from clusters.backends.slurm.states import exit_code, job_state, node_state
from clusters.backends.slurm.topology import Topology, parse_topology_conf
from clusters.backends.slurm.values import Json, number, parsed, words
from clusters.core.observation import GangState, NodeState
from clusters.core.resources import NodeShape

G, N = GangState, NodeState
RECORDINGS = Path(__file__).parent / "recordings"


@pytest.mark.parametrize(
    ("said", "reason", "state"),
    [
        ("PENDING", "Resources", G.PENDING),
        ("PENDING", "JobHeldUser", G.HELD),
        ("PENDING", "JobHeldAdmin", G.HELD),
        ("CONFIGURING", "None", G.STARTING),
        ("RUNNING", "None", G.RUNNING),
        ("SUSPENDED", "None", G.RUNNING),
        ("COMPLETING", "None", G.ENDING),
        ("COMPLETED", "None", G.SUCCEEDED),
        ("FAILED", "NonZeroExitCode", G.FAILED),
        ("OUT_OF_MEMORY", "OutOfMemory", G.FAILED),
        ("TIMEOUT", "TimeLimit", G.TIMED_OUT),
        ("DEADLINE", "DeadLine", G.TIMED_OUT),
        ("NODE_FAIL", "NodeDown", G.NODE_FAILED),
        ("BOOT_FAIL", "", G.NODE_FAILED),
        ("PREEMPTED", "", G.PREEMPTED),
        ("REQUEUED", "", G.PREEMPTED),
        ("CANCELLED", "", G.CANCELLED),
        ("REVOKED", "", G.UNKNOWN),
        ("NEVER_HEARD_OF", "", G.UNKNOWN),
        ("", "", G.UNKNOWN),
        (["PENDING"], "Priority", G.PENDING),
        (["PENDING", "REQUEUED"], "BeginTime", G.PENDING),
        (["PENDING", "REQUEUE_HOLD"], "JobHeldUser", G.HELD),
        (["PENDING", "SPECIAL_EXIT"], "", G.HELD),
        (["RUNNING", "CONFIGURING"], "", G.STARTING),
        (["RUNNING"], "", G.RUNNING),
        (["COMPLETED", "COMPLETING"], "", G.ENDING),
        (["FAILED", "COMPLETING"], "", G.ENDING),
        (["NODE_FAIL"], "", G.NODE_FAILED),
        (["CANCELLED", "REVOKED"], "", G.UNKNOWN),
    ],
)
def test_job_states(said: object, reason: str, state: GangState) -> None:
    assert job_state(words(said), reason) is state


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (["idle"], N.UP),
        (["allocated"], N.UP),
        (["mixed"], N.UP),
        (["reserved"], N.UP),
        (["IDLE", "PLANNED"], N.UP),
        (["allocated", "DRAIN", "RESERVED"], N.DRAINING),
        (["IDLE", "DRAIN"], N.DRAINING),
        (["idle", "MAINTENANCE"], N.DRAINING),
        (["down"], N.DOWN),
        (["DOWN", "DRAIN"], N.DOWN),
        (["idle", "INVALID_REG"], N.DOWN),
        (["mixed", "NOT_RESPONDING"], N.UNKNOWN),
        (["MIXED", "NOT_RESPONDING", "DRAIN"], N.UNKNOWN),
        (["unknown"], N.UNKNOWN),
        (["IDLE", "POWERING_UP"], N.UNKNOWN),
        ([], N.UNKNOWN),
    ],
)
def test_node_states(said: list[str], state: NodeState) -> None:
    assert node_state(tuple(said)) is state


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0, 0),
        (768, 3),
        (15, 143),
        (9, 137),
        (None, None),
        ({"status": "SUCCESS", "return_code": 0}, 0),
        ({"status": "ERROR", "return_code": 3}, 3),
        ({"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 9, "name": "KILL"}}, 137),
        (
            {
                "status": ["ERROR"],
                "return_code": {"set": True, "infinite": False, "number": 3},
                "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
            },
            3,
        ),
        (
            {
                "status": ["SIGNALED"],
                "return_code": {"set": False, "infinite": False, "number": 0},
                "signal": {"id": {"set": True, "infinite": False, "number": 10}, "name": "USR1"},
            },
            138,
        ),
    ],
)
def test_exit_codes(value: object, code: int | None) -> None:
    assert exit_code(value) == code


def test_numbers_of_every_version() -> None:
    assert number({"set": True, "infinite": False, "number": 7}) == 7
    assert number({"set": False, "infinite": False, "number": 0}) is None
    assert number({"set": True, "infinite": True, "number": 0}) is None
    assert number(2**32 - 2) is None
    assert number(2**64 - 1) is None
    assert [number(value) for value in (5, 5.0, "5", "x", None)] == [5, 5, 5, None, None]


def wrap(value: int) -> Json:
    return {"set": True, "infinite": False, "number": value}


UNSET = {"set": False, "infinite": False, "number": 0}
ALLOCATION_40 = {
    "nodes": "n[0-1]",
    "allocated_cores": 4,
    "allocated_hosts": 2,
    "allocated_nodes": [
        {
            "nodename": name,
            "memory_allocated": 2000,
            "sockets": {"0": {"cores": {"0": "allocated", "1": "allocated", "2": "unassigned"}}},
        }
        for name in ("n0", "n1")
    ],
}
ALLOCATION_42 = {
    "select_type": ["CPU", "CORE", "MEMORY"],
    "nodes": {
        "count": 2,
        "list": "n[0-1]",
        "whole": False,
        "allocation": [
            {
                "index": index,
                "name": f"n{index}",
                "cpus": {"count": 4, "used": 0},
                "memory": {"used": 0, "allocated": 2000},
                "sockets": [{"index": 0, "cores": [{"index": 0, "status": ["ALLOCATED"]}]}],
            }
            for index in range(2)
        ],
    },
    "cpus": 8,
}


def newer_job(resources: Json, **changes: object) -> Json:
    return {
        "job_id": 7,
        "name": "mst-x-a1",
        "user_name": "mia",
        "comment": "muster:mst-x-a1",
        "job_state": ["RUNNING"],
        "state_reason": "None",
        "nodes": "n[0-1]",
        "gres_detail": ["gpu:h100:8(IDX:0-7)", "gpu:h100:8(IDX:0-7)"],
        "tres_alloc_str": "cpu=8,mem=4000M,node=2,gres/gpu=16,gres/gpu:h100=16",
        "submit_time": wrap(100),
        "start_time": wrap(110),
        "end_time": wrap(4000),
        "exit_code": {"status": ["SUCCESS"], "return_code": UNSET, "signal": {"id": UNSET}},
        "restart_cnt": 0,
        "hold": False,
        "job_resources": resources,
        **changes,
    }


@pytest.mark.parametrize("resources", [ALLOCATION_40, ALLOCATION_42])
def test_a_running_job_of_newer_versions(resources: Json) -> None:
    raw = newer_job(resources)
    row = read.controller_job(raw)
    assert (row.job_id, row.state, row.gpus, row.nodes) == (7, G.RUNNING, 16, ("n0", "n1"))
    assert (row.submitted_ms, row.started_ms, row.ended_ms) == (100_000, 110_000, None)
    used = read.usage_by_node(raw, threads=2)
    assert used == {"n0": NodeShape(8, 4, 2000), "n1": NodeShape(8, 4, 2000)}


class Asked(dict[str, Any]):
    """A row that notes which of its fields are looked at."""

    def __init__(self, row: Json) -> None:
        super().__init__(row)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


def recorded(kind: str) -> Iterator[Json]:
    """Every job or node in the recorded replies."""
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            reply = str(json.loads(line).get("reply"))  # a number: the same as in that line
            body = json.loads(reply) if reply.startswith("{") else {}
            rows = body.get(kind)
            yield from rows if isinstance(rows, list) else ()


def test_the_bulk_reading_leaves_out_no_field_that_is_looked_at() -> None:
    jobs = [Asked(row) for row in (*recorded("jobs"), newer_job(ALLOCATION_42))]
    nodes = [Asked(row) for row in recorded("nodes")]
    for job in jobs:
        read.controller_job(job)
        read.usage_by_node(job, threads=2)
    for node in nodes:
        read.node(node, Topology({}))
    for rows, decoder in ((jobs, read.JOB), (nodes, read.NODE)):
        names = set().union(*(row.names for row in rows))
        told = parsed(json.dumps({**dict.fromkeys(names, 1), "else": 1}).encode(), decoder)
        assert set(told) == names
        assert len(names) >= 10


def test_a_held_job_of_newer_versions() -> None:
    raw = newer_job({}, job_state=["PENDING"], nodes="", hold=True, start_time=wrap(999))
    row = read.controller_job(raw)
    assert (row.state, row.started_ms, row.run) == (G.HELD, None, None)


def test_usage_that_is_not_told_by_node_is_spread_and_rounded_up() -> None:
    raw = {"nodes": "n[0-2]", "tres_alloc_str": "cpu=7,mem=100M,node=3,gres/gpu=4"}
    assert read.usage_by_node(raw, threads=2) == dict.fromkeys(
        ("n0", "n1", "n2"), NodeShape(2, 3, 34)
    )


def test_a_run_in_accounting_of_newer_versions() -> None:
    row = read.accounting_job(
        {
            "job_id": 7,
            "name": "mst-x-a1",
            "association": {"user": "mia", "account": "vision"},
            "comment": {"job": "muster:mst-x-a1", "administrator": "", "system": ""},
            "state": {"current": ["NODE_FAIL"], "reason": "NodeDown"},
            "nodes": "n[0-1]",
            "time": {"submission": 100, "start": 110, "end": 170, "elapsed": 60},
            "exit_code": {"status": ["SUCCESS"], "return_code": wrap(0), "signal": {"id": UNSET}},
            "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 16}]},
        }
    )
    assert row.state is G.NODE_FAILED
    assert row.run is not None
    assert (row.run.start_ms, row.run.end_ms, row.run.gpus) == (110_000, 170_000, 16)


def test_a_node_partition_and_reservation_of_newer_versions() -> None:
    node = read.node(
        {
            "name": "n0",
            "state": ["MIXED", "DRAIN"],
            "reason": "fan",
            "features": ["h100", "leaf003"],
            "active_features": ["h100", "leaf003"],
            "partitions": ["batch", "long"],
            "gres": "gpu:h100:4,gpu:a100:2",
            "cpus": 128,
            "effective_cpus": 126,
            "real_memory": 1000,
        },
        Topology({}),
    )
    assert (node.state, node.device, node.gpus, node.cpus) == (N.DRAINING, "h100", 4, 126)
    assert (node.path, node.queues, node.reason) == (
        (("leaf", "leaf003"),),
        ("batch", "long"),
        "fan",
    )
    queue = read.queue(
        {
            "name": "batch",
            "nodes": {"configured": "n[0-3]", "total": 4},
            "partition": {"state": ["UP"]},
            "maximums": {"time": wrap(60)},
        }
    )
    assert (queue.is_open, queue.nodes, queue.max_time_s) == (True, 4, 3600)
    flat = {"name": "b", "state": "DRAIN", "total_nodes": 2, "max_time_limit": None}
    assert (read.queue(flat).is_open, read.queue(flat).max_time_s) == (False, None)
    reservation = read.reservation(
        {
            "name": "maint1",
            "node_list": "n[0-1]",
            "start_time": wrap(10),
            "end_time": UNSET,
            "flags": ["MAINT", "SPEC_NODES"],
        }
    )
    assert (reservation.nodes, reservation.start_ms) == (("n0", "n1"), 10_000)
    assert (reservation.end_ms, reservation.is_maintenance) == (2**53, True)


TREE = """
# comment SwitchName=no Nodes=n9
SwitchName=leaf0 Nodes=n[0-1]
SwitchName=leaf1 Nodes=n[2-3] LinkSpeed=9
switchname=spine0 switches=leaf[0-1]
SwitchName=core Switches=spine0
SwitchName=leaf9 Nodes=n8
"""


def test_topology_from_its_file() -> None:
    paths = parse_topology_conf(TREE, ("spine", "leaf"))
    assert paths == {
        "n0": (("spine", "spine0"), ("leaf", "leaf0")),
        "n1": (("spine", "spine0"), ("leaf", "leaf0")),
        "n2": (("spine", "spine0"), ("leaf", "leaf1")),
        "n3": (("spine", "spine0"), ("leaf", "leaf1")),
        "n8": (("leaf", "leaf9"),),
    }
    with pytest.raises(ValueError, match="above itself"):
        parse_topology_conf("SwitchName=a Switches=b\nSwitchName=b Switches=a Nodes=n1", ("x",))


def test_topology_from_features() -> None:
    options = {"tier.leaf": r"^rack\d+$", "tier.domain": r"^nvl-", "tier.spine": "^pod"}
    topology = Topology(options)
    assert topology.tiers == ("spine", "leaf", "domain")
    path = topology.path("n0", ["h100", "nvl-7", "pod2", "rack31"])
    assert path == (("spine", "pod2"), ("leaf", "rack31"), ("domain", "nvl-7"))
    assert Topology({}).path("n0", ["h100"]) == ()


def test_a_run_that_ends_before_it_starts_lasted_no_time() -> None:
    """The clock was set back meanwhile: Slurm's accounting says 0 s, and so does the bill."""
    raw = {"job_id": 5, "job_state": "COMPLETED", "nodes": "n1", "start_time": 90, "end_time": 20}
    run = read.controller_job(raw).run
    assert run is not None
    assert (run.start_ms, run.end_ms) == (90_000, 90_000)

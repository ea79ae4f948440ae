"""What is kept of a reading: everything that is read is compared, and what is gone is forgotten."""

from typing import Any

import pytest

from clusters.backends.slurm import read
from clusters.backends.slurm.memo import JOB_FIELDS, NODE_FIELDS, Memo, Readings
from clusters.backends.slurm.topology import Topology
from tests.clusters.backends.fake import connection
from tests.clusters.backends.test_backend import job


class Watched(dict[str, Any]):
    """A row that notes which of its fields were read."""

    def __init__(self, *args: Any, **values: Any) -> None:
        super().__init__(*args, **values)
        self.was_read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.was_read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.was_read.add(key)
        return super().__getitem__(key)


@pytest.mark.parametrize(
    "row",
    [
        {},
        job(1),
        job(2, "RUNNING", "None", nodes="n[0-1]", start_time=9),
        job(3, "RUNNING", "None", nodes="n0", gres_detail=["gpu:8"], job_resources={"nodes": {}}),
        job(4, "COMPLETED", "None", nodes="n0", start_time=9, end_time=12),
        job(5, "PENDING", "Priority", hold=True),
    ],
)
def test_every_field_of_a_job_that_is_read_is_compared(row: dict[str, Any]) -> None:
    watched = Watched(row)
    read.controller_job(watched)
    read.usage_by_node(watched, 2)
    assert watched.was_read <= set(JOB_FIELDS)


@pytest.mark.parametrize("row", [{}, {"name": "n0", "active_features": "leaf000", "cpus": 4}])
def test_every_field_of_a_node_that_is_read_is_compared(row: dict[str, Any]) -> None:
    watched = Watched(row)
    read.node(watched, Topology({}))
    assert watched.was_read <= set(NODE_FIELDS)


def test_a_value_is_made_again_only_where_a_field_differs_and_goes_with_its_row() -> None:
    made: list[int] = []

    def make(row: dict[str, Any]) -> int:
        made.append(row["job_id"])
        return int(row["size"]) * 10

    memo: Memo[int] = Memo("job_id", ("job_id", "size"))
    assert memo.of([{"job_id": 1, "size": 1}, {"job_id": 2, "size": 2}], make) == [10, 20]
    assert memo.of([{"job_id": 1, "size": 1, "other": 5}, {"job_id": 2, "size": 3}], make) == [
        10,
        30,
    ]
    assert made == [1, 2, 2]
    assert memo.of([{"job_id": 2, "size": 3}], make) == [30]
    assert memo.of([{"job_id": 1, "size": 1}], make) == [10]
    assert made == [1, 2, 2, 1]


def test_jobs_are_read_anew_when_the_threads_of_nodes_change() -> None:
    readings = Readings(connection())
    node = {"name": "n0", "state": "mixed", "gres": "gpu:h100:8", "threads": 1}
    cores = {"0": {"cores": {"0": "allocated", "1": "allocated"}}}
    running = job(
        1,
        "RUNNING",
        "None",
        nodes="n0",
        gres_detail=["gpu:h100:8"],
        job_resources={"allocated_nodes": [{"nodename": "n0", "sockets": cores}]},
    )
    found = []
    for threads in (1, 1, 2):
        readings.nodes([node | {"threads": threads}])
        found.append(readings.jobs([running])[0])
    assert found[0] is found[1]
    assert [seen.usage["n0"].cpus for seen in found] == [2, 2, 4]

"""What is kept of a reading: a row that differs is made anew, and what is gone is forgotten."""

import json
from typing import Any

import pytest

from clusters.backends.slurm.memo import Memo, Readings
from clusters.backends.slurm.values import only
from tests.clusters.backends.fake import connection
from tests.clusters.backends.test_backend import job


def text(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


def test_a_value_is_made_again_only_where_the_row_differs_and_goes_with_its_row() -> None:
    made: list[int] = []

    def make(row: dict[str, Any]) -> int:
        made.append(row["job_id"])
        return int(row["size"]) * 10

    def of(*sizes: tuple[int, int]) -> list[int]:
        return memo.of([text({"job_id": key, "size": size}) for key, size in sizes])

    memo = Memo(only("job_id size"), make)
    assert of((1, 1), (2, 2)) == [10, 20]
    assert of((1, 1), (2, 3)) == [10, 30]
    assert made == [1, 2, 2]
    assert of((2, 3)) == [30]
    assert of((1, 1)) == [10]
    assert made == [1, 2, 2, 1]


def test_what_is_kept_survives_a_row_that_nobody_can_read() -> None:
    made: list[int] = []

    def make(row: dict[str, Any]) -> int:
        made.append(row["job_id"])
        return int(row["job_id"])

    memo = Memo(only("job_id size"), make)
    memo.of([text({"job_id": 1})])
    with pytest.raises(ValueError, match="x"):
        memo.of([text({"job_id": 1}), text({"job_id": "x"})])
    assert memo.of([text({"job_id": 1})]) == [1]
    assert made == [1, "x"]


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
        readings.nodes([text(node | {"threads": threads})])
        found.append(readings.jobs([text(running)])[0])
    assert found[0] is found[1]
    assert [seen.usage["n0"].cpus for seen in found] == [2, 2, 4]

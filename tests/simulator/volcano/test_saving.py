"""The state file: a cluster that starts again knows its objects, and what ran goes on."""

from pathlib import Path

import pytest

from simulator.config import ConfigError
from simulator.volcano.cluster import VolcanoCluster
from tests.simulator.volcano.harness import JOBS, PODS, Lab, lab_cluster
from tests.simulator.volcano.test_life import recorded_gang


def phases(lab: Lab) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in lab.get(PODS)["items"])


def test_what_ran_goes_on_and_ends_when_it_would_have(tmp_path: Path) -> None:
    path = str(tmp_path / "volc.json")
    first = Lab(lab_cluster(state_file=path))
    job = recorded_gang()
    first.post(JOBS, job)
    first.wait(4)
    assert phases(first) == ["Running"] * 4
    first.cluster.save()
    known = {node["metadata"]["uid"] for node in first.get("/api/v1/nodes")["items"]}
    again = Lab(lab_cluster(state_file=path, start_ms=first.cluster.now_ms()))
    assert {node["metadata"]["uid"] for node in again.get("/api/v1/nodes")["items"]} == known
    assert phases(again) == ["Running"] * 4
    again.wait(8)
    first.wait(8)
    assert phases(again) == phases(first)
    assert phases(first) != ["Running"] * 4


def test_versions_of_before_are_too_old(tmp_path: Path) -> None:
    path = str(tmp_path / "volc.json")
    first = Lab(lab_cluster(state_file=path))
    version = first.get(JOBS)["metadata"]["resourceVersion"]
    first.cluster.save()
    again = Lab(lab_cluster(state_file=path))
    answer = again.client.get(f"{JOBS}?watch=true&resourceVersion={version}&timeoutSeconds=1")
    assert "410" in answer.text or answer.status_code == 410
    assert int(again.get(JOBS)["metadata"]["resourceVersion"]) > int(version)


def test_a_reset_forgets_the_file(tmp_path: Path) -> None:
    lab = Lab(lab_cluster(state_file=str(tmp_path / "volc.json")))
    lab.post(JOBS, recorded_gang())
    lab.cluster.save()
    lab.cluster.reset()
    assert lab.get(JOBS)["items"] == []


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "volc.json"
    path.write_text('{"world": 1}')
    with pytest.raises(ConfigError, match="not a state file"):
        VolcanoCluster(lab_cluster(state_file=str(path)))

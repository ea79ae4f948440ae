"""Nodes that are cordoned, silent or gone, and what becomes of gangs on them: recording 09."""

import pytest

from tests.simulator.volcano.harness import ABORT, JOBS, NODES, PODS, Lab, gang, pinned


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_a_cordon_keeps_new_pods_away(lab: Lab) -> None:
    lab.post(JOBS, gang("o-f", pinned(0, grace=1)))
    lab.wait(3)
    lab.merge(f"{NODES}/volc-n000", {"spec": {"unschedulable": True}})
    lab.wait(2)
    assert lab.phase("o-f") == "Running"
    lab.call("DELETE", f"{PODS}/o-f-w-0")
    lab.wait(3)
    assert lab.why("o-f").endswith(
        "0/16 nodes are unavailable: 1 node(s) were unschedulable, 15 node(s) didn't match Pod's "
        "node affinity/selector."
    )
    lab.merge(f"{NODES}/volc-n000", {"spec": {"unschedulable": None}})
    lab.wait(2)
    assert lab.phase("o-f") == "Running"


def ready(lab: Lab, name: str) -> str:
    return str(lab.get(f"{NODES}/{name}")["status"]["conditions"][0]["status"])


def test_a_silent_kubelet_is_noticed_late_and_its_pod_stays(lab: Lab) -> None:
    work = pinned(4, 5, 6)
    work["template"]["spec"]["tolerations"] = [
        {
            "key": "node.kubernetes.io/unreachable",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 10,
        }
    ]
    lab.post(JOBS, gang("o-a", work, policies=ABORT))
    lab.wait(3)
    lab.control("nodes/silent", nodes="volc-n[004]")
    lab.wait(40)
    assert ready(lab, "volc-n004") == "True"
    lab.wait(6)
    assert ready(lab, "volc-n004") == "Unknown"
    assert lab.job("o-a")["status"]["running"] == 3
    lab.wait(12)
    status = lab.job("o-a")["status"]
    assert (status["state"]["phase"], status["running"], status["terminating"]) == ("Running", 2, 1)
    lab.command("AbortJob", "o-a")
    lab.wait(10)
    assert lab.phase("o-a") == "Aborting"
    (stuck,) = lab.pods("o-a")
    assert stuck["status"]["conditions"][-1]["reason"] == "DeletionByTaintManager"
    name = stuck["metadata"]["name"]
    lab.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    assert lab.phase("o-a") == "Aborted"
    lab.post(JOBS, gang("o-pin", pinned(4)))
    lab.wait(3)
    assert "1 node(s) had untolerated taint(s), 15 node(s)" in lab.why("o-pin")
    lab.control("nodes/speak", nodes="volc-n[004]")
    lab.wait(2)
    assert ready(lab, "volc-n004") == "True"
    assert lab.phase("o-pin") == "Running"


def test_by_default_eviction_takes_five_minutes_more(lab: Lab) -> None:
    lab.post(JOBS, gang("o-a", pinned(4, 5), policies=ABORT))
    lab.wait(3)
    lab.control("nodes/silent", nodes="volc-n[004]")
    lab.wait(340)
    assert lab.phase("o-a") == "Running"
    assert "terminating" not in lab.job("o-a")["status"]
    lab.wait(10)
    assert lab.job("o-a")["status"]["terminating"] == 1


def test_the_pods_of_a_deleted_node_fail(lab: Lab) -> None:
    lab.post(JOBS, gang("o-c", pinned(13, 14, 15), policies=ABORT))
    lab.wait(3)
    assert lab.call("DELETE", f"{NODES}/volc-n014").status_code == 200
    lab.wait(30)
    assert lab.phase("o-c") == "Running"
    lab.wait(20)
    assert lab.phase("o-c") == "Aborted"
    assert lab.pods("o-c") == []

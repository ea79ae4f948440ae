"""Who starts where, who waits and with what words: recordings 04, 05, 09, 11, 12."""

from typing import Any

import pytest

from tests.simulator.volcano.harness import (
    EVENTS,
    GROUPS,
    JOBS,
    PODS,
    QUEUES,
    Lab,
    gang,
    pinned,
    recording,
    task,
)

HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


@pytest.fixture
def lab() -> Lab:
    return Lab()


def taken(lab: Lab, *numbers: int) -> None:
    """Somebody else has these nodes."""
    lab.post(JOBS, gang("taken", pinned(*numbers), minAvailable=len(numbers)))
    lab.wait(3)
    assert lab.phase("taken") == "Running"


def hard(tier: int) -> dict[str, Any]:
    return {"mode": "hard", "highestTierAllowed": tier}


def test_a_queue_that_is_full_keeps_the_second_gang_out(lab: Lab) -> None:
    lab.post(JOBS, gang("two-a1", task(replicas=10, run_for="10s")))
    lab.post(JOBS, gang("two-a2", task(replicas=10, run_for="10s")))
    lab.wait(6)
    told = recording("04-two-gangs-exceed-capacity")["facts"]["a: waiting job"]
    assert lab.phase("two-a1") == "Running"
    waiting = lab.job("two-a2")["status"]
    assert set(waiting) == set(told["job status"])
    assert lab.group("two-a2")["status"] == told["podgroup status"]
    assert lab.pods("two-a2") == []
    events = [
        (e["type"], e["message"])
        for e in lab.get(EVENTS)["items"]
        if e["involvedObject"]["name"].startswith("two-a2")
    ]
    assert sorted(events) == [
        ("Normal", "queue resource quota insufficient: insufficient nvidia.com/gpu"),
        ("Warning", "0/0 tasks in gang unschedulable: pod group is not ready, 10 minAvailable"),
    ]
    lab.wait(9)
    assert lab.phase("two-a2") == "Running"


def test_without_capability_the_second_gang_waits_with_its_pods(lab: Lab) -> None:
    for name in ("two-b1", "two-b2"):
        lab.post(JOBS, gang(name, task(replicas=10, run_for="10s"), queue="team-s"))
    lab.wait(4)
    told = recording("04-two-gangs-exceed-capacity")["facts"]["b: waiting job"]
    group = lab.group("two-b2")["status"]
    assert group["phase"] == "Inqueue"
    assert lab.why("two-b2") == told["podgroup status"]["conditions"][0]["message"]
    status = lab.job("two-b2")["status"]
    assert status["taskStatusCount"] == told["job status"]["taskStatusCount"]
    messages = [p["status"]["conditions"][0]["message"] for p in lab.pods("two-b2")]
    assert sum(m.startswith("0/16 nodes are unavailable: ") for m in messages) == 4
    assert sum("can possibly be assigned to" in m for m in messages) == 6
    lab.wait(10)
    assert lab.phase("two-b2") == "Running"


def test_priority_goes_first(lab: Lab) -> None:
    taken(lab, *range(16))
    lab.post(JOBS, gang("low", task(replicas=10), queue="team-s"))
    lab.post(JOBS, gang("high", task(replicas=10), queue="team-s", priorityClassName="high"))
    lab.wait(2)
    lab.call("DELETE", f"{JOBS}/taken")
    lab.wait(5)
    assert (lab.phase("high"), lab.phase("low")) == ("Running", "Pending")


GANG = "tasks in gang unschedulable: pod group is not ready, "
NEVER = [
    (
        gang("n-a", task(replicas=17), queue="team-s"),
        f"17/17 {GANG}1 Pending, 16 Pipelined, 17 minAvailable; Pending: 1 Unschedulable. Origin "
        "reason is n-a-w-16: 0/16 nodes are unavailable: 16 Insufficient nvidia.com/gpu.",
    ),
    (
        gang("n-c", task(replicas=5), networkTopology=hard(1)),
        f"5/5 {GANG}5 Pending, 5 minAvailable; Pending: 5 Unschedulable",
    ),
    (
        gang("n-d", task(replicas=1, gpus=16)),
        f"1/1 {GANG}1 Pending, 1 minAvailable; Pending: 1 Unschedulable. Origin reason is n-d-w-0: "
        "0/16 nodes are unavailable: 16 Insufficient nvidia.com/gpu.",
    ),
    (
        gang("n-g", task(replicas=2), networkTopology=hard(0)),
        f"2/2 {GANG}2 Pending, 2 minAvailable; Pending: 2 Unschedulable",
    ),
]


@pytest.mark.parametrize(("job", "words"), NEVER)
def test_what_never_fits(lab: Lab, job: dict[str, Any], words: str) -> None:
    lab.post(JOBS, job)
    lab.wait(4)
    name = job["metadata"]["name"]
    assert lab.phase(name) == "Pending"
    assert lab.group(name)["status"]["phase"] == "Inqueue"
    assert lab.why(name) == words


def test_a_selector_without_a_match(lab: Lab) -> None:
    work = task(replicas=2)
    work["template"]["spec"]["nodeSelector"] = {"leaf": "none"}
    lab.post(JOBS, gang("n-e", work))
    lab.post(JOBS, gang("n-f", work, networkTopology=hard(1)))
    lab.wait(4)
    reason = "4 node(s) didn't match Pod's node affinity/selector."
    assert lab.why("n-e").endswith(
        f"Origin reason is n-e-w-0: 0/16 nodes are unavailable: 1{reason.replace('4', '6', 1)}"
    )
    assert f"In hyperNode leaf000: 0/4 nodes are unavailable: {reason}" in lab.why("n-f")


def test_gates_hold_pods(lab: Lab) -> None:
    work = task(replicas=2)
    work["template"]["spec"]["schedulingGates"] = [{"name": "wait"}]
    lab.post(JOBS, gang("n-j", work))
    lab.wait(4)
    assert lab.pods("n-j")[0]["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert lab.why("n-j") == f"2/2 {GANG}2 Pending, 2 minAvailable; Pending: 2 Unschedulable"


@pytest.mark.parametrize(
    "bound", [hard(5), {"mode": "hard", "highestTierName": "nope"}, {"mode": "soft"}]
)
def test_bounds_that_bind_nothing(lab: Lab, bound: dict[str, Any]) -> None:
    lab.post(JOBS, gang("n-h", task(replicas=5), networkTopology=bound))
    lab.wait(4)
    assert lab.phase("n-h") == "Running"


def test_a_hard_tier_takes_a_leaf_that_holds_the_gang(lab: Lab) -> None:
    taken(lab, 0, 5, 6, 8, 9, 10)
    lab.post(JOBS, gang("a", task(replicas=3), networkTopology=hard(1)))
    lab.wait(3)
    assert lab.nodes_of("a") == ["001", "002", "003"]
    lab.post(JOBS, gang("b", task(replicas=4), networkTopology={"mode": "soft"}))
    lab.wait(3)
    assert lab.nodes_of("b") == ["012", "013", "014", "015"]


def test_a_hard_tier_waits_for_a_leaf(lab: Lab) -> None:
    taken(lab, 0, 4, 8, 12)
    lab.post(JOBS, gang("a", task(), networkTopology=hard(1)))
    lab.post(JOBS, gang("b", task(), networkTopology={"mode": "soft"}))
    lab.wait(4)
    assert lab.why("a") == f"4/4 {GANG}4 Pending, 4 minAvailable; Pending: 4 Unschedulable"
    assert lab.phase("b") == "Running"


def test_partitions_land_each_on_one_leaf(lab: Lab) -> None:
    parts = {"totalPartitions": 4, "partitionSize": 3, "networkTopology": hard(1)}
    work = {**task("n", 12), "partitionPolicy": parts}
    taken(lab, 0)
    lab.post(JOBS, gang("t-p", work, networkTopology=hard(2)))
    lab.wait(3)
    leaves: dict[str, set[int]] = {}
    for pod in lab.pods("t-p"):
        part = pod["metadata"]["labels"]["volcano.sh/partition-id"]
        leaves.setdefault(part, set()).add(int(pod["spec"]["nodeName"][-3:]) // 4)
    assert sorted(leaves) == ["0", "1", "2", "3"]
    assert all(len(found) == 1 for found in leaves.values())
    (policy,) = lab.group("t-p")["spec"]["subGroupPolicy"]
    assert (policy["subGroupSize"], policy["minSubGroups"]) == (3, 4)


def test_partitions_wait_as_a_whole(lab: Lab) -> None:
    parts = {"totalPartitions": 4, "partitionSize": 3, "networkTopology": hard(1)}
    taken(lab, 0, 1)
    lab.post(JOBS, gang("t-p", {**task("n", 12), "partitionPolicy": parts}))
    lab.wait(4)
    assert lab.nodes_of("t-p") == ["-"] * 12


def test_pinned_gangs_land_exactly_there(lab: Lab) -> None:
    lab.post(JOBS, gang("t-pin", pinned(1, 6, 11, 12)))
    lab.wait(3)
    assert lab.nodes_of("t-pin") == ["001", "006", "011", "012"]


def test_a_pinned_gang_waits_as_a_whole_and_then_starts(lab: Lab) -> None:
    lab.post(JOBS, gang("one", pinned(6, run_for="6s")))
    lab.wait(3)
    lab.post(JOBS, gang("t-pin2", pinned(1, 6, 11, 12)))
    lab.wait(3)
    assert lab.nodes_of("t-pin2") == ["-"] * 4
    assert lab.why("t-pin2") == (
        f"4/4 {GANG}1 Pending, 3 Pipelined, 4 minAvailable; Pending: 1 Unschedulable. Origin "
        "reason is t-pin2-w-3: 0/16 nodes are unavailable: 12 node(s) didn't match Pod's node "
        "affinity/selector, 4 Insufficient nvidia.com/gpu."
    )
    lab.wait(3)
    assert lab.nodes_of("t-pin2") == ["001", "006", "011", "012"]


def test_pinning_across_leaves_under_a_hard_tier_never_starts(lab: Lab) -> None:
    lab.post(JOBS, gang("t-pin3", pinned(1, 6, 11, 12), networkTopology=hard(1)))
    lab.wait(5)
    assert lab.nodes_of("t-pin3") == ["-"] * 4
    assert "In hyperNode leaf0" in lab.why("t-pin3")


def test_one_task_a_pod_with_its_own_selector(lab: Lab) -> None:
    tasks = []
    for number, node in enumerate([15, 2, 9, 4]):
        made = task(f"w{number}", 1)
        made["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"volc-n{node:03d}"}
        tasks.append(made)
    lab.post(JOBS, gang("t-pin5", *tasks))
    lab.wait(3)
    found = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in lab.pods("t-pin5")}
    assert found["t-pin5-w0-0"] == "volc-n015"
    assert found["t-pin5-w2-0"] == "volc-n009"


def test_hypernodes_count_their_direct_members(lab: Lab) -> None:
    status = {h["metadata"]["name"]: h["status"] for h in lab.get(HYPERNODES)["items"]}
    assert status["leaf000"] == status["spine0"] == {"nodeCount": 4}
    member = {"type": "Node", "selector": {"exactMatch": {"name": "nope"}}}
    lab.post(HYPERNODES, {"metadata": {"name": "x"}, "spec": {"tier": 1, "members": [member]}})
    assert lab.get(f"{HYPERNODES}/x")["status"] == {"nodeCount": 1}


def test_queues_show_what_is_allocated(lab: Lab) -> None:
    lab.post(JOBS, gang("a", task(replicas=2), queue="small"))
    lab.wait(4)
    for name in ("small", "root"):
        assert lab.get(f"{QUEUES}/{name}")["status"]["allocated"]["nvidia.com/gpu"] == "16"
    lab.call("DELETE", f"{JOBS}/a")
    lab.wait(4)
    assert "nvidia.com/gpu" not in lab.get(f"{QUEUES}/small")["status"]["allocated"]


def test_a_queue_is_closed_and_opened(lab: Lab) -> None:
    lab.post(JOBS, gang("q-run", task(replicas=2, run_for="5s"), queue="small"))
    lab.post(JOBS, gang("q-wait", task(replicas=2, run_for="5s"), queue="small"))
    lab.wait(3)
    lab.command("CloseQueue", "small", kind="Queue")
    assert lab.get(f"{QUEUES}/small")["status"]["state"] == "Closing"
    answer = lab.call("POST", JOBS, gang("q-new", queue="small"))
    assert answer.status_code == 400
    assert answer.json()["message"].endswith(
        "can only submit job to queue with state `Open`, queue `small` status is `Closing`;"
    )
    lab.wait(6)
    assert (lab.phase("q-run"), lab.phase("q-wait")) == ("Completed", "Pending")
    lab.command("OpenQueue", "small", kind="Queue")
    lab.wait(3)
    assert lab.phase("q-wait") == "Running"
    lab.command("CloseQueue", "team-s", kind="Queue")
    assert lab.get(f"{QUEUES}/team-s")["status"]["state"] == "Closed"


def test_a_queue_that_is_deleted_leaves_its_jobs(lab: Lab) -> None:
    lab.post(JOBS, gang("q-run", task(replicas=2), queue="small"))
    lab.post(JOBS, gang("q-wait", task(replicas=2), queue="small"))
    lab.wait(4)
    assert lab.call("DELETE", f"{QUEUES}/small").status_code == 200
    lab.command("AbortJob", "q-run")
    lab.wait(6)
    assert (lab.phase("q-run"), lab.phase("q-wait")) == ("Aborted", "Pending")


def test_pods_of_others_hold_their_nodes(lab: Lab) -> None:
    amounts = {"nvidia.com/gpu": "8"}
    container = {"name": "c", "image": "i", "resources": {"limits": amounts}}
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [container]}}
    lab.post(PODS, pod)
    binding = {"target": {"kind": "Node", "name": "volc-n000"}}
    assert lab.post(f"{PODS}/x/binding", binding)["status"] == "Success"
    answer = lab.call("POST", f"{PODS}/x/binding", binding)
    assert answer.status_code == 409
    assert answer.json()["message"] == (
        'Operation cannot be fulfilled on pods/binding "x": pod x is already assigned to node '
        '"volc-n000"'
    )
    lab.post(JOBS, gang("a", task(replicas=15)))
    lab.wait(3)
    assert "000" not in lab.nodes_of("a")
    assert lab.get(f"{QUEUES}/root")["status"]["allocated"]["nvidia.com/gpu"] == "120"
    assert len(lab.get(GROUPS)["items"]) == 1


def test_a_scheduler_that_is_down(lab: Lab) -> None:
    lab.control("scheduling/pause")
    lab.post(JOBS, gang("a"))
    lab.wait(10)
    assert (lab.phase("a"), "status" in lab.group("a")) == ("Pending", False)
    lab.control("scheduling/resume")
    lab.wait(3)
    assert lab.phase("a") == "Running"

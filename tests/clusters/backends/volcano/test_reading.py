"""A whole listing as one observation."""

from typing import Any

from clusters.backends.volcano.foreign import foreign_load
from clusters.core.observation import GangState, QueueSeen
from tests.clusters.backends.volcano.listed import Lists, fresh, observation
from tests.clusters.backends.volcano.test_attempt import GROUP, NODES, at_ms, job, pod
from tests.clusters.backends.volcano.test_fleet import exact, hyper, node

OURS = {"muster/fence": "mst-f-a1", "muster/mark": "muster"}


def marked(thing: dict[str, Any], uid: str = "5b529b2f", **labels: str) -> dict[str, Any]:
    meta = {"namespace": "team", **thing["metadata"], "uid": uid, "labels": {**OURS, **labels}}
    return {**thing, "metadata": meta}


def ours(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [marked(pod(number, **more), f"pod-{number}") for number in numbers]


def queue(name: str, state: str = "Open", parent: str = "root") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"state": state}}


def bare(name: str, node_name: str = "", phase: str = "Running", **more: Any) -> dict[str, Any]:
    requests = {"nvidia.com/gpu": more.get("gpus", 0), "cpu": more.get("cpu", "100m")}
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": requests}}]}
    spec |= {"nodeName": node_name} if node_name else {}
    spec["initContainers"] = [{"resources": {"requests": {"cpu": more.get("first", "0")}}}]
    meta: dict[str, Any] = {"name": name, "uid": name}
    if "owner" in more:
        meta["ownerReferences"] = [{"uid": more["owner"]}]
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def lists(**given: list[dict[str, Any]]) -> Lists:
    spine = hyper("spine", 2, exact("HyperNode", "leaf003"))
    kept: dict[str, list[dict[str, Any]]] = {
        "nodes": [node(name) for name in NODES],
        "hypernodes": [hyper("leaf003", 1, *(exact("Node", name) for name in NODES)), spine],
        "queues": [queue("root", parent=""), queue("acme"), queue("acme-g", parent="acme"),
                   queue("shut", "Closed")],
        "jobs": [marked(job("Running"))],
        "groups": [],
        "pods": ours(0, 1, 2, 3),
    }  # fmt: skip
    return Lists(**{**kept, **given})


def test_nodes_queues_gangs_and_what_is_none_of_ours() -> None:
    stranger = marked(job("Running"), "other", **{"muster/mark": "another-muster"})
    ended = marked(job("Completed"), "third", **{"muster/mark": "x"})
    stranger["metadata"]["name"], ended["metadata"]["name"] = "mst-other-a1", "mst-third-a1"
    whole = lists(
        jobs=[marked(job("Running")), stranger, ended],
        pods=[*ours(0, 1, 2, 3), bare("b", NODES[0], gpus=2)],
    )
    seen = observation(whole, fresh(), begun_ms=5, cluster_ms=at_ms(20))
    assert (seen.begun_ms, seen.cluster_ms, seen.accounting_answered) == (5, at_ms(20), True)
    assert [one.path for one in seen.nodes] == [(("spine", "spine"), ("leaf", "leaf003"))] * 4
    assert seen.queues == (QueueSeen("acme-g", True, 4, None), QueueSeen("shut", False, 4, None))
    assert {one.queues for one in seen.nodes} == {("acme-g", "shut")}
    assert [(one.fence, one.state, one.nodes) for one in seen.gangs] == [
        ("mst-f-a1", GangState.RUNNING, NODES)
    ]
    assert [one.backend_id for one in seen.namesakes] == ["other"]
    assert seen.foreign.gpus == {NODES[0]: 2}


def test_a_waiting_gang_says_what_its_podgroup_says() -> None:
    group = {**GROUP, "metadata": {"name": "pg", "ownerReferences": [{"uid": "5b529b2f"}]}}
    whole = lists(jobs=[marked(job("Pending"))], groups=[group], pods=[])
    (gang,) = observation(whole, fresh(), begun_ms=0, cluster_ms=0).gangs
    assert (gang.state, "unschedulable" in gang.reason) == (GangState.PENDING, True)


def test_a_pod_that_was_killed_is_remembered_while_its_job_is_there() -> None:
    pods = fresh()
    observation(lists(), pods, begun_ms=0, cluster_ms=at_ms(5))
    leaving = lists(jobs=[marked(job("Aborting"))], pods=ours(1, leaves=True))
    (gang,) = observation(leaving, pods, begun_ms=0, cluster_ms=at_ms(7)).gangs
    assert gang.state is GangState.ENDING
    over = lists(jobs=[marked(job("Aborted", 9))], pods=[])
    for now in (9, 11):  # seen again later, it was gone as soon as before
        (gang,) = observation(over, pods, begun_ms=0, cluster_ms=at_ms(now)).gangs
        assert gang.state is GangState.CANCELLED
        assert [(run.start_ms, run.end_ms, run.gpus) for run in gang.runs] == [
            (at_ms(1), at_ms(9), 32)
        ]
    observation(lists(jobs=[], pods=[]), pods, begun_ms=0, cluster_ms=at_ms(12))
    (gang,) = observation(over, pods, begun_ms=0, cluster_ms=at_ms(13)).gangs
    assert gang.runs == ()  # the pods went with the job


def test_foreign_load_of_any_kind() -> None:
    seen = foreign_load(
        [
            bare("one", "n0", gpus=1),
            bare("two", "n0", gpus=1, owner="k8s-job"),
            bare("three", "n1", gpus=1, owner="k8s-job", cpu="950m"),
            bare("daemon", "n1", first="2"),
            bare("over", "n1", "Succeeded", gpus=8),
            bare("waits", phase="Pending", gpus=4),
            bare("waits too", phase="Pending", gpus=4, owner="vcjob"),
            bare("small", phase="Pending"),
        ]
    )
    assert seen.gpus == {"n0": 2, "n1": 1}
    assert seen.cpus == {"n0": 1, "n1": 3}  # 0.95 + 2 (before the first container starts)
    assert (seen.running, seen.pending, seen.pending_gpus) == (2, 2, 8)
    assert foreign_load([]).gpus == {}

"""The played kubelets of the lab: nodes get ready, pods that are bound run and end as told."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.live.kubernetes.lab import Json, eventually, make, path_of

pytestmark = pytest.mark.live
MERGE = {"content-type": "application/merge-patch+json"}


@contextmanager
def added(admin: httpx.Client) -> Iterator[str]:
    """The name of a node of 8 GPUs that is ready."""
    made = make(admin, {"apiVersion": "v1", "kind": "Node", "metadata": {"generateName": "n-"}})
    name = str(made["metadata"]["name"])
    address = f"{path_of('Node')}/{name}"
    have = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "900Gi", "pods": "110"}
    patch = {"status": {"capacity": have, "allocatable": have}}
    assert admin.patch(f"{address}/status", json=patch, headers=MERGE).status_code == 200
    eventually(lambda: ready(admin.get(address).json()), "the node is ready")
    yield name
    admin.delete(address)


@pytest.fixture(scope="module")
def node(admin: httpx.Client) -> Iterator[str]:
    with added(admin) as name:
        yield name


@pytest.fixture
def other_node(admin: httpx.Client) -> Iterator[str]:
    with added(admin) as name:
        yield name


def ready(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def run(admin: httpx.Client, namespace: str, node: str, label: str = "", **told: str) -> str:
    """A pod bound to the node, which its kubelet plays as told; its address."""
    resources = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}
    container = {"name": "train", "image": "train:1", "resources": resources}
    notes = {f"muster-sim/{key.replace('_', '-')}": value for key, value in told.items()}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "p-", "annotations": notes, "labels": {"app": label}},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "schedulerName": "volcano",
            "terminationGracePeriodSeconds": 1,
        },
    }
    made = make(admin, pod, namespace)
    address = f"{path_of('Pod', namespace)}/{made['metadata']['name']}"
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": made["metadata"]["name"]},
    }
    bound = admin.post(f"{address}/binding", json={**binding, "target": target})
    assert bound.status_code == 201, bound.text
    return address


def until(admin: httpx.Client, pod: str, phase: str) -> Json:
    """The pod's one container when the pod is in the phase."""
    eventually(lambda: admin.get(pod).json()["status"]["phase"] == phase, f"the pod is {phase}")
    (container,) = admin.get(pod).json()["status"]["containerStatuses"]
    return dict(container["state"])


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_runs_and_ends(
    admin: httpx.Client, namespace: str, node: str, code: str, phase: str
) -> None:
    pod = run(admin, namespace, node, run_for="2s", exit_code=code)
    assert "startedAt" in until(admin, pod, "Running")["running"]
    ended = until(admin, pod, phase)["terminated"]
    assert ended["exitCode"] == int(code)
    assert ended["startedAt"] < ended["finishedAt"]


def test_a_pod_whose_image_is_missing_never_starts(
    admin: httpx.Client, namespace: str, node: str
) -> None:
    pod = run(admin, namespace, node, image="missing")
    eventually(lambda: "containerStatuses" in admin.get(pod).json()["status"], "it is told")
    assert until(admin, pod, "Pending")["waiting"]["reason"] == "ImagePullBackOff"


def test_a_deleted_pod_takes_its_grace(admin: httpx.Client, namespace: str, node: str) -> None:
    pod = run(admin, namespace, node)
    until(admin, pod, "Running")
    assert "deletionTimestamp" in admin.delete(pod).json()["metadata"]
    eventually(lambda: admin.get(pod).status_code == 404, "the pod is gone")


def test_a_disruption_budget_refuses_an_eviction(
    admin: httpx.Client, namespace: str, node: str
) -> None:
    pod = run(admin, namespace, node, label="held")
    until(admin, pod, "Running")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "hold"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}},
    }
    make(admin, budget, namespace)
    counted = f"{path_of('PodDisruptionBudget', namespace)}/hold"
    eventually(
        lambda: admin.get(counted).json()["status"].get("currentHealthy") == 1, "it is counted"
    )
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.rpartition("/")[2]},
    }
    refused = admin.post(f"{pod}/eviction", json=eviction)
    assert (refused.status_code, refused.json()["reason"]) == (429, "TooManyRequests")
    assert refused.json()["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    (cause,) = refused.json()["details"]["causes"]
    assert cause["message"] == (
        "The disruption budget hold needs 1 healthy pods and has 1 currently"
    )
    admin.delete(counted)
    evicted = admin.post(f"{pod}/eviction", json=eviction)
    assert (evicted.status_code, evicted.json()["status"]) == (201, "Success")


def test_a_node_that_is_not_ready_is_tainted(
    admin: httpx.Client, node: str, other_node: str
) -> None:
    """Only while another one is ready: with none left, the cluster doubts its own eyes."""
    address = f"{path_of('Node')}/{node}"
    down = {"metadata": {"annotations": {"muster-sim/down": "true"}}}
    assert admin.patch(address, json=down, headers=MERGE).status_code == 200
    conditions = admin.get(address).json()["status"]["conditions"]
    for one in conditions:
        if one["type"] == "Ready":
            one.update(status="False", reason="KubeletNotReady")
    told = {"status": {"conditions": conditions}}
    assert admin.patch(f"{address}/status", json=told, headers=MERGE).status_code == 200

    def taints() -> set[tuple[str, str]]:
        found = admin.get(address).json()["spec"].get("taints", [])
        return {(taint["key"], taint["effect"]) for taint in found}

    eventually(lambda: ("node.kubernetes.io/not-ready", "NoExecute") in taints(), "it is tainted")
    up = {"metadata": {"annotations": {"muster-sim/down": None}}}
    assert admin.patch(address, json=up, headers=MERGE).status_code == 200
    eventually(lambda: not taints(), "it is ready again and without a taint")

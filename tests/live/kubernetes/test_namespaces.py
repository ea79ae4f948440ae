"""What a namespace refuses, and how what a job owns goes with it."""

from collections.abc import Iterator

import httpx
import pytest

from tests.live.kubernetes.lab import Json, eventually, make, path_of
from tests.live.kubernetes.refusals import job, template, whole

pytestmark = pytest.mark.live
MERGE = {"content-type": "application/merge-patch+json"}


def pod_of(owner: Json, name: str) -> Json:
    """A pod that a job owns, as Volcano's controllers make them."""
    reference = {key: owner[key] for key in ("apiVersion", "kind")}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    owners = [{**reference, "controller": True, "blockOwnerDeletion": True}]
    spec = {**template()["spec"], "schedulerName": "volcano"}
    metadata = {"name": name, "ownerReferences": owners, "finalizers": ["muster.test/hold"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def release(admin: httpx.Client, pod: str) -> None:
    """Let a pod go that a finalizer holds, as the end of its grace would."""
    freed = admin.patch(pod, json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert freed.status_code == 200, freed.text


@pytest.fixture
def owned(admin: httpx.Client, namespace: str) -> Iterator[tuple[str, str]]:
    """Addresses of a job and of its pod, which is slow to go."""
    owner = make(admin, whole("Job", job(), name="own"), namespace)
    make(admin, pod_of(owner, "own-w-0"), namespace)
    address, pod = f"{path_of('Job', namespace)}/own", f"{path_of('Pod', namespace)}/own-w-0"
    yield address, pod
    if admin.get(pod).status_code == 200:
        release(admin, pod)
        admin.delete(pod)
    eventually(lambda: admin.get(pod).status_code == 404, "the pod is gone")


def delete(admin: httpx.Client, address: str, policy: str) -> Json:
    answer = admin.request("DELETE", address, json={"propagationPolicy": policy})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def is_going(admin: httpx.Client, address: str) -> bool:
    return "deletionTimestamp" in admin.get(address).json()["metadata"]


def test_deleted_in_the_background_a_job_is_gone_before_its_pods(
    admin: httpx.Client, owned: tuple[str, str]
) -> None:
    address, pod = owned
    assert delete(admin, address, "Background")["kind"] == "Status"
    assert admin.get(address).status_code == 404
    eventually(lambda: is_going(admin, pod), "its pod is told to go")


def test_deleted_in_the_foreground_a_job_keeps_its_name_until_its_pods_are_gone(
    admin: httpx.Client, owned: tuple[str, str], namespace: str
) -> None:
    address, pod = owned
    told = delete(admin, address, "Foreground")["metadata"]
    assert told["finalizers"] == ["foregroundDeletion"]
    eventually(lambda: is_going(admin, pod), "its pod is told to go")
    again = admin.post(path_of("Job", namespace), json=whole("Job", job(), name="own"))
    assert again.status_code == 409
    assert again.json()["message"].startswith("object is being deleted: ")
    release(admin, pod)
    eventually(lambda: admin.get(address).status_code == 404, "the job is gone")


def test_orphaned_pods_stay(admin: httpx.Client, owned: tuple[str, str]) -> None:
    address, pod = owned
    delete(admin, address, "Orphan")
    eventually(lambda: admin.get(address).status_code == 404, "the job is gone")
    kept = admin.get(pod).json()["metadata"]
    assert "deletionTimestamp" not in kept
    assert "ownerReferences" not in kept


def test_a_namespace_that_is_missing(admin: httpx.Client) -> None:
    answer = admin.post(path_of("Job", "nope"), json=whole("Job", job()))
    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")
    assert answer.json()["message"] == 'namespaces "nope" not found'


def test_a_namespace_that_is_going(admin: httpx.Client) -> None:
    made = make(
        admin,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "going-"}},
    )
    name = made["metadata"]["name"]
    held = make(admin, whole("Job", job(), name="held", finalizers=["muster.test/hold"]), name)
    assert admin.delete(f"{path_of('Namespace')}/{name}").status_code == 200
    answer = admin.post(path_of("Job", name), json=whole("Job", job()))
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert answer.json()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    assert "because it is being terminated" in answer.json()["message"]
    address = f"{path_of('Job', name)}/{held['metadata']['name']}"
    admin.patch(address, json={"metadata": {"finalizers": None}}, headers=MERGE)


def test_a_quota_refuses_a_pod_in_words(admin: httpx.Client, namespace: str) -> None:
    hard = {"requests.nvidia.com/gpu": "1"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": hard},
    }
    make(admin, quota, namespace)
    address = f"{path_of('ResourceQuota', namespace)}/few"
    eventually(
        lambda: admin.get(address).json()["status"].get("hard") == hard, "the quota is in force"
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "greedy"},
        "spec": {**template()["spec"]},
    }
    answer = admin.post(path_of("Pod", namespace), json=pod)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert answer.json()["message"] == (
        'pods "greedy" is forbidden: exceeded quota: few, requested: requests.nvidia.com/gpu=2, '
        "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=1"
    )
    admin.delete(address)

"""A gang as a Volcano Job."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.backends.volcano.translate import MOST_TASKS, literal, rank, vcjob
from clusters.core.backend import BackendRejectedError
from clusters.core.container import Container, Secret, Volume
from clusters.core.gang import Gang
from clusters.core.resources import GangShape, NodeShape

CONTAINER = Container(
    image="registry.example.org/train:1.0",
    command=("torchrun",),
    args=("train.py", "--steps", "3"),
    host_network=True,
    rdma={"rdma/hca": 8},
    networks=("rail-0", "rail-1"),
    volumes=(Volume("data", "/data", read_only=True), Volume("out", "/out")),
    shm_mib=65_536,
    secrets=(Secret("wandb"), Secret("keys", "/keys")),
    service_account="trainer",
    image_pull_secrets=("registry",),
    runtime_class="nvidia",
)
GANG = Gang(
    fence="mst-7f3a9c-a1",
    title="Größe\n$(reboot)",
    account="team-mia",
    charge="",
    queue="vision-guaranteed",
    service_class="muster-guaranteed",
    shape=GangShape(4, NodeShape(8, 64, 921_600), exclusive=True),
    device="nvidia.com/gpu:NVIDIA-H100-80GB-HBM3",
    nodes=("n000", "n001", "n002", "n007"),
    time_limit_s=3601,
    script="",
    workdir="/out/run7",
    output="",
    error="",
    environment={"NCCL_DEBUG": "WARN", "NOTE": "$(HOME) costs $5"},
    signal="USR1",
    grace_s=120,
    container=CONTAINER,
)


def pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [task["template"]["spec"] for task in job["spec"]["tasks"]]


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in pod["containers"][0]["env"]}


def test_the_whole_job() -> None:
    job = vcjob(GANG, {"tolerate": "nvidia.com/gpu, team"}, "kube")
    ours = {"muster/fence": "mst-7f3a9c-a1", "muster/mark": "muster"}
    assert job["metadata"] == {
        "name": "mst-7f3a9c-a1",
        "namespace": "team-mia",
        "labels": ours,
        "annotations": {"muster/title": GANG.title, "muster/nodes": "n000,n001,n002,n007"},
    }
    spec = job["spec"]
    assert (spec["queue"], spec["priorityClassName"]) == ("vision-guaranteed", "muster-guaranteed")
    assert (spec["minAvailable"], spec["maxRetry"]) == (4, 1)
    assert "networkTopology" not in spec
    assert [task["name"] for task in spec["tasks"]] == ["r0", "r1", "r2", "r3"]
    pod = pods(job)[3]
    (container,) = pod.pop("containers")
    assert pod == {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": 3601,
        "terminationGracePeriodSeconds": 120,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {
                                    "key": "kubernetes.io/hostname",
                                    "operator": "In",
                                    "values": ["n007"],
                                }
                            ]
                        }
                    ]
                }
            }
        },
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "team", "operator": "Exists"},
        ],
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "serviceAccountName": "trainer",
        "automountServiceAccountToken": True,
        "imagePullSecrets": [{"name": "registry"}],
        "runtimeClassName": "nvidia",
        "volumes": [
            {
                "name": "muster-self",
                "downwardAPI": {
                    "items": [
                        {
                            "path": "annotations",
                            "fieldRef": {"fieldPath": "metadata.annotations"},
                        }
                    ]
                },
            },
            {"name": "muster-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "65536Mi"}},
            {
                "name": "claim-0",
                "persistentVolumeClaim": {"claimName": "data", "readOnly": True},
            },
            {"name": "claim-1", "persistentVolumeClaim": {"claimName": "out", "readOnly": False}},
            {"name": "secret-1", "secret": {"secretName": "keys"}},
        ],
    }
    del container["env"]
    amounts = {"nvidia.com/gpu": "8", "cpu": "64", "rdma/hca": "8", "memory": "921600Mi"}
    assert container == {
        "name": "train",
        "image": "registry.example.org/train:1.0",
        "command": ["torchrun"],
        "args": ["train.py", "--steps", "3"],
        "envFrom": [{"secretRef": {"name": "wandb"}}],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [
            {"name": "muster-self", "mountPath": "/etc/muster", "readOnly": True},
            {"name": "muster-shm", "mountPath": "/dev/shm"},  # noqa: S108 (in the pod)
            {"name": "claim-0", "mountPath": "/data", "readOnly": True},
            {"name": "claim-1", "mountPath": "/out", "readOnly": False},
            {"name": "secret-1", "mountPath": "/keys", "readOnly": True},
        ],
        "workingDir": "/out/run7",
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }


def test_a_device_that_the_admin_named_is_its_resource_its_labels_and_its_taints() -> None:
    options = {
        "device.train": "nvidia.com/gpu,pool=train",
        "tolerate": "nvidia.com/gpu",
        "tolerate.train": "team,nvidia.com/gpu",
    }
    pod = pods(vcjob(replace(GANG, device="train"), options, "kube"))[0]
    assert pod["nodeSelector"] == {"pool": "train"}
    assert [one["key"] for one in pod["tolerations"]] == ["nvidia.com/gpu", "team"]
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"


def test_what_is_not_asked_is_not_sent_and_no_token_is_mounted() -> None:
    least = replace(
        GANG,
        container=Container("train:1"),
        queue="",
        service_class="",
        workdir="",
        signal="",
        grace_s=0,
    )
    job = vcjob(least, {}, "kube")
    assert not {"queue", "priorityClassName"} & job["spec"].keys()
    pod = pods(job)[0]
    assert pod.keys() == {
        "restartPolicy", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "affinity",
        "automountServiceAccountToken", "containers",
    }  # fmt: skip
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] == 30
    assert pod["containers"][0].keys() == {"name", "image", "env", "resources"}


def test_ranks_are_in_the_order_of_the_nodes_and_meet_at_the_first() -> None:
    found = [variables(pod) for pod in pods(vcjob(GANG, {"environment.SITE": "x"}, "kube"))]
    assert [one["NODE_RANK"] for one in found] == ["0", "1", "2", "3"]
    assert {one["MASTER_ADDR"] for one in found} == {"mst-7f3a9c-a1-r0-0.mst-7f3a9c-a1"}
    assert {one["WORLD_SIZE"] for one in found} == {"32"}
    assert {(one["SITE"], one["NCCL_DEBUG"]) for one in found} == {("x", "WARN")}
    assert {one["MUSTER_NODES"] for one in found} == {"n000,n001,n002,n007"}


def test_nothing_that_a_user_wrote_is_read_by_kubernetes() -> None:
    told = variables(pods(vcjob(GANG, {}, "kube"))[0])
    assert told["MUSTER_JOB_NAME"] == "Größe\n$$(reboot)"
    assert told["NOTE"] == "$$(HOME) costs $$5"


@given(st.text(alphabet="$()ABC_ x", max_size=12))
def test_a_literal_comes_out_as_it_was(value: str) -> None:
    """Expanded by Kubernetes' rule: `$$` is `$`, `$(NAME)` is looked up, all else stays."""
    text, out = literal(value), ""
    while text:
        if text.startswith("$$"):
            out, text = out + "$", text[2:]
        else:
            assert not text.startswith("$("), "it would be looked up"
            out, text = out + text[0], text[1:]
    assert out == value


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 1000])
def test_every_node_is_pinned_once_and_no_name_is_too_long(count: int) -> None:
    nodes = tuple(f"n{number:04d}" for number in range(count))
    gang = replace(
        GANG, fence="mst-" + "a" * 32 + "-a99", nodes=nodes,
        shape=GangShape(count, GANG.shape.per_node, exclusive=False),
    )  # fmt: skip
    job = vcjob(gang, {}, "kube")
    tasks = job["spec"]["tasks"]
    assert len(tasks) <= MOST_TASKS
    assert sum(task["replicas"] for task in tasks) == job["spec"]["minAvailable"] == count
    pinned: list[str] = []
    for task in tasks:
        assert len(f"{gang.fence}-{task['name']}-{task['replicas'] - 1}") <= 63
        told = variables(task["template"]["spec"])
        assert int(told["MUSTER_FIRST_RANK"]) == len(pinned)
        assert ("NODE_RANK" in told) == (task["replicas"] == 1)
        affinity = task["template"]["spec"]["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        pinned += term["matchExpressions"][0]["values"]
        assert task["replicas"] == len(term["matchExpressions"][0]["values"])
    assert tuple(pinned) == nodes


def test_a_gang_without_a_container_is_refused() -> None:
    with pytest.raises(BackendRejectedError, match="no image"):
        vcjob(replace(GANG, container=None), {}, "kube")


def test_a_stored_gang_reads_back() -> None:
    assert Gang.from_json(GANG.to_json()) == GANG
    assert "container" not in replace(GANG, container=None).to_json()


def test_a_pods_name_tells_its_rank() -> None:
    names = [f"mst-r2-r{task}-{index}" for task in range(12) for index in range(12)]
    assert sorted(sorted(names), key=rank) == names
    assert rank("mst-other") == (0, "mst-other")

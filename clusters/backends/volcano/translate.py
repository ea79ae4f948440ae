"""A gang as a Volcano Job: pinned to its nodes, in rank order, and never restarted by Volcano.

Names: the job's name is the fence, its namespace the account. Job and pods bear the labels
`muster/fence` and `muster/mark`, by which a job of that name is known as ours. The user's title may
hold any text and travels as an annotation and a variable.

Muster chose the nodes, so each pod is bound to its own by host name, and no `networkTopology` is
asked: a hard tier that spans fewer than the nodes would never start (volcano-observed 11).
"""

from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

from clusters.backends.volcano.nodes import HOSTNAME, resource_of
from clusters.core.backend import BackendRejectedError
from clusters.core.container import Container, Secret
from clusters.core.devices import devices_of
from clusters.core.gang import Gang

FENCE, MARK = "muster/fence", "muster/mark"
API = "batch.volcano.sh/v1alpha1"
# How long a job that succeeded or failed stays readable; Volcano removes it then. What was aborted
# it never removes, as that could be resumed.
KEPT_S = 7 * 86_400
# One task a node keeps ranks in order. A job is one object of at most 1.5 MB, so that a gang of more
# nodes has tasks of several neighbours each, whose order among themselves is left to Volcano.
MOST_TASKS = 64
MOST_PODS = 1_000  # of one task, by far
DEFAULT_GRACE_S = 30
_FIRST_PORT, _PORTS = 15_000, 15_000
_SHM, _SELF = "muster-shm", "muster-self"
SEEN = "/etc/muster"  # where a container sees its pod's annotations, as the file `annotations`

Json = dict[str, Any]


def owner_mark(options: Mapping[str, str]) -> str:
    """What tells our jobs from others' (option `mark`): one per Muster on the same cluster."""
    return options.get("mark", "muster")


def vcjob(gang: Gang, options: Mapping[str, str], cluster: str) -> Json:
    """The whole object to create.

    Volcano restarts nothing (`maxRetry` 1 and policies that abort): who tries again, and where, is
    Muster's to decide. The time limit is the pods' own deadline.

    Raises:
        BackendRejectedError: the gang has no container.
    """
    if gang.container is None:
        raise BackendRejectedError("it has no image to run", code="no_image")
    pods = _Pods(gang, gang.container, options, cluster)
    spec: Json = {
        "schedulerName": "volcano",
        "queue": gang.queue,
        "priorityClassName": gang.service_class,
        "minAvailable": gang.shape.nodes,
        "maxRetry": 1,
        "ttlSecondsAfterFinished": KEPT_S,
        "policies": [
            {"event": "PodEvicted", "action": "AbortJob"},
            {"event": "PodFailed", "action": "AbortJob"},
        ],
        "plugins": {
            "env": [],
            "svc": ["--publish-not-ready-addresses=true", "--inject-hosts-env=false"],
        },
        "tasks": [
            pods.task(number, first, nodes)
            for number, (first, nodes) in enumerate(_groups(gang.nodes))
        ],
    }
    return {
        "apiVersion": API,
        "kind": "Job",
        "metadata": {
            "name": gang.fence,
            "namespace": gang.account,
            "labels": pods.labels,
            "annotations": {"muster/title": gang.title, "muster/nodes": ",".join(gang.nodes)},
        },
        "spec": {name: value for name, value in spec.items() if value != ""},
    }


def _groups(nodes: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The rank of the first node of each task, and its nodes."""
    size = -(-len(nodes) // MOST_TASKS)
    for first in range(0, len(nodes), size):
        yield first, nodes[first : first + size]


class _Pods:
    """The pods of one gang: alike but for their nodes and rank."""

    def __init__(
        self, gang: Gang, container: Container, options: Mapping[str, str], cluster: str
    ) -> None:
        self._gang = gang
        self._container = container
        self._options = options
        self._cluster = cluster
        named = (one for one in devices_of(options) if one.name == gang.device)
        self._device = next(named, None)
        self.labels = {FENCE: gang.fence, MARK: owner_mark(options)}

    def task(self, number: int, first: int, nodes: tuple[str, ...]) -> Json:
        """The task of some neighbours, the first of which has the rank `first`."""
        alone = len(nodes) == 1
        annotations = {}
        if alone:  # Ascend's rank table counts pods by it
            annotations["hccl/rankIndex"] = str(first)
        if self._container.networks:
            annotations["k8s.v1.cni.cncf.io/networks"] = ",".join(self._container.networks)
        variables = environment(self._gang, self._options, self._cluster, first, alone=alone)
        metadata = {"labels": dict(self.labels), "annotations": annotations}
        return {
            "name": f"r{number}",
            "replicas": len(nodes),
            "minAvailable": len(nodes),
            "template": {"metadata": metadata, "spec": self._spec(nodes, variables)},
        }

    def _spec(self, nodes: tuple[str, ...], variables: Mapping[str, str]) -> Json:
        container, gang = self._container, self._gang
        pinned = [{"key": HOSTNAME, "operator": "In", "values": list(nodes)}]
        terms = {"nodeSelectorTerms": [{"matchExpressions": pinned}]}
        keys = [key.strip() for key in self._options.get("tolerate", "").split(",")]
        device = self._device
        # It is pinned already; a node that lost its labels meanwhile is no longer what was bought.
        selector = dict(device.labels) if device else {}
        if device:
            keys += [key for key in device.tolerated if key not in keys]
        host = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
        pod: Json = {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": gang.time_limit_s,
            "terminationGracePeriodSeconds": gang.grace_s or DEFAULT_GRACE_S,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            "nodeSelector": selector,
            "tolerations": [{"key": key, "operator": "Exists"} for key in keys if key],
            **(host if container.host_network else {}),
            "securityContext": _identity(gang.run_as),
            "serviceAccountName": container.service_account,
            "automountServiceAccountToken": bool(container.service_account),
            "imagePullSecrets": [{"name": name} for name in container.image_pull_secrets],
            "runtimeClassName": container.runtime_class,
            "volumes": list(_volumes(container, is_told=bool(gang.signal))),
            "containers": [self._one(variables)],
        }
        return {name: value for name, value in pod.items() if value not in ("", [], {})}

    def _one(self, variables: Mapping[str, str]) -> Json:
        container, gang = self._container, self._gang
        need = gang.shape.per_node
        # What counts is set last: no network device may stand for a GPU that nobody pays.
        resource = self._device.resource if self._device else resource_of(gang.device)
        amounts = {**container.rdma, resource: need.gpus, "cpu": need.cpus}
        resources = {name: str(count) for name, count in amounts.items() if name and count}
        if need.memory_mib:
            resources["memory"] = f"{need.memory_mib}Mi"
        made: Json = {
            "name": "train",
            "image": container.image,
            "command": list(container.command),
            "args": list(container.args),
            "env": [
                *({"name": name, "value": literal(value)} for name, value in variables.items()),
                *(_secret_variable(one) for one in container.secrets if one.variable),
            ],
            "envFrom": [
                {"secretRef": {"name": one.name}}
                for one in container.secrets
                if not (one.mount or one.variable)
            ],
            "resources": {"requests": resources, "limits": dict(resources)},
            "volumeMounts": list(_mounts(container, is_told=bool(gang.signal))),
            "workingDir": gang.workdir,
        }
        if container.rdma:  # memory that network cards write to must stay where it is
            made["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
        return {name: value for name, value in made.items() if value not in ("", [])}


def rank(pod: str) -> tuple[int, str]:
    """Where a pod named `<fence>-r<task>-<index>` stands among those of its gang."""
    task, _, index = pod.rpartition("-r")[2].partition("-")
    return (int(task) * MOST_PODS + int(index) if (task + index).isdecimal() else 0), pod


def literal(value: str) -> str:
    """A variable's value that Kubernetes leaves as it is: it would read `$(NAME)` in it."""
    return value.replace("$", "$$")


def _identity(run_as: str) -> Json:
    """Who a pod's processes are; its volumes are the group's. {} = who the image says."""
    if not run_as:
        return {}
    user, _, group = run_as.partition(":")
    owner = {"runAsUser": int(user), "runAsNonRoot": True}
    return owner | ({"runAsGroup": int(group), "fsGroup": int(group)} if group else {})


def _secret_variable(one: Secret) -> Json:
    key = {"name": one.name, "key": one.variable}
    return {"name": one.variable, "valueFrom": {"secretKeyRef": key}}


def _volumes(container: Container, *, is_told: bool) -> Iterator[Json]:
    if is_told:
        field = {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}
        yield {"name": _SELF, "downwardAPI": {"items": [field]}}
    if container.shm_mib:
        size = f"{container.shm_mib}Mi"
        yield {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    for number, one in enumerate(container.volumes):
        claim = {"claimName": one.claim, "readOnly": one.read_only}
        yield {"name": f"claim-{number}", "persistentVolumeClaim": claim}
    for number, secret in enumerate(container.secrets):
        if secret.mount:
            yield {"name": f"secret-{number}", "secret": {"secretName": secret.name}}


def _mounts(container: Container, *, is_told: bool) -> Iterator[Json]:
    if is_told:
        yield {"name": _SELF, "mountPath": SEEN, "readOnly": True}
    if container.shm_mib:
        yield {"name": _SHM, "mountPath": "/dev/shm"}  # noqa: S108 (a mount in the pod)
    for number, one in enumerate(container.volumes):
        yield {"name": f"claim-{number}", "mountPath": one.mount, "readOnly": one.read_only}
    for number, secret in enumerate(container.secrets):
        if secret.mount:
            yield {"name": f"secret-{number}", "mountPath": secret.mount, "readOnly": True}


def environment(
    gang: Gang, options: Mapping[str, str], cluster: str, first: int, *, alone: bool
) -> dict[str, str]:
    """The variables of a task's pods: rendezvous, the cluster's, the user's, then our own.

    torchrun takes its flags from `PET_*`, so `torchrun train.py` works as it is. `first` is the rank
    of the task's first node; where it has several (not `alone`) a pod's own rank is left to
    torchrun's rendezvous, and `MUSTER_FIRST_RANK` + `VC_TASK_INDEX` is the node that it is on.
    """
    shape, port = gang.shape, str(_FIRST_PORT + crc32(gang.fence.encode()) % _PORTS)
    nodes, gpus = str(shape.nodes), str(shape.per_node.gpus)
    leader = f"{gang.fence}-r0-0.{gang.fence}"
    meeting = {
        "MASTER_ADDR": leader,
        "MASTER_PORT": port,
        "NNODES": nodes,
        "GPUS_PER_NODE": gpus,
        "WORLD_SIZE": str(shape.gpus),
        "PET_NNODES": nodes,
        "PET_NPROC_PER_NODE": gpus,
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{leader}:{port}",
        "PET_RDZV_ID": gang.fence,
    }
    if alone:
        meeting |= {"NODE_RANK": str(first), "PET_NODE_RANK": str(first)}
    site = {
        key.removeprefix("environment."): value
        for key, value in options.items()
        if key.startswith("environment.")
    }
    own = {
        "MUSTER_FENCE": gang.fence,
        "MUSTER_JOB_NAME": gang.title,
        "MUSTER_CLUSTER": cluster,
        "MUSTER_NODES": ",".join(gang.nodes),
        "MUSTER_FIRST_RANK": str(first),
    }
    return meeting | site | dict(gang.environment) | own

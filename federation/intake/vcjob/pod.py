"""A task's pod template: what each of its nodes runs, and what it needs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.core.spec.quantities import write_memory
from federation.intake.findings import Findings
from federation.intake.vcjob.environment import read_environment
from federation.intake.vcjob.resources import Need, read_need
from federation.intake.vcjob.volumes import read_volumes
from federation.intake.vcjob.walk import Spot

NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
_QUIET: Final = frozenset({NETWORKS, "hccl/rankIndex"})
_NETWORK = re.compile(r"[a-z0-9./-]+")
_FALSE_ONLY: Final = {
    "hostIPC": "Programs share memory at /dev/shm: mount an emptyDir of medium Memory there.",
    "hostPID": "A pod sees its own processes only. Take it out.",
    "shareProcessNamespace": "There is one container a node. Take it out.",
}
_NO_RIGHTS: Final = {
    "privileged": "Network cards are resources (rdma/hca), shared memory is an emptyDir. Take it out.",
    "allowPrivilegeEscalation": "A pod has no rights to gain. Take it out.",
}
_DNS: Final = ("", "ClusterFirst", "ClusterFirstWithHostNet")


@dataclass(frozen=True, slots=True)
class Pod:
    """What the pods of one task are.

    Attributes:
        run: fields of `run`.
        environment: literal variables.
        need: what each asks of its node.
        limit_s: the longest it may run; 0 = not said.
        selected: labels that its node must have.
        lines: where things stand, by field of `run`, `environment/NAME`, `limit`, `select/LABEL`.
        at: the pod itself.
    """

    run: Mapping[str, Any]
    environment: Mapping[str, str]
    need: Need
    limit_s: int
    selected: Mapping[str, str]
    lines: Mapping[str, int]
    at: Spot

    def texts(self) -> list[str]:
        """The words that are run."""
        return [*self.run.get("command", ()), *self.run.get("args", ())]


def read_pod(job: Spot, task: Spot, findings: Findings) -> Pod | None:
    """The pod of a task's template; None where there is none to speak of, which is told."""
    pod = task.get("template", "spec")
    containers = list(pod.items("containers")) if pod else []
    if pod is None or not containers:
        findings.refuse(task.line, "required", task.path, "Give template.spec.containers.")
        return None
    container, *others = containers
    for other in others:
        detail = (
            f"There is one container a node, {container.text_of('name')[:60]!r} here. Take the "
            "others out; what they do belongs into its command."
        )
        findings.refuse(other.line, "not_supported", other.path, detail)
    reader = _Reader(pod, container, findings)
    reader.run_fields()
    reader.networks(task)
    reader.rights()
    run, lines = reader.run, reader.lines
    read_volumes(job, pod, container, run, lines, findings)
    need = read_need(container, findings)
    if need.rdma:
        run["rdma"] = need.rdma
    if "shm" in run and run["shm"] is None:
        _size_memory(run, lines, need, findings)
    variables = read_environment(container, run, lines, findings)
    limit, selector = pod.get("activeDeadlineSeconds"), pod.get("nodeSelector")
    selected = {name: one.text for name, one in selector.fields()} if selector else {}
    lines |= {f"select/{name}": one.line for name, one in selector.fields()} if selector else {}
    lines |= need.lines | {"limit": limit.line if limit else container.line}
    return Pod(run, variables, need, limit.count if limit else 0, selected, lines, pod)


def _size_memory(run: dict[str, Any], lines: dict[str, int], need: Need, found: Findings) -> None:
    """Memory at /dev/shm without a size: as much as the pod has, as in Kubernetes."""
    if need.memory_mib:
        run["shm"] = write_memory(need.memory_mib)
    else:
        del run["shm"]
        detail = "It has no size. Give emptyDir.sizeLimit, as in 64Gi, or the pod memory."
        found.refuse(lines["shm"], "required", "emptyDir.sizeLimit", detail)


class _Reader:
    def __init__(self, pod: Spot, container: Spot, findings: Findings) -> None:
        self._pod, self._container, self._findings = pod, container, findings
        self.run: dict[str, Any] = {}
        self.lines: dict[str, int] = {"": container.line}

    def run_fields(self) -> None:
        """The fields that become one each."""
        pod, container = self._pod, self._container
        account = "serviceAccountName" if pod.get("serviceAccountName") else "serviceAccount"
        for name, at in (
            ("image", container.get("image")),
            ("workdir", container.get("workingDir")),
            ("service_account", pod.get(account)),
            ("runtime_class", pod.get("runtimeClassName")),
        ):
            if at and at.text:
                self._put(name, at.text, at)
        for name in ("command", "args"):
            if at := container.get(name):
                self._put(name, [one.text for one in at.items()], at)
        if (at := pod.get("hostNetwork")) and at.is_on:
            self._put("host_network", True, at)
        if at := pod.get("imagePullSecrets"):
            self._put("image_pull_secrets", [one.text_of("name") for one in at.items()], at)
        if not container.text_of("image"):
            detail = "Give the image that is run."
            self._findings.refuse(container.line, "required", f"{container.path}.image", detail)

    def _put(self, name: str, value: Any, at: Spot) -> None:
        self.run[name], self.lines[name] = value, at.line

    def networks(self, task: Spot) -> None:
        """Further networks of Multus, as names parted by commas; other annotations are dropped."""
        annotations = task.get("template", "metadata", "annotations")
        for name, one in annotations.fields() if annotations else ():
            if name not in _QUIET:
                self._findings.drop(one.line, one.path, "Annotations of pods are not carried.")
            elif name == NETWORKS and one.text:
                names = [part.strip() for part in one.text.split(",")]
                if all(_NETWORK.fullmatch(part) for part in names):
                    self._put("networks", names, one)
                else:
                    detail = "Give names of networks, parted by commas, without more of each."
                    self._findings.refuse(one.line, "not_supported", one.path, detail)

    def rights(self) -> None:
        """What a pod may not have of its node, and where names and places are looked up."""
        for name, words in _FALSE_ONLY.items():
            self._refuse_on(self._pod.get(name), words)
        for name, words in _NO_RIGHTS.items():
            self._refuse_on(self._container.get("securityContext", name), words)
        for item in self._container.items("securityContext", "capabilities", "add"):
            if item.text.removeprefix("CAP_") != "IPC_LOCK":
                detail = f"{item.text[:60]!r} is not given. IPC_LOCK comes with run.rdma."
                self._findings.refuse(item.line, "refused", item.path, detail)
        dns = self._pod.get("dnsPolicy")
        if dns and dns.text not in _DNS:
            detail = f"Names are looked up in the cluster, not {dns.text[:60]!r}. Take it out."
            self._findings.refuse(dns.line, "refused", dns.path, detail)

    def _refuse_on(self, at: Spot | None, words: str) -> None:
        if at and at.is_on:
            self._findings.refuse(at.line, "refused", at.path, words)

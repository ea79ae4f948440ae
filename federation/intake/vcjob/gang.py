"""All tasks as one gang: equal pods that run one container, the first rank's task first."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation.core.spec.quantities import write_memory
from federation.intake.findings import Findings
from federation.intake.vcjob.plugins import master_of
from federation.intake.vcjob.pod import Pod, read_pod
from federation.intake.vcjob.walk import Spot

MOST_TASKS: Final = 256
_ONE = (
    "All nodes of a gang run one container. Let one command tell them apart by NODE_RANK, which is 0 "
    "on the first."
)


@dataclass(frozen=True, slots=True)
class Gang:
    """The tasks in rank order, and the pod that all of them are."""

    tasks: tuple[Spot, ...]
    pod: Pod

    @property
    def sizes(self) -> list[int]:
        """Pods of each task."""
        return [_replicas(task) for task in self.tasks]

    @property
    def names(self) -> list[str]:
        """Names of the tasks, as Volcano gives them to those without."""
        return [task.text_of("name") or f"default{at}" for at, task in enumerate(self.tasks)]


def _replicas(task: Spot) -> int:
    at = task.get("replicas")
    return at.count if at else 0


def read_gang(job: Spot, findings: Findings) -> Gang | None:
    """The gang; None where there is none, or its pods cannot be read."""
    tasks = list(job.items("spec", "tasks"))
    if not tasks or len(tasks) > MOST_TASKS:
        detail = f"Give from 1 to {MOST_TASKS} tasks."
        spec = job.get("spec")
        findings.refuse(spec.line if spec else job.line, "required", "spec.tasks", detail)
        return None
    master = master_of(job)
    tasks.sort(key=lambda task: task.text_of("name") != master)
    known = len(findings.problems)
    for task in tasks:
        _check_counts(task, findings)
    _check_available(job, tasks, findings)
    pods = []
    for task in tasks:
        before = len(findings.problems)
        pod = read_pod(job, task, findings)
        if pod is not None:
            pods.append((task, pod))
        if pod is not None and not pod.need.gpus and len(findings.problems) == before:
            _refuse_idle(task, findings)
    if not pods or len(findings.problems) > known:
        return None
    first_task, first = pods[0]
    for task, pod in pods[1:]:
        _check_alike(first_task, first, task, pod, findings)
    return Gang(tuple(tasks), first)


def _refuse_idle(task: Spot, findings: Findings) -> None:
    detail = (
        f"Pods of task {task.text_of('name')[:63]!r} ask for no GPUs. Every node of a gang has the "
        "same number: let a node with GPUs do what this task does."
    )
    findings.refuse(task.line, "no_gpus", task.path, detail)


def _check_counts(task: Spot, findings: Findings) -> None:
    replicas, least = task.get("replicas"), task.get("minAvailable")
    if replicas is None or not replicas.count:
        detail = "Give the number of pods, at least 1."
        findings.refuse(
            replicas.line if replicas else task.line, "required", f"{task.path}.replicas", detail
        )
    elif least and least.count != replicas.count:
        _refuse_least(least, replicas.count, findings)


def _check_available(job: Spot, tasks: Sequence[Spot], findings: Findings) -> None:
    whole = sum(_replicas(task) for task in tasks)
    for name in ("minAvailable", "minSuccess"):
        least = job.get("spec", name)
        if least and least.count and least.count != whole:
            _refuse_least(least, whole, findings)


def _refuse_least(least: Spot, whole: int, findings: Findings) -> None:
    if least.count > whole:
        detail = f"{least.count} is more than the {whole} pods that there are."
        findings.refuse(least.line, "contradiction", least.path, detail)
    else:
        detail = f"A gang of fewer than all is not supported yet. Write {whole}, or take it out."
        findings.refuse(least.line, "not_supported", least.path, detail)


def _check_alike(first: Spot, one: Pod, task: Spot, other: Pod, findings: Findings) -> None:
    """Tells every field in which the pods of a task are others than those of the first."""
    for name, line, values in _differences(one, other):
        detail = f"It is {values[1]}, but {values[0]} in {first.path} (line {line[0]}). {_ONE}"
        findings.refuse(line[1], "tasks_differ", f"{task.path}, {name}", detail)


def _differences(
    one: Pod, other: Pod
) -> Iterator[tuple[str, tuple[int, int], tuple[object, object]]]:
    for name, values in _pairs(_aspects(one), _aspects(other)):
        lines = (_line_of(one, name), _line_of(other, name))
        yield name, lines, (_shown(values[0]), _shown(values[1]))


def _aspects(pod: Pod) -> dict[str, Any]:
    need = pod.need
    return {
        **pod.run,
        **{f"environment/{name}": value for name, value in pod.environment.items()},
        "gpus": (need.resource, need.gpus),
        "cpus": need.cpus,
        "memory": need.memory_mib,
        "limit": pod.limit_s,
        **{f"select/{name}": value for name, value in pod.selected.items()},
    }


def _pairs(
    one: Mapping[str, Any], other: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name in dict.fromkeys([*one, *other]):
        values = (one.get(name), other.get(name))
        if values[0] != values[1]:
            yield name, values


def _line_of(pod: Pod, name: str) -> int:
    return pod.lines.get(name, pod.lines[""])


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{value[1]} of {value[0]}"
    text = "not given" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def fill_gang(gang: Gang, body: dict[str, Any], findings: Findings) -> None:
    """The sizes, and where they stand."""
    need, origins = gang.pod.need, findings.origins
    sizes: dict[str, Any] = {"nodes": sum(gang.sizes), "gpus_per_node": need.gpus}
    origins["/gang"] = origins["/gang/nodes"] = gang.tasks[-1].line_of("replicas")
    origins["/gang/gpus_per_node"] = need.lines["gpus"]
    if need.cpus:
        each = -(-need.cpus // need.gpus)
        sizes["cpus_per_gpu"], origins["/gang/cpus_per_gpu"] = each, need.lines["cpus"]
        if each * need.gpus != need.cpus:
            detail = (
                f"{need.cpus} CPUs over {need.gpus} GPUs are rounded up to {each} for each GPU."
            )
            path = f"{gang.pod.at.path}.containers[0].resources"
            findings.warn(need.lines["cpus"], "rounded_up", path, detail)
    if need.memory_mib:
        sizes["memory_per_node"] = write_memory(need.memory_mib)
        origins["/gang/memory_per_node"] = need.lines["memory"]
    body["gang"] = sizes


def check_hosts(job: Spot, gang: Gang, findings: Findings) -> None:
    """Refuses pods called by name: an attempt is called otherwise each time."""
    title = job.text_of("metadata", "name")
    if not title:
        return
    names = "|".join(re.escape(name) for name in gang.names)
    host = re.compile(rf"(?<![\w-]){re.escape(title)}-(?:{names})-[0-9]+(?![\w-])")
    where = {
        **{name: " ".join(gang.pod.run.get(name, ())) for name in ("command", "args")},
        **{f"environment/{name}": text for name, text in gang.pod.environment.items()},
    }
    for name, text in where.items():
        if match := host.search(text):
            detail = (
                f"{match[0][:100]} is a pod of this job's name, and pods are called otherwise in "
                "each attempt. Use MASTER_ADDR, which Muster sets."
            )
            path = f"{gang.pod.at.path}.containers[0], {name}"
            findings.refuse(_line_of(gang.pod, name), "host_name", path, detail)

"""What the CRDs' schemas refuse (422), as far as it was recorded (13)."""

import re
from typing import Any

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at

_TASK = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


def problems(plural: str, thing: Json) -> list[str]:
    """What an object's schema has against it; [] if nothing."""
    check = _CHECKS.get(plural)
    return [] if check is None else check(thing)


def _least(path: str, value: Any, least: int) -> list[str]:
    if not isinstance(value, int) or value >= least:
        return []
    return [
        f"{path}: Invalid value: {value}: {path} in body should be greater than or equal to {least}"
    ]


def _one_of(path: str, value: Any, words: tuple[str, ...]) -> list[str]:
    if value is None or value in words:
        return []
    told = ", ".join(f'"{word}"' for word in words)
    return [f'{path}: Unsupported value: "{value}": supported values: {told}']


def _job(job: Json) -> list[str]:
    spec = job.get("spec") or {}
    found = _least("spec.minAvailable", spec.get("minAvailable"), 0)
    found += _least("spec.minSuccess", spec.get("minSuccess"), 1)
    found += _one_of(
        "spec.networkTopology.mode", at(spec, "networkTopology", "mode"), ("hard", "soft")
    )
    tasks = spec.get("tasks")
    if tasks == []:
        found.append(
            "spec.tasks: Invalid value: 0: spec.tasks in body should have at least 1 items"
        )
    for place, task in enumerate(tasks or []):
        found += _task(f"spec.tasks[{place}]", task)
    return found


def _task(path: str, task: Json) -> list[str]:
    found = _least(f"{path}.replicas", task.get("replicas"), 0)
    found += _least(f"{path}.minAvailable", task.get("minAvailable"), 0)
    name = task.get("name", "")
    if not _TASK.match(name):
        found.append(
            f"{path}.name: Invalid value: \"{name}\": {path}.name in body should match '{_LABEL}'"
        )
    for field in ("totalPartitions", "partitionSize"):
        value = at(task, "partitionPolicy", field)
        found += _least(f"{path}.partitionPolicy.{field}", value, 1)
    return found


def _queue(queue: Json) -> list[str]:
    spec = queue.get("spec") or {}
    found = _one_of("spec.dequeueStrategy", spec.get("dequeueStrategy"), ("fifo", "traverse"))
    return found + _least("spec.weight", spec.get("weight"), 1)


def _hypernode(hypernode: Json) -> list[str]:
    spec = hypernode.get("spec") or {}
    if spec.get("tier") is None:
        return ["spec.tier: Required value"]
    kinds = ("exactMatch", "regexMatch", "labelMatch")
    return [
        f"spec.members[{place}].selector: Invalid value: Only one of ExactMatch, RegexMatch, or "
        "LabelMatch can be specified"
        for place, member in enumerate(spec.get("members") or [])
        if sum(kind in (member.get("selector") or {}) for kind in kinds) > 1
    ]


def _command(command: Json) -> list[str]:
    target = command.get("target")
    if target is not None and not target.get("uid"):
        return ["target.uid: Required value"]
    return []


_CHECKS = {"jobs": _job, "queues": _queue, "hypernodes": _hypernode, "commands": _command}

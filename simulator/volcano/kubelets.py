"""Played kubelets: pods start, end and go as their annotations say.

`muster-sim/run-for` (seconds of job time, `8s`, `10m`, `2h`; absent: for ever),
`muster-sim/exit-code`, `muster-sim/start-after`, and `muster-sim/image: missing`. Without the first
two a container's command tells, as a script does on the simulated Slurm (`sleep 30`, `exit 3`).
"""

import re
from dataclasses import dataclass, replace

from simulator.engine.program import Program, told
from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at, instant, is_going, ms_of, with_meta
from simulator.kubernetes.pods import with_condition
from simulator.volcano.writes import Status, Write, delete

RUN_FOR = "muster-sim/run-for"
EXIT_CODE = "muster-sim/exit-code"
START_AFTER = "muster-sim/start-after"
IMAGE = "muster-sim/image"
SILENT = "muster-sim/silent-since"

_DURATION = re.compile(r"^([0-9]*\.?[0-9]+)(ms|s|m|h)?$")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_BEGUN = ("Initialized", "ContainersReady", "Ready")


@dataclass(frozen=True)
class Plan:
    """What a kubelet does next with a pod: the stage it is in, and how long it stays there.

    Seconds of job time are for whoever knows the cluster's speed; `due_ms` is an instant.
    """

    stage: str
    seconds: float = 0.0
    due_ms: int | None = None


def plan(pod: Json, node: Json | None) -> Plan | None:
    """What comes next; None if nothing does, or if the node's kubelet is silent."""
    if not at(pod, "spec", "nodeName") or node is None or _note(node, SILENT):
        return None
    if is_going(pod):
        return Plan("going", due_ms=ms_of(pod["metadata"]["deletionTimestamp"]))
    phase = at(pod, "status", "phase")
    if phase == "Pending":
        if _note(pod, IMAGE) == "missing":
            return None if at(pod, "status", "containerStatuses") else Plan("pulling")
        return Plan("starting", read_seconds(_note(pod, START_AFTER)) or 0.0)
    if phase == "Running":
        runs = _program(pod).seconds
        return None if runs is None else Plan("running", runs)
    return None


def act(pod: Json, stage: str, now_ms: int) -> list[Write]:
    """What the kubelet writes at the end of a stage."""
    if stage == "going":
        return [delete("pods", pod, 0)]
    status = _STAGES[stage](pod, now_ms)
    meta = pod["metadata"]
    return [Status("pods", meta["namespace"], meta["name"], {**pod["status"], **status})]


def read_seconds(text: str) -> float | None:
    """A duration in seconds, None if there is none or it cannot be read."""
    found = _DURATION.match(text)
    return None if found is None else float(found[1]) * _UNITS[found[2] or "s"]


def _note(thing: Json, name: str) -> str:
    return str((thing["metadata"].get("annotations") or {}).get(name, ""))


def _program(pod: Json) -> Program:
    """How long its first container runs and how it ends; by itself never, and well."""
    container = pod["spec"]["containers"][0]
    command = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
    runs, code = _note(pod, RUN_FOR), _note(pod, EXIT_CODE)
    forever = Program(seconds=None)
    program = (not runs and told(command, forever)) or forever
    if runs:
        program = replace(program, seconds=read_seconds(runs))
    return replace(program, exit_code=int(code)) if code.isdigit() else program


def steered(pod: Json) -> Json:
    """The pod with its command's fate as annotations, for players that do not read commands."""
    program = _program(pod)
    notes = dict(pod["metadata"].get("annotations") or {})
    if program.seconds is not None:
        notes.setdefault(RUN_FOR, f"{program.seconds:g}s")
    if program.exit_code:
        notes.setdefault(EXIT_CODE, str(program.exit_code))
    return with_meta(pod, annotations=notes)


def _containers(pod: Json, state: Json, *, ready: bool) -> list[Json]:
    return [
        {
            "name": container["name"],
            "state": state,
            "lastState": {},
            "ready": ready,
            "restartCount": 0,
            "image": container.get("image", ""),
            "imageID": "",
            "started": ready,
        }
        for container in pod["spec"]["containers"]
    ]


def _pulled(pod: Json, now_ms: int) -> Json:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    return {"containerStatuses": _containers(pod, waiting, ready=False)}


def _started(pod: Json, now_ms: int) -> Json:
    status = pod["status"]
    for kind in _BEGUN:
        condition = {"type": kind, "status": "True"}
        status = {**status, "conditions": with_condition(status, condition, now_ms)}
    running = {"running": {"startedAt": instant(now_ms)}}
    return {
        "phase": "Running",
        "startTime": instant(now_ms),
        "conditions": status["conditions"],
        "containerStatuses": _containers(pod, running, ready=True),
    }


def _ended(pod: Json, now_ms: int) -> Json:
    code = _program(pod).exit_code
    started = at(pod, "status", "startTime") or instant(now_ms)
    over = {
        "terminated": {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": started,
            "finishedAt": instant(now_ms),
        }
    }
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": _containers(pod, over, ready=False),
    }


_STAGES = {"pulling": _pulled, "starting": _started, "running": _ended}

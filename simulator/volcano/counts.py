"""The status of a vcjob: its counts, conditions and times, as recorded (01, 06, 19)."""

from collections import Counter
from typing import Any

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at, instant, is_going, ms_of
from simulator.volcano.policies import task_of

ENDED = {"Succeeded", "Failed"}
FINISHED = {"Completed", "Failed", "Terminated"}


def phase_of(job: Json) -> str:
    """The job's phase, "" while the controllers have not seen it."""
    return str(at(job, "status", "state", "phase") or "")


def version_of(job: Json) -> int:
    """How often pods were killed; only "higher" means anything."""
    return int(at(job, "status", "version") or 0)


def retries_of(job: Json) -> int:
    """How often the job was restarted or resumed."""
    return int(at(job, "status", "retryCount") or 0)


def standing(pod: Json) -> str:
    """Under which count a pod is: its phase, or `terminating`."""
    return "terminating" if is_going(pod) else str(at(pod, "status", "phase") or "Pending").lower()


def count(pods: list[Json]) -> Counter[str]:
    """How many pods stand how."""
    return Counter(standing(pod) for pod in pods)


def new_status(
    job: Json,
    pods: list[Json],
    phase: str,
    now_ms: int,
    *,
    version: int | None = None,
    retries: int | None = None,
    killed: bool = False,
) -> Json:
    """The job's status in a phase. After a kill, ended pods are not counted any more (0.4).

    The times are those of the last update in a phase, not of its entry (19).
    """
    counted = [p for p in pods if not (killed and standing(p) in {"succeeded", "failed"})]
    tasks = _by_task([p for p in counted if not is_going(p)])
    found: dict[str, Any] = {
        "minAvailable": job["spec"]["minAvailable"],
        **count(counted),
        "version": version_of(job) if version is None else version,
        "retryCount": retries_of(job) if retries is None else retries,
        "taskStatusCount": tasks,
    }
    found = {name: value for name, value in found.items() if value or name == "minAvailable"}
    before: Json = job.get("status") or {}
    if phase == phase_of(job) and found == _untimed(before):
        return before
    moment = instant(now_ms)
    found["state"] = {"phase": phase, "lastTransitionTime": moment}
    found["conditions"] = _conditions(before, phase, moment)
    if found.get("version") or phase in FINISHED:
        created = ms_of(job["metadata"]["creationTimestamp"])
        found["runningDuration"] = f"{(now_ms // 1000 * 1000 - created) // 1000}s"
    return found


def _by_task(pods: list[Json]) -> Json:
    tasks: dict[str, Counter[str]] = {}
    for pod in pods:
        phase = str(at(pod, "status", "phase") or "Pending")
        tasks.setdefault(task_of(pod), Counter())[phase] += 1
    return {name: {"phase": dict(phases)} for name, phases in sorted(tasks.items())}


def _untimed(status: Json) -> Json:
    timed = {"state", "conditions", "runningDuration"}
    return {key: value for key, value in status.items() if key not in timed}


def _conditions(before: Json, phase: str, moment: str) -> list[Json]:
    """One entry a phase; a phase entered again gets a new time in its old place."""
    new = {"status": phase, "lastTransitionTime": moment}
    known: list[Json] = before.get("conditions") or []
    if any(c["status"] == phase for c in known):
        return [new if c["status"] == phase else c for c in known]
    return [*known, new]

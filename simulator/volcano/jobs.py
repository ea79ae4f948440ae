"""The job controller: from a vcjob and what belongs to it to the next writes.

Called again after each change, it comes to rest by itself. Phases are those of `volcano.md` B.3;
what it does in each was recorded (01, 02, 03, 06, 08, 19).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at, is_going, ms_of
from simulator.volcano.counts import (
    ENDED,
    FINISHED,
    count,
    new_status,
    phase_of,
    retries_of,
    version_of,
)
from simulator.volcano.making import make_pod, make_podgroup
from simulator.volcano.plugins import owned_objects, pod_name
from simulator.volcano.policies import action_for, completed_action, failed_action, is_done, task_of
from simulator.volcano.writes import Create, Note, Write, delete, put_status

_TO = {
    "AbortJob": "Aborting",
    "TerminateJob": "Terminating",
    "CompleteJob": "Completing",
    "RestartJob": "Restarting",
    "RestartTask": "Restarting",
    "RestartPartition": "Restarting",
    "RestartPod": "Restarting",
}
_AT_LAST = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
GAVE_UP = "Job failed on action SyncJob for retry limit reached"


@dataclass(frozen=True)
class View:
    """A job and what belongs to it.

    `gone` are pods whose objects vanished since the last look, `order` is the action of a Command,
    `extras` the plugins' objects by plural. `hold`: objects were refused, and it is not yet time to
    try again; `gave_up`: it never will be.
    """

    job: Json
    pods: list[Json]
    podgroup: Json | None = None
    extras: list[tuple[str, Json]] = field(default_factory=list)
    gone: list[Json] = field(default_factory=list)
    order: str = ""
    hold: bool = False
    gave_up: bool = False


def sync(view: View, now_ms: int) -> list[Write]:
    """The next writes for a job, none if there is nothing to do."""
    if is_going(view.job):
        return []
    phase = phase_of(view.job)
    if not phase:
        return put_status("jobs", view.job, new_status(view.job, view.pods, "Pending", now_ms))
    if view.order:
        obeyed = _obey(view, view.order, now_ms)
        if obeyed:
            return obeyed
    if phase in FINISHED:
        return _finished(view, now_ms)
    return _STEPS[phase](view, now_ms)


def _obey(view: View, action: str, now_ms: int) -> list[Write]:
    """A Command: an Aborted job obeys only ResumeJob, others all but that (06)."""
    phase = phase_of(view.job)
    if action == "ResumeJob":
        return _act(view, action, now_ms) if phase in {"Aborted", "Aborting"} else []
    if phase in {"Pending", "Running"} and action in _TO:
        return _act(view, action, now_ms)
    return []


def _act(view: View, action: str, now_ms: int, culprit: Json | None = None) -> list[Write]:
    """Begin an action: the phase first, so that what is killed now counts for no policy."""
    job = view.job
    phase = _TO.get(action, "Restarting")
    restarts = phase == "Restarting"
    retries = retries_of(job) + (1 if restarts else 0)
    one_pod = action == "RestartPod"
    version = version_of(job) + (0 if one_pod or action == "ResumeJob" else 1)
    status = new_status(
        job, view.pods, phase, now_ms, version=version, retries=retries, killed=not one_pod
    )
    told = Note(job, "Normal", "ExecuteAction", f"Start to execute action {action} ")
    writes: list[Write] = [told, *put_status("jobs", job, status)]
    if one_pod:
        return [*writes, delete("pods", culprit)] if culprit is not None else writes
    # A job that fails for good keeps the pods that ended; a restart makes room for new ones.
    again = restarts and retries < job["spec"]["maxRetry"]
    return [*writes, *_kill(view, ended=again)]


def _kill(view: View, *, ended: bool = False) -> list[Write]:
    """Delete the pods that live (or all), the PodGroup and the plugins' objects."""
    doomed = [p for p in view.pods if not is_going(p) and (ended or not _has_ended(p))]
    writes: list[Write] = [delete("pods", pod) for pod in doomed]
    if view.podgroup is not None:
        writes.append(delete("podgroups", view.podgroup))
    return [*writes, *(delete(plural, thing) for plural, thing in view.extras)]


def _has_ended(pod: Json) -> bool:
    return at(pod, "status", "phase") in ENDED


def _live(view: View) -> list[Json]:
    return [pod for pod in view.pods if is_going(pod) or not _has_ended(pod)]


def _pending(view: View, now_ms: int) -> list[Write]:
    asked = _asked_by_policy(view, now_ms)
    if asked:
        return asked
    if view.gave_up:
        return _give_up(view, now_ms)
    writes = [] if view.hold else _make(view)
    tally = count(view.pods)
    started = tally["running"] + tally["succeeded"] + tally["failed"]
    ready = started >= view.job["spec"]["minAvailable"] and view.podgroup is not None
    phase = "Running" if ready and _admitted(view) else "Pending"
    status = new_status(view.job, view.pods, phase, now_ms)
    return [*writes, *put_status("jobs", view.job, status)]


def _give_up(view: View, now_ms: int) -> list[Write]:
    """What the job needs cannot be made (23)."""
    job = view.job
    told = Note(job, "Normal", "ExecuteAction", GAVE_UP)
    version = version_of(job) + 1
    status = new_status(job, view.pods, "Terminating", now_ms, version=version)
    return [told, *put_status("jobs", job, status), *_kill(view)]


def _running(view: View, now_ms: int) -> list[Write]:
    over = _end(view)
    if over:
        status = new_status(view.job, view.pods, over, now_ms)
        told = completed_action(view.job, view.pods) if over == "Completed" else ""
        notes = [
            Note(view.job, "Normal", "ExecuteAction", f"Start to execute action {action} ")
            for action in [told]
            if action
        ]
        return [*notes, *put_status("jobs", view.job, status)]
    asked = _asked_by_policy(view, now_ms)
    if asked:
        return asked
    if view.gave_up:
        return _give_up(view, now_ms)
    writes = [] if view.hold else _make(view)
    pending = count(view.pods)["pending"]
    spare = sum(t["replicas"] for t in view.job["spec"]["tasks"])
    spare -= view.job["spec"]["minAvailable"]
    phase = "Pending" if pending > spare else "Running"
    status = new_status(view.job, view.pods, phase, now_ms)
    return [*writes, *put_status("jobs", view.job, status)]


def _end(view: View) -> str:
    """The phase in which a running job ends, "" while it goes on."""
    spec = view.job["spec"]
    tally = count(view.pods)
    if spec.get("minSuccess") and tally["succeeded"] >= spec["minSuccess"]:
        return "Completed"
    replicas = sum(task["replicas"] for task in spec["tasks"])
    if not replicas or tally["succeeded"] + tally["failed"] < replicas:
        return ""
    if failed_action(view.job, _of_this_version(view))[0]:
        return ""
    return "Completed" if _succeeded(view) else "Failed"


def _succeeded(view: View) -> bool:
    """Did enough pods succeed? Below the sum of the tasks' minAvailable no task is asked (19)."""
    spec, tasks = view.job["spec"], view.job["spec"]["tasks"]
    done = Counter(task_of(pod) for pod in view.pods if is_done(pod))
    each = all(done[task["name"]] >= task["minAvailable"] for task in tasks)
    asked = spec["minAvailable"] >= sum(task["minAvailable"] for task in tasks)
    return done.total() >= spec["minAvailable"] and (each or not asked)


def _asked_by_policy(view: View, now_ms: int) -> list[Write]:
    job = view.job
    action, culprit = failed_action(job, _of_this_version(view))
    action = action or _evicted_action(view)
    if not action and phase_of(job) == "Running":
        action = completed_action(job, view.pods)
    return _act(view, action, now_ms, culprit) if action in _TO else []


def _evicted_action(view: View) -> str:
    """What a policy wants for a pod whose object went, whoever deleted it (08)."""
    tasks = {task["name"]: task for task in view.job["spec"]["tasks"]}
    version = str(version_of(view.job))
    gone = [pod for pod in view.gone if _note(pod, "volcano.sh/job-version") == version]
    actions = (action_for(view.job, tasks.get(task_of(pod)), "PodEvicted") for pod in gone)
    return next((action for action in actions if action), "")


def _of_this_version(view: View) -> list[Json]:
    version = str(version_of(view.job))
    return [pod for pod in view.pods if _note(pod, "volcano.sh/job-version") == version]


def _note(pod: Json, name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def _admitted(view: View) -> bool:
    """Pods are made once the PodGroup is Inqueue."""
    phase = at(view.podgroup, "status", "phase")
    return phase not in {None, "", "Pending"} or (
        phase == "Pending" and bool(at(view.podgroup, "status", "running"))
    )


def _make(view: View) -> list[Write]:
    """What is missing of the plugins' objects, PodGroup and pods; pods too many are deleted.

    A PodGroup deleted by hand under a running gang is not made again (14).
    """
    job = view.job
    have = {(plural, thing["metadata"]["name"]) for plural, thing in view.extras}
    writes: list[Write] = [
        Create(plural, thing)
        for plural, thing in owned_objects(job)
        if (plural, thing["metadata"]["name"]) not in have
    ]
    if view.podgroup is None:
        fresh = phase_of(job) == "Pending"
        return [*writes, Create("podgroups", make_podgroup(job))] if fresh else writes
    if not _admitted(view):
        return writes
    names = {pod["metadata"]["name"] for pod in view.pods}
    wanted = {
        pod_name(job, task, index): (task, index)
        for task in job["spec"]["tasks"]
        for index in range(task["replicas"])
    }
    writes += [Create("pods", make_pod(job, *wanted[n])) for n in wanted if n not in names]
    extra = [p for p in view.pods if p["metadata"]["name"] not in wanted and not is_going(p)]
    return [*writes, *(delete("pods", pod) for pod in extra)]


def _ending(view: View, now_ms: int) -> list[Write]:
    """Aborting, Terminating, Completing: wait for the last pod."""
    phase = phase_of(view.job)
    live = _live(view)
    kills = _kill(view)
    done = not live and not kills
    version = version_of(view.job) + (1 if done else 0)
    status = new_status(
        view.job,
        view.pods,
        _AT_LAST[phase] if done else phase,
        now_ms,
        version=version,
        killed=True,
    )
    return [*kills, *put_status("jobs", view.job, status)]


def _aborted(view: View, now_ms: int) -> list[Write]:
    return []


def _restarting(view: View, now_ms: int) -> list[Write]:
    """Fail for good when the retries are used up, else begin anew when the old pods are gone."""
    job = view.job
    if retries_of(job) >= job["spec"]["maxRetry"]:
        status = new_status(job, view.pods, "Failed", now_ms)
        return put_status("jobs", job, status)
    version = str(version_of(job))
    old = [p for p in view.pods if is_going(p) or _note(p, "volcano.sh/job-version") != version]
    doomed = [p for p in old if not is_going(p)]
    if doomed:
        return [delete("pods", pod) for pod in doomed]
    phase = "Restarting" if old else "Pending"
    return put_status("jobs", job, new_status(job, view.pods, phase, now_ms))


def _finished(view: View, now_ms: int) -> list[Write]:
    """Clean up, forget the counts of ended pods, and go when the time to live is over (16)."""
    job = view.job
    due_ms = goes_at_ms(job)
    if due_ms is not None and now_ms >= due_ms:
        return [delete("jobs", job)]
    kills = _kill(view)
    phase = phase_of(job)
    status = new_status(job, view.pods, phase, now_ms, killed=True)
    if status == job.get("status"):
        return kills
    version = version_of(job) + 1
    status = new_status(job, view.pods, phase, now_ms, version=version, killed=True)
    return [*kills, *put_status("jobs", job, status)]


def goes_at_ms(job: Json) -> int | None:
    """When a finished job is deleted for its age, None for never. Aborted ones stay."""
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None or phase_of(job) not in FINISHED:
        return None
    return ms_of(job["status"]["state"]["lastTransitionTime"]) + int(ttl_s) * 1000


_STEPS: dict[str, Callable[[View, int], list[Write]]] = {
    "Pending": _pending,
    "Running": _running,
    "Restarting": _restarting,
    "Aborting": _ending,
    "Terminating": _ending,
    "Completing": _ending,
    "Aborted": _aborted,
}

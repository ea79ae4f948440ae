"""Lifecycle policies: which action an event asks for. The first match in the list wins (02)."""

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at, is_going


def action_for(job: Json, task: Json | None, event: str, exit_code: int | None = None) -> str:
    """The action of the first policy that fits, the task's before the job's; "" for none.

    PodPending is not played: with a timeout Volcano loses it, without one it never fires (03).
    """
    policies = [*((task or {}).get("policies") or []), *(job["spec"].get("policies") or [])]
    for policy in policies:
        if _fits(policy, event, exit_code):
            return str(policy.get("action", ""))
    return ""


def _fits(policy: Json, event: str, exit_code: int | None) -> bool:
    if policy.get("exitCode") is not None:
        return event == "PodFailed" and bool(policy["exitCode"] == exit_code)
    events = {policy.get("event"), *(policy.get("events") or [])}
    return event in events or "*" in events


def exit_code(pod: Json) -> int | None:
    """With what a pod's first container ended."""
    for status in at(pod, "status", "containerStatuses") or []:
        code = at(status, "state", "terminated", "exitCode")
        if code is not None:
            return int(code)
    return None


def failed_action(job: Json, pods: list[Json]) -> tuple[str, Json | None]:
    """The action that a failed pod of the job's present version asks for, and the pod."""
    tasks = {task["name"]: task for task in job["spec"]["tasks"]}
    for pod in pods:
        if at(pod, "status", "phase") != "Failed" or is_going(pod):
            continue
        task = tasks.get(task_of(pod))
        action = action_for(job, task, "PodFailed", exit_code(pod))
        if action:
            return action, pod
    return "", None


def completed_action(job: Json, pods: list[Json]) -> str:
    """The action that a task asks for whose pods all succeeded, "" for none."""
    for task in job["spec"]["tasks"]:
        done = [p for p in pods if task_of(p) == task["name"] and is_done(p)]
        if task["replicas"] and len(done) == task["replicas"]:
            action = action_for(job, task, "TaskCompleted")
            if action:
                return action
    return ""


def task_of(pod: Json) -> str:
    """The name of the task a pod belongs to."""
    return str((pod["metadata"].get("labels") or {}).get("volcano.sh/task-spec", ""))


def is_done(pod: Json) -> bool:
    """Did it succeed?"""
    return bool(at(pod, "status", "phase") == "Succeeded")

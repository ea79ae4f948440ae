"""Volcano's admission: defaults, the CRDs' schemas, and refusals, in the recorded words (13, 14).

The order is the server's: defaults, then the schema (422), then rules (400 without a reason).
"""

from collections.abc import Callable

from simulator.kubernetes import errors
from simulator.kubernetes.calls import Review
from simulator.kubernetes.errors import ApiError, Json, denied
from simulator.kubernetes.objects import at
from simulator.kubernetes.quantities import number
from simulator.kubernetes.resources import BY_PLURAL
from simulator.volcano.rules import job_problems, queue_problems
from simulator.volcano.schema import problems

_CHANGES = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` "
    "and `PriorityClassName`"
)


def admit(review: Review) -> Json | None:
    """The object to keep; ApiError refuses. What Volcano does not watch passes as it is."""
    if review.subresource:
        return review.new
    try:
        return _admitted(review)
    except (AttributeError, KeyError, TypeError) as error:
        # Fields of the wrong kind; the words vary with the field.
        raise _refused("mutatejob", f"json: cannot unmarshal: {error}") from None


def _admitted(review: Review) -> Json | None:
    handler = _HANDLERS.get((review.resource.plural, review.verb))
    new = handler(review) if handler else review.new
    if new is not None:
        found = problems(review.resource.plural, new)
        if found:
            raise errors.invalid(review.resource, new["metadata"].get("name", ""), found)
    after = _RULES.get((review.resource.plural, review.verb))
    if after:
        after(review, new or {})
    return new


def _refused(webhook: str, message: str) -> ApiError:
    return denied(f"{webhook}.volcano.sh", message)


def _default_job(review: Review) -> Json:
    return defaulted_job(review.new or {})


def defaulted_job(new: Json) -> Json:
    """A job with what Volcano fills in when it is made."""
    spec = dict(new.get("spec") or {})
    tasks = spec.get("tasks")
    if isinstance(tasks, list):
        spec["tasks"] = [_default_task(task, place) for place, task in enumerate(tasks)]
    spec["queue"] = spec.get("queue") or "default"
    spec["schedulerName"] = spec.get("schedulerName") or "volcano"
    spec["maxRetry"] = spec.get("maxRetry") or 3
    topology = spec.get("networkTopology")
    if isinstance(topology, dict):
        spec["networkTopology"] = {"mode": "hard", **topology}
    if not spec.get("minAvailable") and isinstance(tasks, list):
        spec["minAvailable"] = sum(task.get("minAvailable", 0) for task in spec["tasks"])
    return {**new, "spec": spec}


def _default_task(task: Json, place: int) -> Json:
    replicas = task.get("replicas", 1)
    if not isinstance(replicas, int):
        raise _refused(
            "mutatejob",
            "json: cannot unmarshal string into Go struct field TaskSpec.spec.tasks.replicas of "
            "type int32",
        )
    for container in at(task, "template", "spec", "containers") or []:
        for amounts in (container.get("resources") or {}).values():
            _check_amounts(amounts)
    made = {"maxRetry": 3, "minAvailable": replicas, **task, "replicas": replicas}
    made["name"] = task.get("name") or f"default{place}"
    return made


def _check_amounts(amounts: Json) -> None:
    try:
        for value in amounts.values():
            number(value)
    except ValueError as error:
        raise _refused("mutatejob", str(error)) from None


def _default_queue(review: Review) -> Json:
    new = review.new or {}
    given = {k: v for k, v in (new.get("spec") or {}).items() if not (k == "weight" and v == 0)}
    spec = {"weight": 1, "parent": "root", "reclaimable": True, **given}
    if new["metadata"].get("name") == "root":
        spec.pop("parent")
    return {**new, "spec": spec}


def _default_podgroup(review: Review) -> Json:
    new = review.new or {}
    return {**new, "spec": {"queue": "default", "minMember": 1, **(new.get("spec") or {})}}


def _check_job(review: Review, new: Json) -> None:
    refused = job_problems(review.store, new)
    if refused:
        raise _refused("validatejob", refused)


def _check_change(review: Review, new: Json) -> None:
    old = review.old or {}
    if len(new["spec"]["tasks"]) != len(old["spec"]["tasks"]):
        raise _refused("validatejob", "job updates may not add or remove tasks")
    total = sum(task.get("replicas", 1) for task in new["spec"]["tasks"])
    if new["spec"]["minAvailable"] > total:
        why = "job 'minAvailable' must not be greater than total replicas"
        raise _refused("validatejob", why)
    if _fixed(new["spec"]) != _fixed(old["spec"]):
        raise _refused("validatejob", _CHANGES)


def _fixed(spec: Json) -> Json:
    """What may not change."""
    free = {"minAvailable", "priorityClassName", "tasks"}
    tasks = [
        {k: v for k, v in task.items() if k not in {"replicas", "minAvailable"}}
        for task in spec["tasks"]
    ]
    return {**{k: v for k, v in spec.items() if k not in free}, "tasks": tasks}


def _check_queue(review: Review, new: Json) -> None:
    refused = queue_problems(review.store, new)
    if refused:
        raise _refused("validatequeue", refused)


def _check_queue_deletion(review: Review, new: Json) -> None:
    name = at(review.old, "metadata", "name")
    if name in {"root", "default"}:
        raise _refused("validatequeue", f"`{name}` queue can not be deleted")


def _check_podgroup(review: Review, new: Json) -> None:
    name = new["spec"]["queue"]
    queue = review.store.find(BY_PLURAL["queues"], "", name)
    if queue is None:
        why = f'unable to find queue: queue.scheduling.volcano.sh "{name}" not found'
        raise _refused("validatepodgroup", why)
    state = at(queue, "status", "state") or "Open"
    if state != "Open":
        raise _refused(
            "validatepodgroup",
            f"can only submit PodGroup to queue with state `Open`, queue `{name}` status is "
            f"`{state}`.",
        )


def _check_hypernode(review: Review, new: Json) -> None:
    if not at(new, "spec", "members"):
        raise _refused(
            "validatehypernodes",
            "[].spec.members: Invalid value: null: member must have at least one member",
        )


_HANDLERS: dict[tuple[str, str], Callable[[Review], Json]] = {
    ("jobs", "create"): _default_job,
    ("queues", "create"): _default_queue,
    ("podgroups", "create"): _default_podgroup,
}
_RULES: dict[tuple[str, str], Callable[[Review, Json], None]] = {
    ("jobs", "create"): _check_job,
    ("jobs", "update"): _check_change,
    ("jobs", "patch"): _check_change,
    ("queues", "create"): _check_queue,
    ("queues", "update"): _check_queue,
    ("queues", "patch"): _check_queue,
    ("queues", "delete"): _check_queue_deletion,
    ("podgroups", "create"): _check_podgroup,
    ("hypernodes", "create"): _check_hypernode,
}

"""What Volcano's webhooks refuse (400), in the recorded words (12, 13)."""

from collections import Counter
from collections.abc import Iterable, Iterator

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at
from simulator.kubernetes.quantities import number
from simulator.kubernetes.resources import BY_PLURAL
from simulator.kubernetes.store import Store
from simulator.volcano.plugins import KNOWN

_EVENTS: tuple[str, ...] = (
    "*",
    "PodPending",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
)
_EVENTS += ("JobUpdated",)
_ACTIONS: tuple[str, ...] = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
)
_ACTIONS += ("TerminateJob", "CompleteJob", "ResumeJob")
_MOST_NAME = 63


def job_problems(store: Store, job: Json) -> str:
    """Why a new job is refused, "" if it is not. The fatal ones come first and alone."""
    spec = job.get("spec") or {}
    tasks = spec.get("tasks") or []
    if not tasks:
        return "No task specified in job spec"
    first = next(_fatal(spec, tasks), "")
    if first:
        return first
    return "".join(_rest(store, job, spec, tasks))


def _fatal(spec: Json, tasks: list[Json]) -> Iterator[str]:
    topology = spec.get("networkTopology") or {}
    if "highestTierAllowed" in topology and "highestTierName" in topology:
        yield (
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology "
            "simultaneously"
        )
    for volume in spec.get("volumes") or []:
        if volume.get("volumeClaim") and volume.get("volumeClaimName"):
            yield (
                "conflict: If you want to use an existing PVC, just specify VolumeClaimName.If you "
                "want to create a new PVC, you do not need to specify VolumeClaimName"
            )
        if not volume.get("volumeClaim") and not volume.get("volumeClaimName"):
            yield "either VolumeClaim or VolumeClaimName must be specified;"
    for place, task in enumerate(tasks):
        yield from _template(f"spec.task[{place}].template.spec", task)


def _template(path: str, task: Json) -> Iterator[str]:
    containers = at(task, "template", "spec", "containers") or []
    if not containers:
        yield f"{path}.containers: Required value."
    for place, container in enumerate(containers):
        where = f"{path}.containers[{place}]"
        if not container.get("image"):
            yield f"{where}.image: Required value."
        limits = at(container, "resources", "limits") or {}
        asked = at(container, "resources", "requests") or {}
        for name, value in {**asked, **limits}.items():
            if "/" in name:
                yield from _device(where, name, value, asked.get(name), limits.get(name))


def _device(
    where: str, name: str, value: str, asked: str | None, limit: str | None
) -> Iterator[str]:
    """Devices cannot be shared out: a limit, equal to the request, in whole numbers."""
    if limit is None:
        yield (
            f"{where}.resources.limits: Required value: Limit must be set for non overcommitable "
            "resources."
        )
    elif asked is not None and number(asked) != number(limit):
        yield (
            f'{where}.resources.requests: Invalid value: "{asked}": must be equal to {name} limit '
            f"of {limit}."
        )
    elif number(value) != int(number(value)):
        shown = f"{round(number(value) * 1000)}m"
        yield f'{where}.resources.limits[{name}]: Invalid value: "{shown}": must be an integer.'


def _rest(store: Store, job: Json, spec: Json, tasks: list[Json]) -> Iterator[str]:
    name = job["metadata"].get("name", "")
    for task, times in Counter(task["name"] for task in tasks).items():
        if times > 1:
            yield f"duplicated task name {task};"
    for task in tasks:
        if task["minAvailable"] > task["replicas"]:
            yield f"'minAvailable' is greater than 'replicas' in task: {task['name']}, job: {name}; "
        yield from _partitions(task, name)
    if spec["minAvailable"] > sum(task["replicas"] for task in tasks):
        yield "job 'minAvailable' should not be greater than total replicas in tasks;"
    for policies in [spec.get("policies"), *(task.get("policies") for task in tasks)]:
        yield from _policies(policies or [])
    yield from (
        f"unable to find job plugin: {p};" for p in spec.get("plugins") or {} if p not in KNOWN
    )
    yield from _names(name, tasks)
    yield from _queue(store, spec["queue"])


def _names(name: str, tasks: list[Json]) -> Iterator[str]:
    """The webhook looks at the position of the task, not at the highest index (13b)."""
    for place, task in enumerate(tasks):
        pod = f"{name}-{task['name']}-{place}"
        if len(pod) > _MOST_NAME:
            yield (
                f"create pod with name {pod} validate failed [name part must be no more than "
                f"{_MOST_NAME} bytes];"
            )


def _partitions(task: Json, job: str) -> Iterator[str]:
    policy = task.get("partitionPolicy")
    if not policy:
        return
    size, least = policy.get("partitionSize", 0), policy.get("minPartitions", 0)
    where = f"in task: {task['name']}, job: {job}"
    if task["replicas"] != policy.get("totalPartitions", 0) * size:
        yield f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
    elif least and task["minAvailable"] not in {least * size, task["replicas"]}:
        yield f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"


def _policies(policies: list[Json]) -> Iterator[str]:
    seen: set[str] = set()
    for policy in policies:
        events = [e for e in [policy.get("event"), *(policy.get("events") or [])] if e]
        wrong = _policy(policy, events, seen)
        if wrong:
            yield f"1 error occurred:\n\t* {wrong}\n\n valid events are {_EVENTS}, valid actions "
            return
        seen |= set(events)
    if "*" in seen and len(seen) > 1:
        yield "1 error occurred:\n\t* if there's * here, no other policy should be here\n\n"


def _policy(policy: Json, events: list[str], seen: set[str]) -> str:
    code = policy.get("exitCode")
    if code is None and not events:
        return "either event and exitCode should be specified"
    if code is not None and events:
        return "must not specify event and exitCode simultaneously"
    if code == 0:
        return "0 is not a valid error code"
    for event in events:
        if event not in _EVENTS:
            return f'spec.policies: Invalid value: "{event}": invalid policy event'
        if event in seen:
            return f"duplicate event {event}  across different policy"
    if policy.get("action") not in _ACTIONS:
        return f'spec.policies: Invalid value: "{policy.get("action")}": invalid policy action'
    return ""


def _queue(store: Store, name: str) -> Iterable[str]:
    queue = store.find(BY_PLURAL["queues"], "", name)
    if queue is None:
        return [f'unable to find job queue: queue.scheduling.volcano.sh "{name}" not found']
    if name == "root":
        return ["can not submit job to root queue;"]
    children = [q for q in store.all(BY_PLURAL["queues"]) if at(q, "spec", "parent") == name]
    if children:
        return [
            f"can only submit job to leaf queue, queue `{name}` has {len(children)} child queues;"
        ]
    state = at(queue, "status", "state") or "Open"
    if state != "Open":
        return [
            f"can only submit job to queue with state `Open`, queue `{name}` status is `{state}`;"
        ]
    return []


def queue_problems(store: Store, queue: Json) -> str:
    """Why a queue is refused: guarantee <= deserved <= capability; "" if it is not."""
    spec, name = queue["spec"], queue["metadata"].get("name", "")
    parent = spec.get("parent", "root")
    if name != "root" and store.find(BY_PLURAL["queues"], "", parent) is None:
        return (
            f"failed to get parent queue {parent} of queue {name}: queue.scheduling.volcano.sh "
            f'"{parent}" not found'
        )
    path = "requestBody.spec"
    capability, deserved = spec.get("capability") or {}, spec.get("deserved") or {}
    for resource, value in capability.items():
        if number(value) < 0:
            return (
                f'{path}.capability.{resource}: Invalid value: "{value}": must be greater than or '
                "equal to 0"
            )
    for resource, value in deserved.items():
        most = capability.get(resource)
        if most is not None and number(value) > number(most):
            return (
                f'{path}.deserved.{resource}: Invalid value: "{value}": deserved[{resource}]='
                f"{value} must be <= capability[{resource}]={most}"
            )
    return _guarantee(path, at(spec, "guarantee", "resource") or {}, deserved)


def _guarantee(path: str, guarantee: Json, deserved: Json) -> str:
    for resource, value in guarantee.items():
        has = deserved.get(resource)
        shown = f"{path}.deserved.{resource}: Invalid value"
        if has is None:
            return (
                f'{shown}: "<nil>": deserved[{resource}] must be >= guarantee[{resource}]={value}'
            )
        if number(has) < number(value):
            return (
                f'{shown}: "{has}": deserved[{resource}]={has} must be >= guarantee[{resource}]='
                f"{value}"
            )
    return ""

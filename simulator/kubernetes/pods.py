"""What the API server itself does to pods: defaults, built-in admission, binding, eviction, log."""

from typing import Any

from simulator.kubernetes import errors
from simulator.kubernetes.calls import Answer, Call, answer
from simulator.kubernetes.deletion import Wish, delete
from simulator.kubernetes.errors import ApiError, Json, success
from simulator.kubernetes.objects import at, instant, key_of
from simulator.kubernetes.quantities import as_text, number, total
from simulator.kubernetes.resources import BY_PLURAL
from simulator.kubernetes.store import Store

_PODS = BY_PLURAL["pods"]
_ENDED = {"Succeeded", "Failed"}
_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_S = 300


def admitted(store: Store, pod: Json) -> Json:
    """A new pod with its defaults; 403 if a class, account or quota does not allow it."""
    spec: Json = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        **pod.get("spec", {}),
    }
    spec["priority"] = _priority(store, pod, spec)
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    _check_account(store, pod, spec)
    _check_quotas(store, pod, spec)
    return {**pod, "spec": spec, "status": {"phase": "Pending", "qosClass": _quality(spec)}}


def _refused(pod: Json, why: str) -> ApiError:
    meta = pod["metadata"]
    name = meta.get("name") or meta.get("generateName", "")
    return ApiError(
        403,
        "Forbidden",
        f'pods "{name}" is forbidden: {why}',
        details=errors.details_of(_PODS, name),
    )


def _priority(store: Store, pod: Json, spec: Json) -> int:
    name = spec.get("priorityClassName", "")
    if not name:
        return 0
    found = store.find(BY_PLURAL["priorityclasses"], "", name)
    if found is None:
        raise _refused(pod, f"no PriorityClass with name {name} was found")
    return int(found.get("value", 0))


def _tolerations(given: list[Json]) -> list[Json]:
    named = {(t.get("key"), t.get("effect")) for t in given}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_S}
        for key in _TOLERATED
        if (key, "NoExecute") not in named and (key, None) not in named
    ]
    return [*given, *added]


def _check_account(store: Store, pod: Json, spec: Json) -> None:
    name = spec["serviceAccountName"]
    namespace = pod["metadata"].get("namespace", "")
    # Every namespace has the default one.
    if name == "default":
        return
    if store.find(BY_PLURAL["serviceaccounts"], namespace, name) is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" '
        raise _refused(pod, f"{why}not found")


def _check_quotas(store: Store, pod: Json, spec: Json) -> None:
    namespace = pod["metadata"].get("namespace", "")
    for quota in store.all(BY_PLURAL["resourcequotas"], namespace):
        hard = at(quota, "spec", "hard") or {}
        asked = {k: v for k, v in _counted(spec).items() if k in hard}
        if not asked:
            continue
        used = total(
            {k: v for k, v in _counted(other["spec"]).items() if k in hard}
            for other in store.all(_PODS, namespace)
            if at(other, "status", "phase") not in _ENDED
        )
        over = [k for k, v in asked.items() if used.get(k, 0) + v > number(hard[k])]
        if over:
            told = ", ".join(f"{k}={as_text(asked[k])}" for k in over)
            full = ", ".join(f"{k}={as_text(used.get(k, 0))}" for k in over)
            most = ", ".join(f"{k}={hard[k]}" for k in over)
            name = quota["metadata"]["name"]
            raise _refused(
                pod, f"exceeded quota: {name}, requested: {told}, used: {full}, limited: {most}"
            )


def _counted(spec: Json) -> dict[str, float]:
    found = {f"requests.{k}": v for k, v in requests(spec).items()}
    return {**found, "pods": 1}


def requests(spec: Json) -> dict[str, float]:
    """What all containers of a pod ask for, as numbers; limits stand in for requests."""
    return total(
        {
            name: number(value)
            for name, value in {
                **(at(container, "resources", "limits") or {}),
                **(at(container, "resources", "requests") or {}),
            }.items()
        }
        for container in spec.get("containers", [])
    )


def _quality(spec: Json) -> str:
    resources = [container.get("resources") or {} for container in spec.get("containers", [])]
    if not any(r.get("limits") or r.get("requests") for r in resources):
        return "BestEffort"
    sure = all(
        {"cpu", "memory"} <= set(r.get("limits") or {})
        and (r.get("requests") or r["limits"]) == r["limits"]
        for r in resources
    )
    return "Guaranteed" if sure else "Burstable"


def bound(store: Store, namespace: str, name: str, node: str, now_ms: int) -> None:
    """Put a pod on a node; 409 if it is on one."""
    pod = store.get(_PODS, (namespace, name))
    on = at(pod, "spec", "nodeName")
    if on:
        why = f'pod {name} is already assigned to node "{on}"'
        raise ApiError(
            409,
            "Conflict",
            f'Operation cannot be fulfilled on pods/binding "{name}": {why}',
            details=errors.details_of(_PODS, name),
        )
    condition = {"type": "PodScheduled", "status": "True"}
    status = {**pod["status"], "conditions": with_condition(pod["status"], condition, now_ms)}
    store.update(_PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status})


def with_condition(status: Json, condition: Json, now_ms: int) -> list[Json]:
    """The conditions with this one in place of its like; the time stays if its state does."""
    known: list[Json] = status.get("conditions") or []
    old = next((c for c in known if c["type"] == condition["type"]), None)
    changed = old is None or old["status"] != condition["status"]
    moment = instant(now_ms) if old is None or changed else old.get("lastTransitionTime")
    new = {**condition, "lastProbeTime": None, "lastTransitionTime": moment}
    if old is None:
        return [*known, new]
    return [new if c["type"] == condition["type"] else c for c in known]


def bind(store: Store, call: Call) -> Answer:
    """POST of a Binding."""
    body: Any = call.decoded() or {}
    target = call.target
    bound(store, target.namespace, target.name, at(body, "target", "name") or "", call.now_ms)
    return answer(success(code=201), 201)


def evict(store: Store, call: Call) -> Answer:
    """POST of an Eviction: a delete with a condition that says so. No disruption budgets."""
    key = (call.target.namespace, call.target.name)
    pod = store.get(_PODS, key)
    told = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    told["message"] = "Eviction API: evicting"
    status = {**pod["status"], "conditions": with_condition(pod["status"], told, call.now_ms)}
    if not call.dry:
        options = at(call.decoded() or {}, "deleteOptions") or {}
        store.update(_PODS, {**pod, "status": status})
        wish = Wish(options.get("gracePeriodSeconds"), at(options, "preconditions", "uid") or "")
        delete(store, _PODS, key, wish, call.now_ms)
    return answer(success(code=201), 201)


def log(store: Store, call: Call) -> Answer:
    """What a container wrote: the lines of `muster-sim/log`, or when it started and ended."""
    pod = store.get(_PODS, (call.target.namespace, call.target.name))
    statuses = at(pod, "status", "containerStatuses") or []
    state = statuses[0]["state"] if statuses else {"waiting": {"reason": "ContainerCreating"}}
    if "waiting" in state:
        name = at(pod, "spec", "containers")[0]["name"]
        raise errors.bad_request(
            f'container "{name}" in pod "{key_of(pod)[1]}" is waiting to start: '
            f"{state['waiting']['reason']}"
        )
    text: str = (pod["metadata"].get("annotations") or {}).get("muster-sim/log", "")
    lines = text.splitlines() or [f"{what} {state[what]}" for what in state]
    most = call.query.get("tailLines", "")
    lines = lines[-int(most) :] if most.isdigit() and int(most) else lines
    return Answer(200, "".join(f"{line}\n" for line in lines), content_type="text/plain")

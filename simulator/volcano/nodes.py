"""The node controllers: what becomes of a node whose kubelet is silent, and of its pods (09)."""

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at, instant, is_going, ms_of
from simulator.kubernetes.pods import with_condition
from simulator.volcano.fitting import tolerates
from simulator.volcano.kubelets import SILENT
from simulator.volcano.writes import Merge, Note, Status, Write, delete

UNKNOWN_AFTER_MS = 45_000
COLLECTED_AFTER_MS = 45_000
_UNREACHABLE = "node.kubernetes.io/unreachable"
_NOT_READY = "node.kubernetes.io/not-ready"


def look_after(node: Json, now_ms: int) -> list[Write]:
    """The next writes for a node: its Ready condition, then taints that fit it."""
    since = (node["metadata"].get("annotations") or {}).get(SILENT)
    ready = _ready(node)
    if since and ready == "True" and now_ms >= int(since) + UNKNOWN_AFTER_MS:
        told = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        told["message"] = "Kubelet stopped posting node status."
        return _told(node, told, now_ms)
    if not since and ready == "Unknown":
        return _told(node, {"type": "Ready", "status": "True", "reason": "KubeletReady"}, now_ms)
    return _tainted(node, now_ms)


def _ready(node: Json) -> str:
    conditions: list[Json] = at(node, "status", "conditions") or []
    return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), "Unknown")


def _told(node: Json, condition: Json, now_ms: int) -> list[Write]:
    conditions = with_condition(node["status"], condition, now_ms)
    status = {**node["status"], "conditions": conditions}
    return [Status("nodes", "", node["metadata"]["name"], status)]


def _tainted(node: Json, now_ms: int) -> list[Write]:
    wanted = {"Unknown": _UNREACHABLE, "False": _NOT_READY}.get(_ready(node))
    taints: list[Json] = at(node, "spec", "taints") or []
    kept = [t for t in taints if t["key"] not in {_UNREACHABLE, _NOT_READY} or t["key"] == wanted]
    if wanted and not any(t["key"] == wanted for t in kept):
        moment = instant(now_ms)
        kept += [
            {"key": wanted, "effect": effect, "timeAdded": moment}
            for effect in ("NoSchedule", "NoExecute")
        ]
    if kept == taints:
        return []
    return [Merge("nodes", "", node["metadata"]["name"], {"spec": {"taints": kept or None}})]


def evicted_at_ms(pod: Json, node: Json) -> int | None:
    """When a pod is evicted for its node's taints, None for never."""
    if is_going(pod):
        return None
    due: list[int] = []
    for taint in at(node, "spec", "taints") or []:
        if taint.get("effect") != "NoExecute":
            continue
        patience = [
            t.get("tolerationSeconds")
            for t in at(pod, "spec", "tolerations") or []
            if tolerates(t, taint)
        ]
        limits = [seconds for seconds in patience if seconds is not None]
        if not patience or limits:
            due.append(ms_of(taint["timeAdded"]) + 1000 * min(limits, default=0))
    return min(due, default=None)


def evict(pod: Json, now_ms: int) -> list[Write]:
    """The taint manager's eviction."""
    meta = pod["metadata"]
    said = f"Marking for deletion Pod {meta['namespace']}/{meta['name']}"
    told = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    told["message"] = "Taint manager: deleting due to NoExecute taint"
    return [Note(pod, "Normal", "TaintManagerEviction", said), *_going(pod, told, now_ms)]


def collect(pod: Json, now_ms: int) -> list[Write]:
    """The pod garbage collector: the node is no more."""
    told = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
    told["message"] = "PodGC: node no longer exists"
    marked = _going(pod, told, now_ms, phase="Failed")
    return [*marked[:-1], delete("pods", pod, 0)]


def _going(pod: Json, condition: Json, now_ms: int, phase: str = "") -> list[Write]:
    status = {**pod["status"], "conditions": with_condition(pod["status"], condition, now_ms)}
    if phase:
        status["phase"] = phase
    meta = pod["metadata"]
    return [Status("pods", meta["namespace"], meta["name"], status), delete("pods", pod)]

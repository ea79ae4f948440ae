"""A Kubernetes node as Muster sees it: its GPUs, its state, and why it takes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusters.backends.volcano.quantities import held
from clusters.backends.volcano.topology import Path
from clusters.core.devices import Device
from clusters.core.observation import NodeSeen, NodeState
from clusters.core.resources import NodeShape

Json = Mapping[str, Any]

# Resources of GPUs by vendor, and the labels of the vendors' operators that tell one model from
# another on the same resource.
RESOURCES: Mapping[str, tuple[str, ...]] = {
    "nvidia.com/gpu": ("nvidia.com/gpu.product",),
    "amd.com/gpu": ("amd.com/gpu.product-name", "amd.com/gpu.device-id"),
    "huawei.com/Ascend910": ("node.kubernetes.io/npu.chip.name", "accelerator-type"),
    "habana.ai/gaudi": (),
    "gpu.intel.com/i915": (),
}
HOSTNAME = "kubernetes.io/hostname"
# Taints that only repeat what the Ready condition and the cordon say.
_KNOWN = {f"node.kubernetes.io/{what}" for what in ("not-ready", "unreachable", "unschedulable")}


def device_of(node: Json) -> str:
    """The GPUs of a node: their resource, with `:` and the model where a label names it; "" = none."""
    allocatable = node["status"].get("allocatable") or {}
    labels = node["metadata"].get("labels") or {}
    for resource, named_by in RESOURCES.items():
        if resource in allocatable:
            model = next((labels[label] for label in named_by if labels.get(label)), "")
            return f"{resource}:{model}" if model else resource
    return ""


def resource_of(device: str) -> str:
    """The resource that a pod asks for to get the device."""
    return device.partition(":")[0]


def node_seen(
    node: Json,
    path: Path,
    tolerated: frozenset[str] = frozenset(),
    queues: tuple[str, ...] = (),
    devices: Sequence[Device] = (),
) -> NodeSeen:
    """A node. Its GPUs are those that its device plugin calls healthy (`allocatable`).

    `tolerated` are keys of taints that our pods tolerate; any of the `queues` reaches it. The first
    of the `devices` that is on it names its GPUs.
    """
    allocatable = node["status"].get("allocatable") or {}
    labels = node["metadata"].get("labels") or {}
    named = next((one for one in devices if one.is_on(labels, allocatable)), None)
    device = named.name if named else device_of(node)
    resource = named.resource if named else resource_of(device)
    shape = held(allocatable, resource) if device else NodeShape(0, 0, 0)
    state, reason = _state(node, tolerated.union(named.tolerated) if named else tolerated)
    return NodeSeen(
        node["metadata"]["name"],
        state,
        device,
        shape.gpus,
        shape.cpus,
        shape.memory_mib,
        path,
        queues,
        reason=reason or _unhealthy(node, resource),
    )


def _state(node: Json, tolerated: frozenset[str]) -> tuple[NodeState, str]:
    """Whether it takes new work, and why not. Down beats unsure, unsure beats draining."""
    ready = _condition(node, "Ready")
    words = ": ".join(filter(None, (ready.get("reason"), ready.get("message"))))
    if node["metadata"].get("deletionTimestamp") or ready.get("status") == "False":
        return NodeState.DOWN, words
    if ready.get("status") != "True":
        return NodeState.UNKNOWN, words or "its kubelet has not said that it is ready"
    name, label = node["metadata"]["name"], (node["metadata"].get("labels") or {}).get(HOSTNAME)
    if label not in (None, name):
        return (
            NodeState.DRAINING,
            f"its label {HOSTNAME} is not its name: no gang can be pinned there",
        )
    spec = node.get("spec") or {}
    taint = next(_taints(spec, tolerated), "")
    if spec.get("unschedulable") or taint:
        return NodeState.DRAINING, f"taint {taint}" if taint else "cordoned"
    return NodeState.UP, ""


def _taints(spec: Json, tolerated: frozenset[str]) -> Iterator[str]:
    """The taints that keep our pods away, as kubectl writes them."""
    for taint in spec.get("taints") or ():
        key, effect = taint["key"], taint["effect"]
        if effect == "PreferNoSchedule" or key in tolerated or key in _KNOWN:
            continue
        value = f"={taint['value']}" if taint.get("value") else ""
        yield f"{key}{value}:{effect}"


def _condition(node: Json, kind: str) -> Json:
    conditions = node["status"].get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})


def _unhealthy(node: Json, resource: str) -> str:
    """What a device plugin took out: such GPUs are in `capacity` and not in `allocatable`."""
    if not resource:
        return ""
    status = node["status"]
    has = held(status.get("capacity") or {}, resource).gpus
    gives = held(status.get("allocatable") or {}, resource).gpus
    return f"{has - gives} of {has} GPUs are not healthy" if has > gives else ""

"""GPUs of a Kubernetes cluster that an admin names: options `device.*` and `tolerate*`.

Two flavors may share one resource; then only the labels of their nodes tell them apart.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# What counts as GPUs there. Another resource would be given away without being counted.
GPU_RESOURCES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "huawei.com/Ascend910",
    "habana.ai/gaudi",
    "gpu.intel.com/i915",
)
FORM = f"a resource and labels, as in nvidia.com/gpu,pool=train ({', '.join(GPU_RESOURCES)})"
_LABEL = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
    r"=(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
)


@dataclass(frozen=True, slots=True)
class Device:
    """GPUs by the admin's name: their resource, the labels of their nodes, taints tolerated there."""

    name: str
    resource: str
    labels: tuple[tuple[str, str], ...]
    tolerated: tuple[str, ...] = ()

    def is_on(self, labels: Mapping[str, str], resources: Mapping[str, object]) -> bool:
        """Whether a node that bears and gives these has such GPUs."""
        return self.resource in resources and all(
            labels.get(label) == value for label, value in self.labels
        )


def is_device(value: str) -> bool:
    """Whether the value of an option `device.*` has its form: no label stands twice."""
    resource, *labels = words(value)
    keys = [label.partition("=")[0] for label in labels]
    return (
        resource in GPU_RESOURCES
        and bool(labels)
        and all(_LABEL.fullmatch(label) for label in labels)
        and len(set(keys)) == len(keys)
    )


def words(value: str) -> list[str]:
    """The parts of a comma-separated value, without the blanks around them."""
    return [part.strip() for part in value.split(",")]


def resource_of(options: Mapping[str, str], device: str) -> str:
    """The resource of a device: the named one's, else what stands before the model."""
    named = (one.resource for one in devices_of(options) if one.name == device)
    return next(named, device.partition(":")[0])


def devices_of(options: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices that the options name: the one with the most labels first, then by name."""
    found = []
    for key, value in options.items():
        if (name := key.removeprefix("device.")) != key:
            resource, *labels = words(value)
            pairs = (label.partition("=") for label in labels)
            found.append(
                Device(
                    name,
                    resource,
                    tuple((label, text) for label, _, text in pairs),
                    tuple(filter(None, words(options.get(f"tolerate.{name}", "")))),
                )
            )
    return tuple(sorted(found, key=lambda device: (-len(device.labels), device.name)))

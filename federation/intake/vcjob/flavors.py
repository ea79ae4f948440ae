"""Which GPU models a Volcano Job may have: by the resource that it asks for and the labels of nodes."""

from collections.abc import Iterator
from typing import Final

from federation.core.spec.kinds import did_you_mean
from federation.intake.findings import Findings
from federation.intake.place import Narrowing, Place, listed, narrowed
from federation.intake.vcjob.pod import Pod

_EVERYWHERE: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def choose_flavors(pod: Pod, place: Place, findings: Findings) -> list[str]:
    """The acceptable flavors: those asked for, else those of the quota, narrowed by the pod.

    Empty where none is left, which is told unless the tenant is missing.
    """
    findings.origins["/flavors"] = pod.need.lines["gpus"]
    return narrowed(place, _narrowings(pod, place, findings), findings)


def _narrowings(pod: Pod, place: Place, findings: Findings) -> Iterator[Narrowing]:
    """The fields that name GPU models; what is none is told."""
    resource, line = pod.need.resource, pod.need.lines["gpus"]
    named = frozenset(_of_resource(resource.lower(), place))
    if named:
        yield Narrowing(line, resource, "It means", named)
    else:
        resources = sorted({name.partition(":")[0] for name in place.models if "/" in name})
        there = f" There are {listed(resources)}." if resources else ""
        near = did_you_mean(resource, resources)
        detail = f"No cluster has GPUs under this name.{near}{there}"
        findings.refuse(line, "unknown_gpu", resource, detail)
    for label, value in pod.selected.items():
        at, path = pod.lines[f"select/{label}"], f"{pod.at.path}.nodeSelector.{label[:100]}"
        if _EVERYWHERE.get(label) == value:
            findings.drop(at, path, "All nodes are such.")
        elif models := frozenset(_of_model(value.lower(), place)):
            yield Narrowing(at, path, "It means", models)
        else:
            detail = (
                f"{value[:60]!r} names no GPU model. Labels of nodes are each cluster's own, and "
                "Muster pins nodes by itself. Take it out, or ask for a GPU model."
            )
            findings.refuse(at, "refused", path, detail)


def _of_resource(resource: str, place: Place) -> Iterator[str]:
    for name, flavors in place.models.items():
        if name.partition(":")[0] == resource:
            yield from flavors


def _of_model(model: str, place: Place) -> Iterator[str]:
    """Flavors that are called so, alone or as the model of a resource."""
    for name, flavors in place.models.items():
        if model in (name, name.partition(":")[2]):
            yield from flavors

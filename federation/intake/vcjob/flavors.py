"""Which GPU models a Volcano Job may have: by the resource that it asks for and the labels of nodes."""

from collections.abc import Iterator
from typing import Final

from federation.core.spec.kinds import did_you_mean
from federation.intake.findings import Findings
from federation.intake.place import MOST_FLAVORS, Place, listed
from federation.intake.vcjob.pod import Pod

_EVERYWHERE: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def choose_flavors(pod: Pod, place: Place, findings: Findings) -> list[str]:
    """The acceptable flavors: those asked for, else those of the quota, narrowed by the pod.

    Empty where none is left, which is told unless the tenant is missing.
    """
    known = len(findings.problems)
    left = place.asked or place.entitled
    findings.origins["/flavors"] = pod.need.lines["gpus"]
    for what, line, named in _narrowings(pod, place, findings):
        if left and not named.intersection(left):
            detail = f"It means {listed(sorted(named))}, but {place.source} {listed(left)}."
            findings.refuse(line, "flavor_not_accepted", what, detail)
        left = tuple(flavor for flavor in left if flavor in named)
    if not left and len(findings.problems) == known and isinstance(place.tenant, str):
        detail = (
            f"{place.tenant} has no quota for any GPU model, nor has a tenant above it. "
            "Ask its owner for quota, or name a model with ?flavor=."
        )
        findings.refuse(1, "no_flavor", "", detail)
    return list(left[:MOST_FLAVORS])


def _narrowings(
    pod: Pod, place: Place, findings: Findings
) -> Iterator[tuple[str, int, frozenset[str]]]:
    """What narrows the flavors: where it stands, its line, and the flavors that it means."""
    resource, line = pod.need.resource, pod.need.lines["gpus"]
    named = frozenset(_of_resource(resource.lower(), place))
    if named:
        yield resource, line, named
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
            yield path, at, models
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

"""Kueue's quotas: `ClusterQueue`, `Cohort`, `LocalQueue`, `ResourceFlavor` (v1beta1 and v1beta2).

A cohort is a tenant, a cluster queue one below it. `nominalQuota` is what is guaranteed, the two
limits are ours of the same names. A cohort's own quota is beside its members': what it is
guaranteed here is the sum, and its own part is headroom.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quotas.core.imports.manifests import (
    Manifest,
    gpus_of,
    is_gpu,
    list_of,
    manifests,
    mapping_of,
    text_of,
    weight_of,
)
from quotas.core.imports.tree import Found, Owed, Unit

GROUP = "kueue.x-k8s.io"
COHORT = "cohort "  # begins the key of one: a cluster queue may have the same name
KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor")
_TAKEN = frozenset({"cohort", "cohortName", "parent", "parentName", "resourceGroups", "fairSharing",
                    "preemption", "namespaceSelector", "stopPolicy"})  # fmt: skip
_SAME = {  # what we do always, by field of `preemption`
    "reclaimWithinCohort": ("Any", "here an owner always takes back what others have as spot"),
    "withinClusterQueue": ("LowerPriority", "here a higher priority evicts a lower one"),
}


def parse_kueue(documents: Sequence[object]) -> Found:
    """The cohorts and cluster queues of the documents of a file."""
    found = Found()
    for one in manifests(documents, KINDS, GROUP, found):
        _read(found, one)
    _add_cohorts(found)
    if not found.units and not found.problems:
        found.wrong(0, "", "empty", "There is no ClusterQueue in it.")
    if not found.problems:
        for unit in found.from_below():
            _add_members(found, unit)
            if not unit.owed:
                found.note(unit.name, "has no GPUs, nor has any below it.")
    return found


def _read(found: Found, one: Manifest) -> None:
    if one.kind == "ResourceFlavor":
        if one.spec:
            words = "selects nodes; here clusters say which GPU models they have."
            found.note(f"ResourceFlavor {one.name}", words)
    elif one.kind == "LocalQueue":
        to = one.spec.get("clusterQueue")
        found.note(f"LocalQueue {one.name}", f"lets a namespace use {to}: give people roles there.")
    else:
        unit = _unit(found, one)
        found.units.append(unit)
        if one.kind == "ClusterQueue" and unit.parent is None:
            _lend_nothing(unit)


def _unit(found: Found, one: Manifest) -> Unit:
    names = ("parentName", "parent") if one.kind == "Cohort" else ("cohortName", "cohort")
    above = next((name for name in names if one.spec.get(name)), names[0])
    cohort = text_of(found, one, f"spec.{above}", one.spec.get(above))
    unit = Unit(one.name, f"{COHORT}{cohort}" if cohort else None, one.number)
    if one.kind == "Cohort":
        unit.key = f"{COHORT}{one.name}"
    sharing = mapping_of(found, one, "spec.fairSharing", one.spec.get("fairSharing"))
    unit.weight = weight_of(found, one, "spec.fairSharing.weight", sharing.get("weight"))
    for group in list_of(found, one, "spec.resourceGroups", one.spec.get("resourceGroups")):
        for flavor in list_of(found, one, "spec.resourceGroups.flavors", group.get("flavors")):
            _read_flavor(found, one, unit, flavor)
    _tell(found, one)
    return unit


def _read_flavor(found: Found, one: Manifest, unit: Unit, flavor: Mapping[str, Any]) -> None:
    word, where = str(flavor.get("name", "")), "spec.resourceGroups.flavors.resources"
    for resource in list_of(found, one, where, flavor.get("resources")):
        name = str(resource.get("name", ""))
        if not is_gpu(name):
            found.note(unit.name, f"has {name} of {word}: quotas here are of GPUs only.")
            continue
        at = f"{word}.{name}"
        owed, borrowed, lent = (
            gpus_of(found, one, f"{at}.{key}", resource.get(key))
            for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
        )
        if owed is None and resource.get("nominalQuota") is None:
            found.wrong(one.number, f"{at}.nominalQuota", "missing", "Give nominalQuota.")
        elif word in unit.owed:
            found.wrong(one.number, at, "duplicate", f"{word} has two kinds of GPUs.")
        elif lent is not None and lent > (owed or 0):
            words = f"It lends {lent} of {owed}."
            found.wrong(one.number, f"{at}.lendingLimit", "more_than_nominal", words)
        else:
            unit.owed[word] = Owed(owed or 0, borrowed, lent)


def _tell(found: Found, one: Manifest) -> None:
    preemption = mapping_of(found, one, "spec.preemption", one.spec.get("preemption"))
    for field, (same, words) in _SAME.items():
        given = preemption.get(field)
        if given not in (None, same):
            found.note(one.name, f"has {field}: {given}; {words}.")
    if preemption.get("borrowWithinCohort"):
        found.note(one.name, "has borrowWithinCohort; here what borrows evicts nobody.")
    if one.spec.get("namespaceSelector"):
        found.note(one.name, "selects namespaces; here people have roles.")
    if one.spec.get("stopPolicy") not in (None, "None"):
        found.note(one.name, f"is stopped ({one.spec['stopPolicy']}): close the tenant.")
    for name in one.spec:
        if name not in _TAKEN:
            found.note(one.name, f"has {name}, which no quota says.")


def _lend_nothing(unit: Unit) -> None:
    """Without a cohort nothing is borrowed or lent."""
    unit.owed = {word: Owed(owed.guaranteed, 0, 0) for word, owed in unit.owed.items()}


def _add_cohorts(found: Found) -> None:
    """Cohorts that are only named exist all the same."""
    known = {unit.key for unit in found.units}
    for unit in list(found.units):
        if unit.parent is not None and unit.parent not in known:
            known.add(unit.parent)
            name = unit.parent.removeprefix(COHORT)
            found.units.append(Unit(name, None, unit.number, key=unit.parent))


def _add_members(found: Found, unit: Unit) -> None:
    """A cohort is owed its own, and all that its members are."""
    for member in found.children(unit):
        for word, owed in member.owed.items():
            own = unit.owed.get(word, Owed(0))
            unit.owed[word] = replace(own, guaranteed=own.guaranteed + owed.guaranteed)

"""Volcano's queues: `Queue` manifests, flat or as a tree by `parent`.

`deserved` is what is guaranteed, `guarantee` the part of it that is never lent, `capability` the
most in all, `weight` the weight. Without `deserved` a queue is owed what the queues below it are.
"""

from collections.abc import Sequence

from quotas.core.imports.manifests import (
    Manifest,
    gpus_of,
    is_gpu,
    manifests,
    mapping_of,
    text_of,
    weight_of,
)
from quotas.core.imports.tree import Found, Owed, Unit

GROUP = "scheduling.volcano.sh"
ROOT = "root"
_TAKEN = ("deserved", "guarantee", "capability", "weight", "parent", "reclaimable", "type")
_Numbers = dict[str, tuple[int | None, int | None, int | None]]


def parse_volcano(documents: Sequence[object]) -> Found:
    """The queues of the documents of a file."""
    found = Found()
    numbers: dict[str, _Numbers] = {}
    for one in manifests(documents, ("Queue",), GROUP, found):
        if one.name == ROOT:
            found.note(ROOT, "is the whole there; here the tenants at the top have nothing above.")
            continue
        parent = text_of(found, one, "spec.parent", one.spec.get("parent"))
        unit = Unit(one.name, None if parent == ROOT else parent, one.number)
        unit.weight = weight_of(found, one, "spec.weight", one.spec.get("weight"))
        numbers[unit.key] = _numbers(found, one)
        found.units.append(unit)
        _tell(found, one)
    if not found.units and not found.problems:
        found.wrong(0, "", "empty", "There is no Queue in it.")
    if not found.problems:
        words = list(dict.fromkeys(word for given in numbers.values() for word in given))
        for unit in found.from_below():
            for word in words:
                _owe(found, unit, word, numbers[unit.key].get(word, (None, None, None)))
    return found


def _numbers(found: Found, one: Manifest) -> _Numbers:
    """By resource: deserved, guarantee, capability."""
    reserved = mapping_of(found, one, "spec.guarantee", one.spec.get("guarantee"))
    parts = (
        ("spec.deserved", one.spec.get("deserved")),
        ("spec.guarantee.resource", reserved.get("resource")),
        ("spec.capability", one.spec.get("capability")),
    )
    given = [(where, mapping_of(found, one, where, value)) for where, value in parts]
    names = list(dict.fromkeys(name for _, part in given for name in part))
    for name in names:
        if not is_gpu(name):
            found.note(one.name, f"has {name}: quotas here are of GPUs only.")
    numbers: _Numbers = {}
    for name in filter(is_gpu, names):
        deserved, kept, most = (
            gpus_of(found, one, f"{where}.{name}", part.get(name)) for where, part in given
        )
        numbers[name] = (deserved, kept, most)
    return numbers


def _tell(found: Found, one: Manifest) -> None:
    if one.spec.get("reclaimable") is False:
        found.note(one.name, "is not reclaimable; here owners take back what others have as spot.")
    for name in one.spec:
        if name not in _TAKEN:
            found.note(one.name, f"has {name}, which no quota says.")


def _owe(
    found: Found, unit: Unit, word: str, numbers: tuple[int | None, int | None, int | None]
) -> None:
    deserved, kept, most = numbers
    if deserved is None:
        below = sum(child.owed[word].guaranteed for child in found.children(unit)
                    if word in child.owed)  # fmt: skip
        deserved = max(below, kept or 0)
        told = (
            f"has no deserved {word}: it is guaranteed {deserved}, and the rest by weight as spot."
        )
        found.note(unit.name, told)
    if kept is not None and kept > deserved:
        found.wrong(unit.number, "spec.guarantee", "above_deserved",
                    f"It keeps {kept} {word} of {deserved}.")  # fmt: skip
    elif most is not None and most < deserved:
        found.wrong(unit.number, "spec.capability", "below_deserved",
                    f"It may have at most {most} {word} and is owed {deserved}.")  # fmt: skip
    else:
        unit.owed[word] = Owed(
            deserved,
            borrowing_limit=None if most is None else most - deserved,
            lending_limit=None if kept is None else deserved - kept,
        )

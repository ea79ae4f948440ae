"""What Kubernetes manifests have in common: documents, names, and quantities of GPUs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from quotas.core.imports.tree import Found

NOT_GPUS = frozenset({"cpu", "memory", "pods", "ephemeral-storage", "storage"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object; `number` counts the documents of the file (each item of a List alone) from 1."""

    number: int
    kind: str
    name: str
    spec: Mapping[str, Any]


def manifests(
    documents: Sequence[object], kinds: Iterable[str], group: str, found: Found
) -> Iterator[Manifest]:
    """The objects of these kinds of an API group; others are told, what is no object is refused."""
    for number, document in enumerate(_items(documents), start=1):
        if not isinstance(document, Mapping):
            found.wrong(number, "", "wrong_type", "It is no object.")
            continue
        kind = str(document.get("kind", ""))
        metadata, spec = document.get("metadata"), document.get("spec") or {}
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        if not isinstance(name, str) or not name:
            found.wrong(number, "metadata.name", "missing", "It has no name.")
        elif not isinstance(spec, Mapping):
            found.wrong(number, "spec", "wrong_type", "spec is to be an object.")
        elif str(document.get("apiVersion", "")).split("/")[0] != group or kind not in kinds:
            found.note(f"{kind or 'an object'} {name}", "is not looked at.")
        else:
            yield Manifest(number, kind, name, spec)


def _items(documents: Sequence[object]) -> Iterator[object]:
    for document in documents:
        if isinstance(document, Mapping) and document.get("kind") == "List":
            items = document.get("items")
            yield from items if isinstance(items, list) else [items]
        elif document is not None:
            yield document


def is_gpu(resource: str) -> bool:
    """Whether a resource is one of GPUs: a device of some vendor, `nvidia.com/gpu`."""
    return resource not in NOT_GPUS and "/" in resource and not resource.startswith("hugepages-")


def gpus_of(found: Found, one: Manifest, where: str, value: object) -> int | None:
    """A whole number of GPUs; None = not given. Anything else is a problem, and None."""
    if value is None:
        return None
    text = str(value)
    if not isinstance(value, bool) and text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    found.wrong(one.number, where, "invalid_number", f"{text[:40]!r} is no whole number of GPUs.")
    return None


def mapping_of(found: Found, one: Manifest, where: str, value: object) -> Mapping[str, Any]:
    """An object that may be left out."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    found.wrong(one.number, where, "wrong_type", "It is to be an object.")
    return {}


def list_of(found: Found, one: Manifest, where: str, value: object) -> Sequence[Any]:
    """A list of objects that may be left out."""
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        return value
    found.wrong(one.number, where, "wrong_type", "It is to be a list of objects.")
    return ()


def text_of(found: Found, one: Manifest, where: str, value: object) -> str | None:
    """A name that may be left out."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    found.wrong(one.number, where, "wrong_type", "It is to be text.")
    return None


def weight_of(found: Found, one: Manifest, where: str, value: object) -> Fraction:
    """A weight: a number, or a quantity such as `500m`; 1 where none is given."""
    text = str(1 if value is None else value)
    try:
        weight = Fraction(text[:-1]) / 1000 if text.endswith("m") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        weight = Fraction(-1)
    if isinstance(value, bool) or len(text) > 20 or not 0 <= weight <= 2**31:
        found.wrong(one.number, where, "invalid_number", f"{text[:40]!r} is no weight.")
        return Fraction(1)
    return weight.limit_denominator(1000)

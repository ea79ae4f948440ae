"""Merge patches (RFC 7386) and JSON patches (RFC 6902), on decoded JSON."""

import copy
from typing import Any


class PatchError(Exception):
    """The patch does not fit the object; the text says why."""


def merge(old: Any, patch: Any) -> Any:
    """The object after a merge patch; null takes away."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merge(new.get(name), value)
    return new


def apply(old: Any, operations: Any) -> Any:
    """The object after a JSON patch. PatchError if an operation does not fit."""
    if not isinstance(operations, list):
        raise PatchError("a JSON patch is a list of operations")
    box = {"": copy.deepcopy(old)}
    for operation in operations:
        try:
            _DEEDS[operation["op"]](box, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise PatchError(f"operation {operation!r}: {error}") from error
    return box[""]


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError("a path starts with /")
    return ["", *(p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:])]


def _parent(box: Any, pointer: str) -> tuple[Any, Any]:
    *way, last = _steps(pointer)
    for step in way:
        box = box[int(step)] if isinstance(box, list) else box[step]
    return box, int(last) if isinstance(box, list) and last != "-" else last


def _get(box: Any, pointer: str) -> Any:
    parent, last = _parent(box, pointer)
    return parent[last]


def _add(box: Any, operation: Any) -> None:
    _put(box, operation["path"], operation["value"])


def _put(box: Any, pointer: str, value: Any) -> None:
    parent, last = _parent(box, pointer)
    if not isinstance(parent, list):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    else:
        parent.insert(last, value)


def _remove(box: Any, operation: Any) -> None:
    parent, last = _parent(box, operation["path"])
    del parent[last]


def _replace(box: Any, operation: Any) -> None:
    parent, last = _parent(box, operation["path"])
    parent[last]  # what is not there cannot be replaced
    parent[last] = operation["value"]


def _test(box: Any, operation: Any) -> None:
    if _get(box, operation["path"]) != operation["value"]:
        raise ValueError("test failed")


def _move(box: Any, operation: Any) -> None:
    value = _get(box, operation["from"])
    _remove(box, {"path": operation["from"]})
    _put(box, operation["path"], value)


def _copy(box: Any, operation: Any) -> None:
    _put(box, operation["path"], copy.deepcopy(_get(box, operation["from"])))


_DEEDS = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
    "move": _move,
    "copy": _copy,
}

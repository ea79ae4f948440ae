"""Label and field selectors of lists and watches."""

import re
from collections.abc import Callable

from simulator.kubernetes.errors import Json, bad_request

Matches = Callable[[Json], bool]

_IN = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^)]*)\)$")
_EQUALS = re.compile(r"^([^\s!=]+)\s*(==|=|!=)\s*(\S*)$")
_EXISTS = re.compile(r"^(!?)\s*([^\s!=,()]+)$")


def labels(text: str) -> list[Matches]:
    """The requirements of a `labelSelector`; ApiError if it cannot be read."""
    # A comma inside brackets does not end a requirement.
    parts = [p.strip() for p in re.split(r",(?![^(]*\))", text)]
    return [_requirement(part) for part in parts if part]


def _requirement(text: str) -> Matches:
    if found := _IN.match(text):
        name, word, values = found.groups()
        wanted = {value.strip() for value in values.split(",")}
        if word == "in":
            return lambda thing: _label(thing, name) in wanted
        return lambda thing: _label(thing, name) not in wanted
    if found := _EQUALS.match(text):
        name, word, value = found.groups()
        if word == "!=":
            return lambda thing: _label(thing, name) != value
        return lambda thing: _label(thing, name) == value
    if found := _EXISTS.match(text):
        missing, name = found.groups()
        return lambda thing: (_label(thing, name) is None) == bool(missing)
    raise bad_request(f'unable to parse requirement: found "{text}"')


def _label(thing: Json, name: str) -> str | None:
    value: str | None = (thing["metadata"].get("labels") or {}).get(name)
    return value


def fields(text: str, allowed: dict[str, tuple[str, ...]]) -> list[Matches]:
    """The requirements of a `fieldSelector`; ApiError for a field that is not `allowed`."""
    return [_field(part, allowed) for part in text.split(",") if part]


def _field(text: str, allowed: dict[str, tuple[str, ...]]) -> Matches:
    found = _EQUALS.match(text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    name, word, value = found.groups()
    path = allowed.get(name)
    if path is None:
        raise bad_request(f"field label not supported: {name}")
    if word == "!=":
        return lambda thing: _text_at(thing, path) != value
    return lambda thing: _text_at(thing, path) == value


def _text_at(thing: Json, path: tuple[str, ...]) -> str:
    found: object = thing
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return "" if found is None else str(found)

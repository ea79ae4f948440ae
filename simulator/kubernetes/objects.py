"""Objects are decoded JSON and never changed in place: who changes one makes a new one."""

import datetime as dt
from typing import Any

from simulator.kubernetes.errors import Json

Key = tuple[str, str]
"""Namespace ("" for what has none) and name."""


def key_of(thing: Json) -> Key:
    """Namespace and name of an object."""
    meta = thing["metadata"]
    return meta.get("namespace", ""), meta["name"]


def meta_of(thing: Json) -> Json:
    """The metadata, also of an object without."""
    found = thing.get("metadata")
    return found if isinstance(found, dict) else {}


def with_meta(thing: Json, **changes: Any) -> Json:
    """The object with other metadata; None takes a field away."""
    meta = {**thing["metadata"], **changes}
    return {**thing, "metadata": {key: value for key, value in meta.items() if value is not None}}


def instant(ms: int) -> str:
    """A timestamp as objects carry it: UTC, whole seconds."""
    moment = dt.datetime.fromtimestamp(ms // 1000, dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def ms_of(text: str) -> int:
    """The milliseconds of a timestamp."""
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


def at(thing: Any, *path: str) -> Any:
    """What lies at a path of names, None if anything on the way is missing."""
    for name in path:
        if not isinstance(thing, dict):
            return None
        thing = thing.get(name)
    return thing


def is_going(thing: Json) -> bool:
    """Is it being deleted?"""
    return "deletionTimestamp" in thing["metadata"]

"""What is remembered of one kind of object at one place: from a list, and from what was told since.

An object is not kept whole, only what was made of it. Versions rise with every write, so that what is
told twice, late or out of order is seen at once; then nothing of it is taken (`DoubtError`), and the
list is read again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Json = Mapping[str, Any]
Key = tuple[str, str]  # namespace ("" for what has none) and name
T = TypeVar("T")

_WRITES = ("ADDED", "MODIFIED", "DELETED")
_BOOKMARK = "BOOKMARK"


class DoubtError(Exception):
    """What a watch told is not to be trusted: the list has to be read again."""


@dataclass(frozen=True, slots=True)
class News(Generic[T]):
    """What happened since a version, in order: objects as they are or last were, and whether gone."""

    writes: tuple[tuple[Key, T | None, bool], ...]
    version: str


@dataclass(slots=True, eq=False)
class Shelf(Generic[T]):
    """The objects at a path. `read` makes of each what is kept, None = it does not matter.

    `hear` is told every change as (old, new). `version` "" = it has to be listed.
    """

    path: str
    read: Callable[[Json], T | None]
    hear: Callable[[T | None, T | None], None]
    things: dict[Key, T] = field(default_factory=dict)
    version: str = ""
    listed_ms: int = 0

    def fill(self, rows: Iterable[tuple[Key, T | None]], version: str, now_ms: int) -> None:
        """Take a whole list; what is not in it is gone."""
        there = {key: thing for key, thing in rows if thing is not None}
        for key in self.things.keys() - there.keys():
            self._set(key, None)
        for key, thing in there.items():
            self._set(key, thing)
        self.version, self.listed_ms = version if version.isdecimal() else "", now_ms

    def follow(self, news: News[T]) -> None:
        """Take what a watch told."""
        for key, thing, is_gone in news.writes:
            self._set(key, thing)  # what is gone was once more as it is told
            if is_gone:
                self._set(key, None)
        self.version = news.version

    def row(self, raw: Json) -> tuple[Key, T | None]:
        """What is kept of an object, and under which key."""
        return key_of(raw), self.read(raw)

    def news(self, events: Iterable[tuple[str, Json]]) -> News[T]:
        """Events of a watch from this version on, read and checked; nothing is taken yet.

        Raises:
            DoubtError: an error, an unknown kind of event, no version or one that does not rise.
        """
        writes = []
        at = _number(self.version)
        for kind, thing in events:
            if kind not in _WRITES and kind != _BOOKMARK:
                raise DoubtError(f"event {kind}")
            try:
                version = _number(thing["metadata"]["resourceVersion"])
                if version < at or (version == at and kind != _BOOKMARK):
                    raise DoubtError(f"version {version} after {at}")
                if kind != _BOOKMARK:
                    writes.append((key_of(thing), self.read(thing), kind == "DELETED"))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise DoubtError(f"{kind} of what is no such object: {error!r}") from error
            at = version
        return News(tuple(writes), str(at))

    def _set(self, key: Key, new: T | None) -> None:
        old = self.things.get(key)
        if old == new:
            return
        if new is None:
            del self.things[key]
        else:
            self.things[key] = new
        self.hear(old, new)


def key_of(thing: Json) -> Key:
    """Namespace and name of an object."""
    meta = thing["metadata"]
    return meta.get("namespace") or "", meta["name"]


def _number(version: object) -> int:
    """Versions are numbers that rise, whatever else may change about them."""
    text = str(version)
    if not text.isascii() or not text.isdecimal():
        raise DoubtError(f"{version!r} is no version")
    return int(text)

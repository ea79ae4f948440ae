"""Watches: a stream of changes from a version on, until its time is over or somebody cuts it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from simulator.kubernetes.calls import TRUE, Call
from simulator.kubernetes.errors import ApiError, Json
from simulator.kubernetes.lists import chosen, read_version
from simulator.kubernetes.selectors import Matches
from simulator.kubernetes.store import Change, Store

BOOKMARK_MS = 60_000
_LOOK_MS = 50
_LONGEST_S = 3600


class WatchCut(Exception):  # noqa: N818
    """The connection of a watch ends in the middle."""


@dataclass
class Scissors:
    """Cuts all open watches: `count` goes up, and each sees that it is not its own any more."""

    count: int = 0
    abrupt: bool = False

    def cut(self, *, abrupt: bool) -> None:
        """End all watches, without a word or in the middle of the connection."""
        self.count += 1
        self.abrupt = abrupt


@dataclass
class Clock:
    """How a watch sees time: `now` brings the cluster up to it, `pause` lets it go on."""

    now_ms: Callable[[], int]
    pause: Callable[[int], Awaitable[None]]


async def watch(stream: "Stream", clock: Clock, scissors: Scissors) -> AsyncIterator[bytes]:
    """The lines of a watch. A version that is too old is told as an ERROR line, as recorded."""
    mine = scissors.count
    try:
        for line in stream.first():
            yield line
        while scissors.count == mine and clock.now_ms() < stream.until_ms:
            for line in stream.news(clock.now_ms()):
                yield line
            await clock.pause(_LOOK_MS)
    except ApiError as error:
        yield _line("ERROR", error.body)
        return
    if scissors.count == mine:
        for line in stream.bookmark():
            yield line
    elif scissors.abrupt:
        raise WatchCut


def _patience_ms(call: Call) -> int:
    text = call.query.get("timeoutSeconds", "")
    return 1000 * (int(text) if text.isdigit() and text != "0" else _LONGEST_S)


class Stream:
    """What one watch has told so far. `position` is the version told last."""

    def __init__(self, store: Store, call: Call) -> None:
        """Read selectors and version; ApiError if one cannot be read."""
        self.store = store
        self.resource = call.target.resource
        self.wanted: list[Matches] = chosen(call)
        self.bookmarks = call.query.get("allowWatchBookmarks") in TRUE
        self.initial = call.query.get("sendInitialEvents") in TRUE
        text = call.query.get("resourceVersion", "")
        self.position = read_version(text) if text else 0
        self.until_ms = call.now_ms + _patience_ms(call)
        self.bookmark_ms = call.now_ms + BOOKMARK_MS

    def first(self) -> list[bytes]:
        """All there is, if the watch starts from nowhere; 410 if from a version forgotten."""
        if self.position and not self.initial:
            self.store.since(self.resource, self.position)
            return []
        self.position = self.store.revision
        things = self.store.items[self.resource]
        lines = [_line("ADDED", things[key]) for key in sorted(things) if self._fits(things[key])]
        if self.initial and self.bookmarks:
            lines.append(self._mark({"k8s.io/initial-events-end": "true"}))
        return lines

    def news(self, now_ms: int) -> list[bytes]:
        """The changes since the last look; a version of the future is waited for in silence."""
        if self.position > self.store.revision:
            return []
        changes = self.store.since(self.resource, self.position)
        self.position = self.store.revision
        lines = [line for change in changes for line in self._told(change)]
        if now_ms >= self.bookmark_ms:
            self.bookmark_ms += BOOKMARK_MS
            lines += self.bookmark()
        return lines

    def bookmark(self) -> list[bytes]:
        """Where the watch is, if it asked to be told."""
        if not self.bookmarks or self.position > self.store.revision:
            return []
        return [self._mark()]

    def _told(self, change: Change) -> list[bytes]:
        """As the watcher's selector sees it: what stops to fit is deleted for him."""
        was = change.old is not None and self._fits(change.old)
        fits = change.type != "DELETED" and self._fits(change.new)
        if fits:
            return [_line("MODIFIED" if was else "ADDED", change.new)]
        if was:
            return [_line("DELETED", change.new)]
        return []

    def _fits(self, thing: Json) -> bool:
        return all(fits(thing) for fits in self.wanted)

    def _mark(self, annotations: Json | None = None) -> bytes:
        metadata: Json = {"resourceVersion": str(self.position)}
        if annotations:
            metadata["annotations"] = annotations
        kind, version = self.resource.kind, self.resource.api_version
        return _line("BOOKMARK", {"kind": kind, "apiVersion": version, "metadata": metadata})


def _line(kind: str, thing: Json) -> bytes:
    return json.dumps({"type": kind, "object": thing}, separators=(",", ":")).encode() + b"\n"

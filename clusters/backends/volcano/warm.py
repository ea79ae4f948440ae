"""What is known of each cluster between two tasks, and how it is brought up to now.

A kind is listed once. From then on a short watch asks what was written since the last version, all
kinds at once; it ends by itself, so that no thread or connection lives between tasks, and who starts
again begins with lists. Whatever is odd about a watch (too old, cut, unreadable, out of order, not
allowed) has that kind listed again; and everything is, once in `relist_s`.
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any

from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.errors import GONE
from clusters.backends.volcano.reading import Reading
from clusters.backends.volcano.shelf import DoubtError, News, Shelf
from clusters.core.backend import BackendError
from clusters.core.observation import Observation

RELIST_S = 600
MOST_AT_ONCE = 32
logger = logging.getLogger(__name__)


class Warm:
    """One cluster's reading, for one task at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._reading: Reading | None = None
        self._asked: tuple[Any, ...] = ()

    def observe(
        self, client: KubernetesClient, where: Mapping[str, Sequence[str]], now_ms: int
    ) -> Observation:
        """The cluster as it is now (`now_ms` by our clock).

        Raises:
            BackendError: something of it could not be read; what was is kept.
        """
        options = client.connection.options
        asked = (dict(options), {kind: list(paths) for kind, paths in where.items()})
        with self._lock:
            reading = self._reading if self._asked == asked else None
            if reading is None:
                reading = Reading(options, where)
            self._reading = None  # what breaks off in the middle is not gone on with
            try:
                refresh(client, reading, now_ms)
                cluster_ms = now_ms if client.date_ms is None else client.date_ms
                seen = reading.observation(begun_ms=now_ms, cluster_ms=cluster_ms)
            except BackendError:
                self._reading, self._asked = reading, asked
                raise
            self._reading, self._asked = reading, asked
            return seen


_KNOWN: dict[tuple[str, str], Warm] = {}
_KNOWN_LOCK = Lock()


def warm(client: KubernetesClient) -> Warm:
    """What this process knows of the client's cluster."""
    connection = client.connection
    with _KNOWN_LOCK:
        return _KNOWN.setdefault((connection.name, connection.endpoint), Warm())


def forget() -> None:
    """As a process that begins: nothing is known."""
    with _KNOWN_LOCK:
        _KNOWN.clear()


def refresh(client: KubernetesClient, reading: Reading, now_ms: int) -> None:
    """Bring all shelves up to now, by watches where that is enough and by lists where it is not.

    Raises:
        BackendError: a list could not be read.
    """
    relist_ms = 1000 * _relist_s(client)
    shelves = [shelf for kind in reading.shelves.values() for shelf in kind]
    kept = [one for one in shelves if one.version and 0 <= now_ms - one.listed_ms < relist_ms]
    if kept:  # whether it is there at all, and has not gone back in time: restored, made anew
        current = int(client.version(reading.shelves["queues"][0].path) or 0)
        kept = [one for one in kept if int(one.version) <= current]
    doubted = _follow(client, kept)
    listed = [one for one in shelves if one not in kept or one in doubted]
    for shelf in listed:
        _list(client, shelf, now_ms)
    pods = [one for one in reading.shelves["pods"] if one not in listed]
    if any(one in listed for one in reading.shelves["jobs"]):
        for shelf in _follow(client, pods):  # no job may be newer than its pods
            _list(client, shelf, now_ms)


def _relist_s(client: KubernetesClient) -> int:
    default = 0 if client.is_played else RELIST_S
    return int(client.connection.options.get("relist_s", default))


def _follow(client: KubernetesClient, shelves: Sequence[Shelf[Any]]) -> list[Shelf[Any]]:
    """Take what was written since; the shelves of which nothing could be taken."""
    act = partial(_news, client)
    if client.is_played or len(shelves) < 2:
        found = list(map(act, shelves))
    else:
        with ThreadPoolExecutor(min(len(shelves), MOST_AT_ONCE)) as pool:
            found = list(pool.map(act, shelves))
    doubted = []
    for shelf, news in zip(shelves, found, strict=True):
        if news is None:
            doubted.append(shelf)
        else:
            shelf.follow(news)
    return doubted


def _news(client: KubernetesClient, shelf: Shelf[Any]) -> News[Any] | None:
    try:
        return shelf.news(client.changes(shelf.path, shelf.version))
    except DoubtError as doubt:
        logger.info("%s: %s is listed again: %s", client.connection.name, shelf.path, doubt)
    except BackendError as error:  # the list will tell whether the server is away
        logger.info("%s: %s is listed again: %s", client.connection.name, shelf.path, error.words)
    return None


def _list(client: KubernetesClient, shelf: Shelf[Any], now_ms: int) -> None:
    """List anew. A kind that is not defined there (HyperNodes of an older Volcano) has no objects."""
    try:
        rows, version = client.listing(shelf.path, shelf.row)
    except BackendError as error:
        if error.code != GONE or "/namespaces/" in shelf.path:
            raise
        rows, version = [], ""
    shelf.fill(rows, version, now_ms)

"""Lists of a cluster given to a reading, without a server."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from clusters.backends.volcano.reading import Reading
from clusters.core.observation import Observation

Things = Sequence[dict[str, Any]]
KINDS = ("nodes", "hypernodes", "queues", "jobs", "podgroups", "pods")


class Lists(NamedTuple):
    """Everything that was listed, each as its `items`, in the order of `KINDS`."""

    nodes: Things
    hypernodes: Things
    queues: Things
    jobs: Things
    groups: Things
    pods: Things


def fresh(**options: str) -> Reading:
    """A reading that knows nothing yet."""
    return Reading(options, {kind: [kind] for kind in KINDS})


def observation(lists: Lists, reading: Reading, *, begun_ms: int, cluster_ms: int) -> Observation:
    """What the reading says once it was given the lists."""
    for kind, things in zip(KINDS, lists, strict=True):
        (shelf,) = reading.shelves[kind]
        shelf.fill(map(shelf.row, things), "1", begun_ms)
    return reading.observation(begun_ms=begun_ms, cluster_ms=cluster_ms)

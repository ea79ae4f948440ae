"""A Volcano cluster as one observation, kept up to date object by object.

Lists and watches fill the shelves; what follows from an object goes into sums at once, so that a
cluster where little happened costs little, however large it is. What a shelf keeps is small: of a
pod of ten kilobytes a few numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clusters.backends.volcano.attempts import Attempts, Own, is_ours, own, slim
from clusters.backends.volcano.foreign import Foreign, Load, load_of
from clusters.backends.volcano.nodes import node_seen
from clusters.backends.volcano.shelf import Shelf
from clusters.backends.volcano.topology import Path, paths
from clusters.backends.volcano.translate import owner_mark
from clusters.core.devices import devices_of
from clusters.core.observation import NodeSeen, Observation, QueueSeen

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Node:
    """A node by its own words, and the labels by which HyperNodes may hold it."""

    seen: NodeSeen
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Queue:
    """A Volcano queue; `parent` is the one above it."""

    name: str
    parent: str
    is_open: bool


class Reading:
    """All that is known of one cluster under its admin's `options`.

    `shelves` are in the order in which they have to be listed: pods after the jobs that they are of,
    as a job that ended without a pod would be one that never ran.
    """

    def __init__(self, options: Mapping[str, str], where: Mapping[str, Sequence[str]]) -> None:
        """`where`: the paths by kind (`nodes`, `hypernodes`, `queues`, `jobs`, `podgroups`, `pods`)."""
        self.options = dict(options)
        self._mark = owner_mark(options)
        self._tolerated = frozenset(key.strip() for key in options.get("tolerate", "").split(","))
        self._devices = devices_of(options)
        self._foreign, self._attempts = Foreign(), Attempts(self._mark)
        self._nodes: dict[str, Node] = {}
        self._hypernodes: dict[str, Json] = {}
        self._queues: dict[str, Queue] = {}
        self._paths: dict[str, Path] | None = None  # None = to be found anew
        self._seen: dict[str, NodeSeen] = {}  # nodes with path and queues, as far as they are known
        self._whole: tuple[NodeSeen, ...] | None = None
        attempts = self._attempts
        made: dict[str, tuple[Any, Any]] = {
            "nodes": (self._read_node, self._hear_node),
            "hypernodes": (slim, self._hear_hypernode),
            "queues": (_read_queue, self._hear_queue),
            "jobs": (attempts.read_job, attempts.hear_job),
            "podgroups": (slim, attempts.hear_group),
            "pods": (self._read_pod, self._hear_pod),
        }
        self.shelves: dict[str, list[Shelf[Any]]] = {
            kind: [Shelf(path, *made[kind]) for path in where[kind]] for kind in made
        }

    def observation(self, *, begun_ms: int, cluster_ms: int) -> Observation:
        """What is known. A job is ours by its labels; one that only bears such a name is a namesake."""
        nodes = self._nodes_seen()
        return Observation(
            begun_ms=begun_ms,
            cluster_ms=cluster_ms,
            nodes=nodes,
            queues=self._queues_seen(),
            reservations=(),
            gangs=self._attempts.gangs(cluster_ms),
            foreign=self._foreign.load(),
            accounting_answered=True,
            namesakes=self._attempts.namesakes(),
        )

    def _read_node(self, raw: Json) -> Node:
        seen = node_seen(raw, (), self._tolerated, devices=self._devices)
        return Node(seen, raw["metadata"].get("labels") or {})

    def _hear_node(self, old: Node | None, new: Node | None) -> None:
        self._whole = None
        if old is not None:
            del self._nodes[old.seen.name]
            self._seen.pop(old.seen.name, None)
        if new is not None:
            self._nodes[new.seen.name] = new
        if old is None or new is None or old.labels != new.labels:
            self._replace()

    def _hear_hypernode(self, old: Json | None, new: Json | None) -> None:
        if old is not None:
            del self._hypernodes[old["metadata"]["name"]]
        if new is not None:
            self._hypernodes[new["metadata"]["name"]] = new
        if old is None or new is None or old["spec"] != new["spec"]:
            self._replace()

    def _hear_queue(self, old: Queue | None, new: Queue | None) -> None:
        names = self._leaves()
        if old is not None:
            del self._queues[old.name]
        if new is not None:
            self._queues[new.name] = new
        if names != self._leaves():
            self._seen.clear()
            self._whole = None

    def _replace(self) -> None:
        """Where nodes sit has to be found anew."""
        self._paths = self._whole = None
        self._seen.clear()

    def _read_pod(self, raw: Json) -> Own | Load | None:
        return own(raw) if is_ours(raw, self._mark) else load_of(raw)

    def _hear_pod(self, old: Own | Load | None, new: Own | Load | None) -> None:
        if isinstance(old, Load):
            self._foreign.add(old, -1)
        if isinstance(new, Load):
            self._foreign.add(new)
        mine, now = (one if isinstance(one, Own) else None for one in (old, new))
        if mine or now:
            self._attempts.hear_pod(mine, now)

    def _nodes_seen(self) -> tuple[NodeSeen, ...]:
        """The nodes by name; each is made anew only if something about it moved."""
        if self._whole is None:
            if self._paths is None:
                labels = {name: node.labels for name, node in self._nodes.items()}
                self._paths = paths(list(self._hypernodes.values()), labels, self.options)
            queues = self._leaves()
            for name in self._nodes.keys() - self._seen.keys():
                seen = self._nodes[name].seen
                self._seen[name] = replace(seen, path=self._paths[name], queues=queues)
            self._whole = tuple(self._seen[name] for name in sorted(self._seen))
        return self._whole

    def _leaves(self) -> tuple[str, ...]:
        """The queues that take jobs: those without queues below them, and not the root."""
        parents = {queue.parent or "root" for queue in self._queues.values()}
        return tuple(sorted(self._queues.keys() - parents - {"root"}))

    def _queues_seen(self) -> tuple[QueueSeen, ...]:
        count = len(self._nodes)
        return tuple(
            QueueSeen(name, self._queues[name].is_open, count, None) for name in self._leaves()
        )


def _read_queue(raw: Json) -> Queue:
    state = (raw.get("status") or {}).get("state")
    return Queue(raw["metadata"]["name"], raw["spec"].get("parent") or "", state == "Open")

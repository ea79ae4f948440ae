"""A whole listing of a Volcano cluster as one observation.

What it reads are the lists as the API server gives them; what it remembers are pods of ours that are
gone, as a pod that was killed leaves nothing behind (volcano-observed 19).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from clusters.backends.volcano.attempt import PodSeen, attempt_seen, pod_seen
from clusters.backends.volcano.nodes import RESOURCES, node_seen
from clusters.backends.volcano.quantities import MIB, amount
from clusters.backends.volcano.topology import paths
from clusters.backends.volcano.translate import FENCE, MARK, owner_mark
from clusters.core.observation import ForeignLoad, GangSeen, NodeSeen, Observation, QueueSeen

Json = Mapping[str, Any]
_OVER = ("Succeeded", "Failed")
_NAMES = (*RESOURCES, "cpu", "memory")
_Amounts = dict[str, Fraction]


@dataclass(frozen=True, slots=True)
class Lists:
    """Everything that was listed, each as its `items`."""

    nodes: Sequence[Json]
    hypernodes: Sequence[Json]
    queues: Sequence[Json]
    jobs: Sequence[Json]
    groups: Sequence[Json]
    pods: Sequence[Json]


class Pods:
    """The pods of our attempts, also those that are gone while their job is there."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, Json, int | None]] = {}

    def update(self, ours: Iterable[tuple[str, Json]], now_ms: int, fences: set[str]) -> None:
        """Take a listing of all pods of ours as (fence, pod); forget those of other `fences`.

        A pod that is missing was gone by `now_ms` (the cluster's clock), if nobody told sooner.
        """
        there: dict[str, tuple[str, Json, int | None]] = {}
        there.update((pod["metadata"]["uid"], (fence, pod, None)) for fence, pod in ours)
        for uid, (fence, pod, gone_ms) in self._seen.items():
            if uid not in there and fence in fences:
                there[uid] = (fence, pod, now_ms if gone_ms is None else gone_ms)
        self._seen = there

    def by_fence(self) -> Mapping[str, list[PodSeen]]:
        """The pods of each attempt as last seen."""
        found: defaultdict[str, list[PodSeen]] = defaultdict(list)
        for fence, pod, gone_ms in self._seen.values():
            found[fence].append(pod_seen(pod, gone_ms))
        return found


def observation(
    lists: Lists, pods: Pods, options: Mapping[str, str], *, begun_ms: int, cluster_ms: int
) -> Observation:
    """What the lists say. A job is ours by its labels; one that only bears such a name is a namesake."""
    mark = owner_mark(options)
    ours = [job for job in lists.jobs if _is_ours(job, mark)]
    fences = {job["metadata"]["name"] for job in ours}
    own = [(_label(pod, FENCE), pod) for pod in lists.pods if _is_ours(pod, mark)]
    pods.update(own, cluster_ms, fences)
    by_fence, groups = pods.by_fence(), _groups(lists.groups)
    others = [job for job in lists.jobs if not _is_ours(job, mark)]
    queues = tuple(_queues(lists.queues, len(lists.nodes)))
    names = tuple(queue.name for queue in queues)
    return Observation(
        begun_ms=begun_ms,
        cluster_ms=cluster_ms,
        nodes=tuple(_nodes(lists, names, options)),
        queues=queues,
        reservations=(),
        gangs=tuple(_attempt(job, groups, by_fence, cluster_ms) for job in ours),
        foreign=foreign_load(pod for pod in lists.pods if not _is_ours(pod, mark)),
        accounting_answered=True,
        namesakes=tuple(
            _attempt(job, groups, {}, cluster_ms)
            for job in others
            if job["metadata"]["name"].startswith("mst-") and not _is_over(job)
        ),
    )


def _label(thing: Json, name: str) -> str:
    return str((thing["metadata"].get("labels") or {}).get(name, ""))


def _is_ours(thing: Json, mark: str) -> bool:
    return _label(thing, MARK) == mark and bool(_label(thing, FENCE))


def _is_over(job: Json) -> bool:
    phase = ((job.get("status") or {}).get("state") or {}).get("phase")
    return phase in ("Completed", "Failed", "Aborted", "Terminated")


def _groups(groups: Iterable[Json]) -> Mapping[str, Json]:
    """PodGroups by the uid of the job that owns them."""
    return {
        owner["uid"]: group
        for group in groups
        for owner in group["metadata"].get("ownerReferences") or ()
    }


def _attempt(
    job: Json,
    groups: Mapping[str, Json],
    by_fence: Mapping[str, Sequence[PodSeen]],
    now_ms: int,
) -> GangSeen:
    meta = job["metadata"]
    return attempt_seen(job, groups.get(meta["uid"]), by_fence.get(meta["name"], ()), now_ms)


def _nodes(lists: Lists, queues: tuple[str, ...], options: Mapping[str, str]) -> Iterator[NodeSeen]:
    labels = {
        node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in lists.nodes
    }
    where = paths(lists.hypernodes, labels, options)
    tolerated = frozenset(key.strip() for key in options.get("tolerate", "").split(","))
    for node in lists.nodes:
        yield node_seen(node, where[node["metadata"]["name"]], tolerated, queues)


def _queues(queues: Sequence[Json], nodes: int) -> Iterator[QueueSeen]:
    """The queues that take jobs: those without queues below them, and not the root."""
    parents = {queue["spec"].get("parent") or "root" for queue in queues}
    for queue in queues:
        name = queue["metadata"]["name"]
        if name not in parents and name != "root":
            state = (queue.get("status") or {}).get("state")
            yield QueueSeen(name, state == "Open", nodes, None)


def foreign_load(pods: Iterable[Json]) -> ForeignLoad:
    """What pods that are not ours hold, by node, and what those wait for that ask for GPUs.

    Whatever made them counts alike: bare pods, Kubernetes Jobs, others' vcjobs, daemons. Jobs are
    counted by their owner.
    """
    held: defaultdict[str, list[_Amounts]] = defaultdict(list)
    running: set[str] = set()
    pending: Counter[str] = Counter()
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in _OVER:
            continue
        need, node = _need(pod), pod["spec"].get("nodeName")
        gpus = sum(ceil(need[name]) for name in RESOURCES)
        if node:
            held[node].append(need)
        if gpus and node:
            running.add(_owner(pod))
        elif gpus:
            pending[_owner(pod)] += gpus
    used = {node: _total(needs) for node, needs in held.items()}
    gpus_on = {node: sum(ceil(total[name]) for name in RESOURCES) for node, total in used.items()}
    return ForeignLoad(
        gpus={node: count for node, count in gpus_on.items() if count},
        cpus={node: ceil(total["cpu"]) for node, total in used.items() if total["cpu"]},
        memory_mib={
            node: ceil(total["memory"] / MIB) for node, total in used.items() if total["memory"]
        },
        running=len(running),
        pending=len(pending),
        pending_gpus=sum(pending.values()),
    )


def _need(pod: Json) -> _Amounts:
    """What the scheduler sets aside for a pod: for all its containers, or for one before them."""
    spec = pod["spec"]
    need = _total(map(_requests, spec.get("containers") or ()))
    before = [_requests(one) for one in spec.get("initContainers") or ()]
    return {name: max([need[name], *(one[name] for one in before)]) for name in _NAMES}


def _requests(container: Json) -> _Amounts:
    said = (container.get("resources") or {}).get("requests") or {}
    return {name: amount(said.get(name, 0)) for name in _NAMES}


def _total(needs: Iterable[_Amounts]) -> _Amounts:
    total = dict.fromkeys(_NAMES, Fraction(0))
    for need in needs:
        for name in _NAMES:
            total[name] += need[name]
    return total


def _owner(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return str(owners[0]["uid"] if owners else pod["metadata"]["uid"])

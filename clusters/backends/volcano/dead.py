"""Pods that nobody can end any more: they leave, and their node is known dead.

A job that is aborted stays `Aborting` until its last pod is gone, and a pod goes only when its
kubelet says so (volcano-observed 9). A node that answers is never gone over: what runs there runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from clusters.backends.volcano.attempt import moment

Json = Mapping[str, Any]

# Kubernetes itself waits as long before it gives up the pods of a node it does not hear of.
DEAD_MS = 300_000


def is_dead(node: Json | None, now_ms: int) -> bool:
    """Whether a node is known dead: it is not there, or has not been heard of for `DEAD_MS`.

    A kubelet that says it is not ready (`False`) answers, so that it can end its pods.
    """
    if node is None:
        return True
    told = (node.get("status") or {}).get("conditions") or ()
    ready: Json = next((one for one in told if one["type"] == "Ready"), {})
    since_ms = moment(ready.get("lastTransitionTime"))
    return (
        ready.get("status") == "Unknown" and since_ms is not None and now_ms - since_ms >= DEAD_MS
    )


def stranded(
    pods: Iterable[Json], find_node: Callable[[str], Json | None], now_ms: int
) -> Iterator[Json]:
    """The pods that should be gone by now (their grace is over), on nodes that are dead."""
    for pod in pods:
        due_ms = moment(pod["metadata"].get("deletionTimestamp"))
        node = pod["spec"].get("nodeName")
        if node and due_ms is not None and due_ms <= now_ms and is_dead(find_node(node), now_ms):
            yield pod

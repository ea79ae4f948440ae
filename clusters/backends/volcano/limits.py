"""Limits on GPUs of Volcano's queues: `capability`, the most that the jobs of a queue may hold.

It bounds what people submit past Muster as well. While pods of an aborted gang end, Volcano fills
the queue again, so that for moments more is held (volcano-observed 0.10): a bound, not a promise.
`deserved` and `reclaimable` say who takes back from whom and stay the cluster's admin's.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clusters.backends.volcano.client import KubernetesClient, path_of
from clusters.backends.volcano.quantities import amount
from clusters.backends.volcano.rights import Right
from clusters.core.backend import BackendError
from clusters.core.devices import GPU_RESOURCES
from clusters.core.limits import LimitHolder, LimitsSeen, Obstacle, resource_of

Json = Mapping[str, Any]
QUEUES = path_of("apis/scheduling.volcano.sh/v1beta1", "queues")
PATCH = Right("scheduling.volcano.sh", "queues", "patch", in_namespace=False)
_FIX = "kubectl apply -f deploy/member/volcano/queues.yaml"
# As a limit is named here, and as Volcano names the same GPUs.
_NAMES = {resource_of(resource): resource for resource in GPU_RESOURCES}


def read_limits(client: KubernetesClient) -> LimitsSeen:
    """The capability in GPUs of every queue, and whether it may be set.

    Raises:
        BackendUnavailableError, BackendRejectedError: queues are not told.
    """
    holders = tuple(_holders(client.items(QUEUES)))
    name = client.connection.name
    return LimitsSeen(name, holders, frozenset(_NAMES), right_to_write(client))


def right_to_write(client: KubernetesClient) -> Obstacle | None:
    """Why this account may not set limits; None = it may."""
    if client.may(PATCH):
        return None
    return Obstacle("no_right", "it may not patch queues", _FIX)


def set_limits(client: KubernetesClient, wanted: Mapping[str, Mapping[str, int]]) -> dict[str, str]:
    """Sets the capability of queues; of each, why not ("" = it is set). Setting twice is once.

    What a queue says of other resources stays. No queue is made.
    """
    return {queue: _set(client, queue, gpus) for queue, gpus in wanted.items()}


def limit_command(queue: str, gpus: Mapping[str, int]) -> str:
    """What sets the same by hand."""
    patch = shlex.quote(json.dumps(_patch(gpus)))
    return (
        f"kubectl patch queues.scheduling.volcano.sh {shlex.quote(queue)} --type merge -p {patch}"
    )


def _set(client: KubernetesClient, queue: str, gpus: Mapping[str, int]) -> str:
    try:
        client.merge(f"{QUEUES}/{queue}", _patch(gpus))
    except BackendError as error:
        return error.words
    return ""


def _patch(gpus: Mapping[str, int]) -> dict[str, Any]:
    amounts = {_NAMES[resource]: str(count) for resource, count in sorted(gpus.items())}
    return {"spec": {"capability": amounts}}


def _holders(queues: Iterable[Json]) -> Iterator[LimitHolder]:
    """Every queue but the root, which Volcano keeps for itself."""
    for queue in queues:
        name, spec = queue["metadata"]["name"], queue.get("spec") or {}
        if name == "root":
            continue
        most = spec.get("capability") or {}
        gpus = {
            ours: int(amount(most[theirs])) for ours, theirs in _NAMES.items() if theirs in most
        }
        parent = spec.get("parent") or ""
        yield LimitHolder(name, parent="" if parent == "root" else parent, gpus=gpus)

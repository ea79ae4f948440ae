"""Which member queue a tenant's jobs go to: options `queue.*` (Volcano).

A value may hold `{flavor}` and `{class}`, so that one option names a queue for each flavor, and the
reclaimable sibling of each for spot: `vision-{flavor}-{class}`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from clusters.core.charging import nearest
from clusters.core.observation import Observation
from kit.errors import FieldProblem

PREFIX = "queue."
CLASSES = ("guaranteed", "spot")
# Volcano writes the queue's name into a label of each pod, which is shorter than a name may be.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def is_queue(value: str) -> bool:
    """Whether the value of an option `queue.*` has its form."""
    return _NAME.fullmatch(_filled(value, "f", "c")) is not None


def queue_of(options: Mapping[str, str], path: str, flavor: str, service_class: str) -> str:
    """The queue for a job of the tenant at this path; "" = the flavor's own.

    The nearest of `queue.<tenant>` counts, from the tenant itself to the root.
    """
    return _filled(nearest(options, "queue.", path), flavor, service_class)


def tells_classes_apart(options: Mapping[str, str]) -> bool:
    """Whether a queue is of one class. A job never changes its queue, nor its class then."""
    return any("{class}" in value for _, value in _named(options))


def queue_gaps(
    options: Mapping[str, str], flavors: Sequence[str], seen: Observation
) -> Iterator[FieldProblem]:
    """Queues that the options name for these flavors and that take no jobs there, by option."""
    is_open = {queue.name: queue.is_open for queue in seen.queues}
    for key, value in _named(options):
        names = {_filled(value, one, class_) for one in flavors for class_ in CLASSES}
        if shut := sorted(name for name in names if not is_open.get(name)):
            yield FieldProblem(
                f"/options/{key.replace('/', '~1')}",
                "not_on_cluster",
                f"No such queue there, or it is closed: {', '.join(shut)}. "
                f"It has: {', '.join(sorted(is_open)) or 'none'}.",
            )


def _named(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((key, value) for key, value in sorted(options.items()) if key.startswith(PREFIX))


def _filled(value: str, flavor: str, service_class: str) -> str:
    return value.replace("{flavor}", flavor).replace("{class}", service_class)

"""What a node offers and what a gang asks of each node."""

from collections.abc import Iterable
from typing import NamedTuple


class NodeShape(NamedTuple):
    """Resources of one node: GPUs, CPUs (hardware threads) and memory in MiB."""

    gpus: int
    cpus: int
    memory_mib: int


NOTHING_TAKEN = NodeShape(0, 0, 0)


class GangShape(NamedTuple):
    """What a gang asks: `nodes` nodes, and of each of them `per_node`.

    `exclusive` wants whole nodes: no other job on them, whatever it asks of each.
    """

    nodes: int
    per_node: NodeShape
    exclusive: bool

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.nodes * self.per_node.gpus


def left_of(total: NodeShape, foreign: NodeShape, held: Iterable[GangShape]) -> NodeShape:
    """What foreign load and members of our gangs leave of a node, never below nothing."""
    gpus, cpus, memory_mib = foreign.gpus, foreign.cpus, foreign.memory_mib
    for shape in held:
        if shape.exclusive:
            return NOTHING_TAKEN
        need = shape.per_node
        gpus, cpus, memory_mib = gpus + need.gpus, cpus + need.cpus, memory_mib + need.memory_mib
    return NodeShape(
        max(0, total.gpus - gpus),
        max(0, total.cpus - cpus),
        max(0, total.memory_mib - memory_mib),
    )

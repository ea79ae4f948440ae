"""What a node offers and what a gang asks of each node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Resources of one node: GPUs, CPUs (hardware threads) and memory in MiB."""

    gpus: int
    cpus: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class GangShape:
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

"""Nodes and their place in the tree."""

from simulator.config import Cluster, Tier
from simulator.engine.model import Node


def build_nodes(config: Cluster) -> dict[str, Node]:
    """The cluster's nodes by name, in order; features as in `NodeName=... Feature=...`."""
    width = max(3, len(str(config.nodes - 1)))
    nodes = {}
    for index in range(config.nodes):
        name = f"{config.prefix}{index:0{width}d}"
        nodes[name] = Node(
            name=name,
            index=index,
            features=(config.gpu_type, *config.features, *_blocks(config.tiers, index)),
            cpus=config.cpus,
            memory_mb=config.memory_mb,
            owners=[0] * config.gpus_per_node,
        )
    return nodes


def _blocks(tiers: list[Tier], index: int) -> list[str]:
    return [f"{t.name}{block_of(t, index):0{t.digits}d}" for t in tiers]


def block_of(tier: Tier, index: int) -> int:
    """The number of the tier's block that holds the node of this index.

    With a list of sizes, nodes past its end go on in blocks of the last size.
    """
    if isinstance(tier.nodes, int):
        return index // tier.nodes
    left = index
    for number, size in enumerate(tier.nodes):
        if left < size:
            return number
        left -= size
    return len(tier.nodes) + left // tier.nodes[-1]

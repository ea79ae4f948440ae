"""What there is: clusters, flavors, nodes, accounts; what was seen; what was ordered."""

from clusters.models.fleet import Cluster, ClusterAccount, ClusterFlavor, Flavor, Node
from clusters.models.traffic import Command, Lease, Observation

__all__ = [
    "Cluster",
    "ClusterAccount",
    "ClusterFlavor",
    "Command",
    "Flavor",
    "Lease",
    "Node",
    "Observation",
]

"""Volcano on Kubernetes, over the API server. `connect` is all that others use.

The options of a cluster are in `clusters.core.options`.
"""

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.core.backend import Connection


def connect(connection: Connection) -> VolcanoBackend:
    """The backend of one cluster; nothing is sent until it is used."""
    return VolcanoBackend(KubernetesClient(connection))

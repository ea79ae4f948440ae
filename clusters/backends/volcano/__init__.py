"""Volcano on Kubernetes, over the API server. `connect` is all that others use.

The options of a cluster are in `clusters.core.options`.
"""

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.credentials import CredentialsError, credentials_of
from clusters.core.backend import Connection


def secret_fault(secret: bytes, endpoint: str) -> str:
    """What is wrong with a secret, before it is used; "" = nothing."""
    try:
        credentials_of(secret, endpoint)
    except CredentialsError as error:
        return str(error)
    return ""


def connect(connection: Connection) -> VolcanoBackend:
    """The backend of one cluster; nothing is sent until it is used."""
    return VolcanoBackend(KubernetesClient(connection))

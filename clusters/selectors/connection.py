"""How to reach a cluster, with its secret in the clear: for the callers of backends only."""

import hashlib
import json

from django.conf import settings

from clusters.core.backend import Connection
from clusters.models import Cluster
from kit.crypto import decrypt
from kit.gate import Gate

CONFIGURED = (
    "title",
    "backend",
    "endpoint",
    "account",
    "options",
    "stores",
    "calls_at_once",
    "calls_per_s",
)


def connection_of(
    cluster: Cluster, secret: bytes | None = None, *, gate: Gate | None = None
) -> Connection:
    """The connection of a cluster. A cluster without a stored secret has an empty one.

    `secret` is tried instead of the stored one, which need not be readable then. Its calls pass
    the `gate`; without one, one of their own with the cluster's limit a second.

    Raises:
        UndecryptableError: the secret's key is no longer in MUSTER_ENCRYPTION_KEYS.
    """
    cipher = bytes(cluster.secret)
    if secret is None:
        secret = decrypt(cipher, settings.ENVIRONMENT.encryption_keys) if cipher else b""
    return Connection(
        name=cluster.name,
        endpoint=cluster.endpoint,
        secret=secret,
        account=cluster.account,
        options=dict(cluster.options),
        gate=gate or Gate(per_s=cluster.calls_per_s),
    )


def configuration_of(cluster: Cluster) -> dict[str, object]:
    """What an admin configured, without the secret."""
    return {name: getattr(cluster, name) for name in CONFIGURED}


def configuration_etag(cluster: Cluster) -> str:
    """A digest of the configuration alone.

    `Cluster.revision` also counts what was seen and so moves every few seconds; an admin's form
    must not be stale for that.
    """
    text = json.dumps(configuration_of(cluster), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]

"""The registry of backends: one line each."""

from collections.abc import Callable
from importlib import import_module

from clusters.core.backend import Backend, Connection

BACKENDS = {
    "slurm": "clusters.backends.slurm",
    "volcano": "clusters.backends.volcano",
}


def connect(kind: str, connection: Connection) -> Backend:
    """The backend of a cluster, its package loaded only where it is used.

    Raises:
        KeyError: no such backend.
    """
    make: Callable[[Connection], Backend] = import_module(BACKENDS[kind]).connect
    return make(connection)

"""The registry of backends: one line each."""

from collections.abc import Callable
from importlib import import_module

from clusters.core.backend import Backend, Connection

BACKENDS = {
    "slurm": "clusters.backends.slurm",
    "volcano": "clusters.backends.volcano",
}


def secret_fault(kind: str, secret: bytes, endpoint: str) -> str:
    """What is wrong with a cluster's secret, in words; "" = nothing that shows before it is used.

    A backend that has a form for it has a `secret_fault` of its own.
    """
    judge: Callable[[bytes, str], str] | None
    judge = getattr(import_module(BACKENDS[kind]), "secret_fault", None)
    return judge(secret, endpoint) if judge else ""


def connect(kind: str, connection: Connection) -> Backend:
    """The backend of a cluster, its package loaded only where it is used.

    Raises:
        KeyError: no such backend.
    """
    make: Callable[[Connection], Backend] = import_module(BACKENDS[kind]).connect
    return make(connection)

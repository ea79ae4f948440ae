"""The wire: faults on requests and answers, and a door that is shut for a while."""

from simulator.deeds.common import Deed, Json, bounded, state
from simulator.deeds.daemons import controller_up
from simulator.faults import Fault
from simulator.runtime import Running


def add_fault(
    cluster: Running,
    *,
    kind: str,
    method: str = "",
    path: str = "",
    times: int | None = 1,
    skip: int = 0,
    ms: int = 0,
    status: int = 503,
    text: str = "",
) -> Json:
    """A fault of a `kind` strikes requests of `method` whose path fits the expression `path`:
    so many `times` (null: always), after `skip` of them."""
    fault = Fault(
        id=cluster.faults.next_id,
        kind=kind,
        method=method,
        path=path,
        times=times,
        skip=skip,
        ms=ms,
        status=status,
        text=text,
    )
    cluster.faults.add(fault)
    return vars(fault)


def clear_faults(cluster: Running) -> Json:
    """All services up, no faults on the wire."""
    if cluster.faults.controller_down:
        controller_up(cluster, unknown_ms=0)
    cluster.faults.clear()
    return state(cluster)


def refuse(cluster: Running, *, ms: int) -> Json:
    """Nobody listens for `ms`: open connections end, new ones are refused."""
    cluster.faults.refuse(cluster.now_ms(), bounded("ms", ms, 1, 600_000))
    return state(cluster)


DEEDS: dict[str, Deed] = {
    "faults/add": add_fault,
    "faults/clear": clear_faults,
    "wire/refuse": refuse,
}

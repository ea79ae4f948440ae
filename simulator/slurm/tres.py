"""Trackable resources: the strings and lists in which Slurm counts what jobs and nodes have."""

from collections.abc import Iterable
from typing import Any

from simulator.config import Cluster
from simulator.engine.demand import cpus_asked_per_node, task_count
from simulator.engine.model import Request, Share

_IDS = {"cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5}
_GRES_ID = 1001

Counts = dict[str, int]


def memory_text(megabytes: int) -> str:
    """Memory as Slurm writes it: larger units as long as no more than half a unit is cut off."""
    number: float = megabytes
    units = iter("MGTP")
    unit = next(units)
    while number >= 1024 and int(number) % 512 == 0:
        number, unit = number / 1024, next(units)
    return f"{int(number)}{unit}" if number == int(number) else f"{number:.2f}{unit}"


def requested_cpus(request: Request) -> int:
    """CPUs of the whole job before rounding to cores."""
    if request.tasks_per_node or request.tasks is None:
        return cpus_asked_per_node(request) * request.nodes_min
    return task_count(request) * (request.cpus_per_task or 1)


def requested(request: Request, config: Cluster) -> Counts:
    """What a job asks for. An untyped request counts no typed GPUs."""
    cpus = requested_cpus(request)
    per_node = request.memory_per_node_mb
    memory = (
        cpus * (request.memory_per_cpu_mb or config.memory_per_cpu_mb)
        if per_node is None
        else per_node * request.nodes_min
    )
    counts = {"cpu": cpus, "mem": memory, "node": request.nodes_min, "billing": cpus}
    gpus = request.gpus_per_node * request.nodes_min
    if gpus:
        counts[f"gres/{config.gres}"] = gpus
        if request.gpu_type:
            counts[f"gres/{config.gres}:{request.gpu_type}"] = gpus
    return counts


def allocated(shares: Iterable[Share], config: Cluster) -> Counts:
    """What a job holds. GPUs count untyped and typed, whatever was asked."""
    held = list(shares)
    if not held:
        return {}
    cpus = sum(share.cpus for share in held)
    memory = sum(share.memory_mb for share in held)
    counts = {"cpu": cpus, "mem": memory, "node": len(held), "billing": cpus}
    return counts | gpu_counts(sum(len(share.gpus) for share in held), config)


def gpu_counts(gpus: int, config: Cluster) -> Counts:
    """A number of GPUs, untyped and typed; nothing for none."""
    if not gpus:
        return {}
    return {f"gres/{config.gres}": gpus, f"gres/{config.gres}:{config.gpu_type}": gpus}


def text(counts: Counts) -> str:
    """`cpu=256,mem=2T,node=4,...`"""
    return ",".join(
        f"{name}={memory_text(count) if name == 'mem' else count}" for name, count in counts.items()
    )


def listed(counts: Counts, *, energy: bool = False) -> list[dict[str, Any]]:
    """The list form of accounting, ids included. Allocations also list energy, unknown."""
    rows = []
    gres = [name for name in counts if name.startswith("gres/")]
    for name, number in _IDS.items():
        if name in counts:
            rows.append({"type": name, "name": None, "id": number, "count": counts[name]})
        elif name == "energy" and energy:
            rows.append({"type": name, "name": None, "id": number, "count": None})
    for name in gres:
        number = _GRES_ID + (":" in name)
        short = name.removeprefix("gres/")
        rows.append({"type": "gres", "name": short, "id": number, "count": counts[name]})
    return rows

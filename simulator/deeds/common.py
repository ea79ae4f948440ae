"""What all deeds share: how they are called, and how they name jobs."""

import inspect
import typing
from collections.abc import Callable
from typing import Any

from simulator.engine.commands import INVALID_JOB
from simulator.engine.model import RefusedError, World
from simulator.runtime import Running, Timed

Json = dict[str, Any]
Deed = Callable[..., Json]


def call(deed: Deed, cluster: Timed, data: Json) -> Json:
    """Do a deed with the values of a JSON body; ValueError or TypeError if they do not fit."""
    hints = typing.get_type_hints(deed)
    for name, value in data.items():
        kind = hints.get(name, object)
        wrong = isinstance(value, bool) and kind is not bool  # a bool is an int to Python
        if wrong or not isinstance(value, kind):
            raise ValueError(f"{name}: must be {getattr(kind, '__name__', kind)}, not {value!r}")
    return deed(cluster, **data)


def describe(deed: Deed) -> str:
    """What a deed does, and what it takes: `name`, or `name=default`."""
    parameters = list(inspect.signature(deed).parameters.values())[1:]
    taken = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in parameters
        if p.kind is p.KEYWORD_ONLY
    ]
    text = inspect.cleandoc(deed.__doc__ or "")
    return f"{text} ({', '.join(taken)})" if taken else text


def state(cluster: Running) -> Json:
    """Time, switches and faults in force."""
    now_ms = cluster.now_ms()
    world, board = cluster.world, cluster.faults
    return {
        "cluster": cluster.config.name,
        "now_ms": now_ms,
        "paused": world.paused,
        "controller_down": board.controller_down,
        "accounting_down": board.accounting_down,
        "jobs": len(world.jobs),
        "waiting": len(world.waiting),
        "runs": len(world.records),
        "next_job_id": world.next_job_id,
        "accounting_lag_ms": world.accounting_lag_ms,
        "accounting_deaf": world.accounting_deaf,
        "ambushes": world.ambushes,
        "faults": [vars(fault) for fault in board.faults],
    }


def bounded(name: str, value: int, least: int, most: int) -> int:
    """The value, if it lies between the two; ValueError else."""
    if not least <= value <= most:
        raise ValueError(f"{name}: must be from {least} to {most}, not {value}")
    return value


def named_jobs(world: World, job_id: int | None, name: str | None) -> list[int]:
    """The ids of slurmctld's jobs with this id or this name; RefusedError if there is none."""
    if job_id is None and name is None:
        raise ValueError("job_id or name is needed")
    found = [job.id for job in world.jobs.values() if job_id == job.id or name == job.request.name]
    if not found:
        raise RefusedError(INVALID_JOB)
    return found

"""Which handler answers which method and path."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from simulator.slurm import controller, database
from simulator.slurm.calls import Answer, Call


@dataclass(frozen=True)
class Endpoint:
    """A handler, its name in the table of failures, and the daemon it needs."""

    name: str
    daemon: Literal["controller", "accounting", "none"]
    handler: Callable[[Call], Answer]


SLURM = "/slurm/v0.0.38/"
SLURMDB = "/slurmdb/v0.0.38/"


def _slurm(name: str, handler: Callable[[Call], Answer]) -> Endpoint:
    return Endpoint(name, "controller", handler)


def _slurmdb(name: str, handler: Callable[[Call], Answer]) -> Endpoint:
    return Endpoint(name, "accounting", handler)


# Paths end in {} where an argument stands.
ROUTES: dict[str, dict[str, Endpoint]] = {
    f"{SLURM}ping": {"GET": _slurm("ping", controller.ping)},
    f"{SLURM}diag": {"GET": _slurm("diag", controller.diag)},
    f"{SLURM}licenses": {"GET": _slurm("licenses", controller.licenses)},
    f"{SLURM}jobs": {"GET": _slurm("jobs", controller.jobs)},
    f"{SLURM}job/submit": {"POST": _slurm("submit", controller.submit_job)},
    f"{SLURM}job/{{}}": {
        "GET": _slurm("job", controller.job),
        "POST": _slurm("update", controller.update_job),
        "DELETE": _slurm("cancel", controller.cancel_job),
    },
    f"{SLURM}nodes": {"GET": _slurm("nodes", controller.nodes)},
    f"{SLURM}node/{{}}": {"GET": _slurm("nodes", controller.node)},
    f"{SLURM}partitions": {"GET": _slurm("partitions", controller.partitions)},
    f"{SLURM}partition/{{}}": {"GET": _slurm("partitions", controller.partition)},
    f"{SLURM}reservations": {"GET": _slurm("reservations", controller.reservations)},
    f"{SLURM}reservation/{{}}": {"GET": _slurm("reservations", controller.reservation)},
    f"{SLURMDB}jobs": {"GET": _slurmdb("jobs", database.jobs)},
    f"{SLURMDB}job/{{}}": {"GET": _slurmdb("jobs", database.job)},
    f"{SLURMDB}diag": {"GET": _slurmdb("diag", database.diag)},
    f"{SLURMDB}clusters": {"GET": _slurmdb("clusters", database.clusters)},
    f"{SLURMDB}associations": {
        "GET": _slurmdb("associations", database.associations),
        "POST": _slurmdb("associations", database.change_associations),
    },
    f"{SLURMDB}users": {"GET": _slurmdb("users", database.users)},
    f"{SLURMDB}tres": {"GET": _slurmdb("tres", database.tres)},
}


def find_route(path: str) -> tuple[dict[str, Endpoint], str] | None:
    """The endpoints of a path by method, and the path's argument; None for no such path."""
    trimmed = path.rstrip("/")
    if trimmed in ROUTES:
        return ROUTES[trimmed], ""
    head, _, argument = trimmed.rpartition("/")
    found = ROUTES.get(f"{head}/{{}}")
    return None if found is None else (found, argument)


def openapi() -> dict[str, object]:
    """A small OpenAPI document: which versions and paths are served."""
    paths = {}
    for path, methods in ROUTES.items():
        argument = "{job_id}" if "/job/" in path else "{name}"
        shown = path.replace("{}", argument)
        paths[shown] = {
            method.lower(): {
                "tags": [shown.split("/")[1]],
                "operationId": shown.strip("/").replace("/", "_").replace(".", "_"),
                "responses": {"200": {"description": "as slurmrestd 22.05 answers"}},
            }
            for method in methods
        }
    return {
        "openapi": "3.0.2",
        "info": {"title": "Slurm Rest API", "version": "0.0.38", "description": "simulated"},
        "paths": paths,
    }

"""A world as plain JSON and back, so that a cluster survives a restart of the simulator."""

import dataclasses
from typing import Any

from simulator.config import Cluster
from simulator.engine.demand import demand_of
from simulator.engine.model import Job, Node, Request, Run, Share, State, Stay, World
from simulator.engine.program import Program
from simulator.engine.topology import build_nodes

VERSION = 2
_PLAIN = [
    "now_ms",
    "started_ms",
    "next_job_id",
    "era_ms",
    "era_first_id",
    "sequence",
    "changes",
    "pass_due_ms",
    "last_pass_ms",
    "paused",
    "jobs_changed_ms",
    "nodes_changed_ms",
    "foreign_drawn",
    "guests",
    "ambushes",
    "ambush_seconds",
    "accounting_lag_ms",
    "accounting_deaf",
    "shifts",
    "account_limits",
    "changed_accounts",
]
_NODE = [
    "cpus_used",
    "memory_used_mb",
    "exclusive_by",
    "down",
    "drain",
    "reason",
    "reason_ms",
    "last_busy_ms",
    "silent_until_ms",
    "back_at_ms",
    "revision",
    "owners",
]


def save_world(world: World) -> dict[str, Any]:
    """Everything but the configuration, in JSON's types."""
    position = {id(run): index for index, run in enumerate(world.records)}
    stay = {id(stay): index for index, stay in enumerate(world.stays)}
    return {
        "v": VERSION,
        "cluster": world.config.name,
        "world": {name: getattr(world, name) for name in _PLAIN},
        "heap": world.heap,
        "stays": [dataclasses.asdict(stay) for stay in world.stays],
        "records": [dataclasses.asdict(run) for run in world.records],
        "jobs": [
            {**_save_job(job, position.get(id(job.run))), "stay": stay.get(id(job.stay))}
            for job in world.jobs.values()
        ],
        "nodes": {
            node.name: {"jobs": sorted(node.jobs), **{name: getattr(node, name) for name in _NODE}}
            for node in world.nodes.values()
        },
    }


def _save_job(job: Job, position: int | None) -> dict[str, Any]:
    """The job; its run by its place in the records, or whole if accounting does not have it."""
    left_out = {"request", "demand", "run", "program", "shares", "stay"}
    fields = [f.name for f in dataclasses.fields(Job) if f.name not in left_out]
    return {
        **{name: getattr(job, name) for name in fields},
        "run": dataclasses.asdict(job.run) if position is None else position,
        "program": dataclasses.asdict(job.program),
        "shares": {name: dataclasses.asdict(share) for name, share in job.shares.items()},
    }


def restore_world(data: dict[str, Any], config: Cluster) -> World:
    """The world saved; ValueError if the configuration has other nodes than it had."""
    nodes = build_nodes(config)
    data = _from_first_version(data) if data["v"] == 1 else data
    if data["v"] != VERSION or set(data["nodes"]) != set(nodes):
        raise ValueError("it belongs to another version or another cluster")
    for name, saved in data["nodes"].items():
        _restore_node(nodes[name], saved)
    plain = {"accounting_lag_ms": config.accounting_lag_ms, **data["world"]}
    world = World(config=config, nodes=nodes, **plain)
    world.foreign = config.foreign
    world.heap = [(due, number, kind, job) for due, number, kind, job in data["heap"]]
    world.guests = [(account, user) for account, user in world.guests]
    world.shifts = [(since, offset) for since, offset in world.shifts]
    world.records = [_run(run) for run in data["records"]]
    world.stays = [Stay(**{**s, "nodes": tuple(s["nodes"])}) for s in data.get("stays", [])]
    for saved in data["jobs"]:
        _restore_job(world, saved)
    return world


def _from_first_version(data: dict[str, Any]) -> dict[str, Any]:
    """Requests were kept by job id then, not with the runs."""
    requests = data["requests"]
    records = [{**run, "request": requests[str(run["job_id"])]} for run in data["records"]]
    return {**data, "v": VERSION, "records": records}


def _restore_node(node: Node, saved: dict[str, Any]) -> None:
    if len(saved["owners"]) != len(node.owners):
        raise ValueError("nodes have another number of GPUs")
    for name in saved.keys() & set(_NODE):
        setattr(node, name, saved[name])
    node.jobs = set(saved["jobs"])


def _request(saved: dict[str, Any]) -> Request:
    lists = {name: tuple(saved[name]) for name in ("required_nodes", "excluded_nodes")}
    return Request(**{**saved, **lists})


def _shares(saved: dict[str, Any]) -> dict[str, Share]:
    return {name: Share(tuple(s["gpus"]), s["cpus"], s["memory_mb"]) for name, s in saved.items()}


def _run(saved: dict[str, Any]) -> Run:
    restored = {"request": _request(saved["request"]), "state": State(saved["state"])}
    return Run(**{**saved, **restored, "shares": _shares(saved["shares"])})


def _restore_job(world: World, saved: dict[str, Any]) -> None:
    kept = saved["run"]
    run = world.records[kept] if isinstance(kept, int) else _run(kept)
    request, program = run.request, saved["program"]
    job = Job(
        **{
            **saved,
            "request": request,
            "demand": demand_of(request, world.config),
            "program": Program(**{**program, "traps": tuple(program["traps"])}),
            "run": run,
            "stay": None if saved.get("stay") is None else world.stays[saved["stay"]],
            "state": State(saved["state"]),
            "shares": _shares(saved["shares"]),
            "signals": [(number, when) for number, when in saved["signals"]],
        }
    )
    world.jobs[job.id] = job
    world.by_name.setdefault((request.user, request.name), set()).add(job.id)
    if job.waiting:
        world.waiting.add(job.id)

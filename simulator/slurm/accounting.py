"""Accounting as dbv0.0.38 shows it: every run of a job, queried as the real one is."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from simulator.config import Cluster
from simulator.engine.clocks import seconds
from simulator.engine.model import Request, Run, Share, State, World
from simulator.hostlist import compress
from simulator.slurm import tres
from simulator.slurm.errors import Body, numbered
from simulator.slurm.times import parse_instant

Row = dict[str, Any]
_ZERO = {"seconds": 0, "microseconds": 0}
_NO_TIMES = {"suspended": 0, "system": _ZERO, "total": _ZERO, "user": _ZERO}
_SUCCESS = {"status": "SUCCESS", "return_code": 0}
_EXECUTING = {State.PENDING, State.RUNNING}


class QueryError(Exception):
    """A query that the accounting side does not take; `error` goes into the answer."""

    def __init__(self, error: Body) -> None:
        super().__init__(error)
        self.error = error


def known_runs(world: World, now_ms: int) -> list[Run]:
    """All runs as accounting knows them: behind the controller by its lag."""
    seen_ms = now_ms - world.accounting_lag_ms
    return [_as_of(run, seen_ms) for run in world.records if run.submit_ms <= seen_ms]


def _as_of(run: Run, seen_ms: int) -> Run:
    if run.end_ms and run.end_ms > seen_ms:
        state = State.RUNNING if run.start_ms else State.PENDING
        run = replace(run, end_ms=0, state=state, exit_status=0, killed_by="")
    if run.start_ms > seen_ms:
        run = replace(run, start_ms=0, state=State.PENDING, shares={})
    return run


def select_runs(world: World, query: Mapping[str, str], now_ms: int) -> list[Run]:
    """The runs a `jobs` query asks for; only the last one of a job unless `skip_steps` is given."""
    tests = [_filter(world, key, value, now_ms) for key, value in query.items()]
    if "state" in query and not {"start_time", "end_time"} <= set(query):
        return []
    runs = [run for run in known_runs(world, now_ms) if all(test(run) for test in tests)]
    if skips_steps(query):
        return runs
    return sorted({run.job_id: run for run in runs}.values(), key=lambda run: run.job_id)


def skips_steps(query: Mapping[str, str]) -> bool:
    """Does the query leave out steps?"""
    return query.get("skip_steps", "") not in {"", "false", "0"}


def _filter(world: World, key: str, value: str, now_ms: int) -> Callable[[Run], bool]:
    """The test that a query field stands for; QueryError for a field nobody knows."""
    wanted = set(value.split(","))
    if key in _REQUEST_FIELDS:
        field = _REQUEST_FIELDS[key]
        return lambda run: getattr(run.request, field) in wanted
    if key in {"start_time", "end_time"}:
        instant = _instant(key, value, seconds(world, now_ms))
        return (
            _ends_after(world, instant) if key == "start_time" else _starts_before(world, instant)
        )
    tests: dict[str, Callable[[Run], bool]] = {
        "cluster": lambda run: world.config.name in wanted,
        "node": lambda run: bool(wanted & set(run.shares)),
        "state": lambda run: run.state in wanted,
        "skip_steps": lambda run: True,
    }
    if key not in tests:
        raise QueryError(numbered(9000, "Unknown Query field", None))
    return tests[key]


_REQUEST_FIELDS = {"job_name": "name", "account": "account", "partition": "partition"}


def _ends_after(world: World, instant: int) -> Callable[[Run], bool]:
    return lambda run: run.end_ms == 0 or seconds(world, run.end_ms) >= instant


def _starts_before(world: World, instant: int) -> Callable[[Run], bool]:
    return lambda run: seconds(world, run.start_ms or run.end_ms or run.submit_ms) < instant


def _instant(key: str, value: str, now: int) -> int:
    try:
        return parse_instant(value, now)
    except ValueError as error:
        raise QueryError(numbered(9000, "Unable to parse time format", key)) from error


def run_row(world: World, run: Run, now_ms: int, *, steps: bool) -> Row:
    """One element of accounting's `jobs`: one run."""
    request, config = run.request, world.config
    return _who(config, request, run) | {
        "allocation_nodes": len(run.shares),
        "constraints": request.constraints,
        "derived_exit_code": dict(_SUCCESS),
        "exit_code": _exit_code(run),
        "flags": ["CLEAR_SCHEDULING", "STARTED_ON_SCHEDULE"] if run.start_ms else [],
        "kill_request_user": run.killed_by or None,
        "nodes": compress(run.shares) or "None assigned",
        "priority": run.priority,
        "required": {
            "CPUs": tres.requested_cpus(request),
            "memory": request.memory_per_node_mb
            or request.memory_per_cpu_mb
            or config.memory_per_cpu_mb,
        },
        "state": {"current": str(run.state), "reason": run.reason},
        "steps": [_batch_step(world, run, now_ms)] if steps and run.start_ms else [],
        "time": _times(world, run, now_ms) | {"limit": request.time_limit},
        "tres": {
            "allocated": tres.listed(tres.allocated(run.shares.values(), config), energy=True)
            if run.shares
            else [],
            "requested": tres.listed(tres.requested(request, config)),
        },
    }


def _who(config: Cluster, request: Request, run: Run) -> Row:
    """Names and labels. The comment comes into accounting when the job ends."""
    comment = request.comment if run.state not in _EXECUTING and request.comment else None
    return {
        "account": request.account,
        "comment": {"administrator": None, "job": comment, "system": None},
        "array": {
            "job_id": 0,
            "limits": {"max": {"running": {"tasks": 0}}},
            "task": None,
            "task_id": None,
        },
        "association": {
            "account": request.account,
            "cluster": config.name,
            "partition": None,
            "user": request.user,
        },
        "cluster": config.name,
        "container": None,
        "group": request.user,
        "het": {"job_id": 0, "job_offset": None},
        "job_id": run.job_id,
        "name": request.name,
        "mcs": {"label": ""},
        "partition": request.partition,
        "qos": request.qos,
        "reservation": {"id": 0, "name": 0},
        "user": request.user,
        "wckey": {"wckey": "", "flags": []},
        "working_directory": request.directory,
    }


def _times(world: World, run: Run, now_ms: int) -> Row:
    """Whole seconds. `start` is null for a run cancelled before it started, 0 while it waits."""
    started = seconds(world, run.start_ms) if run.start_ms else (None if run.end_ms else 0)
    until = seconds(world, run.end_ms or now_ms)
    return {
        "elapsed": max(0, until - seconds(world, run.start_ms)) if run.start_ms else 0,
        "eligible": seconds(world, run.eligible_ms),
        "end": seconds(world, run.end_ms),
        "start": started,
        "submission": seconds(world, run.submit_ms),
        **_NO_TIMES,
    }


def _exit_code(run: Run) -> Row:
    """As 22.05 really answers: SUCCESS even for exit 3 and for a cancel; a signal is told."""
    if run.state is State.FAILED and 0 < run.exit_status < 128:
        return _signalled(run.exit_status)
    return dict(_SUCCESS)


def _signalled(number: int) -> Row:
    name = signal.strsignal(number)
    return {
        "status": "SIGNALED",
        "return_code": None,
        "signal": {"signal_id": number, "name": name},
    }


def _batch_step(world: World, run: Run, now_ms: int) -> Row:
    """The batch script's own step, on the first node."""
    config = world.config
    name, share = next(iter(run.shares.items()))
    kinds = ("max", "min", "average", "total")
    empty: Row = {kind: [] for kind in kinds}
    # A timeout is no exit status of the job, but its script was told to terminate.
    number = signal.SIGTERM if run.state is State.TIMEOUT else run.exit_status
    times = {
        k: v for k, v in _times(world, run, now_ms).items() if k not in {"eligible", "submission"}
    }
    return {
        "nodes": {"list": [name], "count": 1, "range": name},
        "tres": {
            "requested": dict(empty),
            "consumed": dict(empty),
            "allocated": tres.listed(_step_counts(share, config)),
        },
        "time": times,
        "exit_code": _signalled(number) if 0 < number < 128 else dict(_SUCCESS),
        "tasks": {"count": 1},
        "pid": None,
        "CPU": {"requested_frequency": {"min": 0, "max": 0}, "governor": []},
        "kill_request_user": None,
        "state": _STEP_STATES.get(run.state, str(run.state)),
        "statistics": {"CPU": {"actual_frequency": 0}, "energy": {"consumed": 0}},
        "step": {
            "job_id": run.job_id,
            "het": {"component": None},
            "id": "batch",
            "name": "batch",
        },
        "task": {"distribution": "Unknown"},
    }


_STEP_STATES = {State.NODE_FAIL: "CANCELLED", State.TIMEOUT: "CANCELLED"}


def _step_counts(share: Share, config: Cluster) -> tres.Counts:
    counts = tres.allocated([share], config)
    del counts["billing"]
    return counts


def cluster_row(world: World) -> Row:
    """The one element of `clusters`."""
    nodes = list(world.nodes.values())
    cpus, gpus = sum(n.cpus for n in nodes), sum(len(n.owners) for n in nodes)
    counts = {
        "cpu": cpus,
        "mem": sum(n.memory_mb for n in nodes),
        "energy": 0,
        "node": len(nodes),
        "billing": cpus,
    } | tres.gpu_counts(gpus, world.config)
    return {
        "controller": {"host": world.config.host, "port": 6817},
        "flags": ["MULTIPLE_SLURMD"],
        "name": world.config.name,
        "nodes": compress(world.nodes),
        "select_plugin": "cons_tres",
        "associations": {"root": None},
        "rpc_version": 9728,
        "tres": tres.listed(counts),
    }


def database_statistics(world: World) -> Row:
    """The `statistics` of the accounting daemon, for administrators; nothing is counted."""
    return {"time_start": seconds(world, world.started_ms), "rollups": [], "RPCs": [], "users": []}

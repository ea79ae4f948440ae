"""The job options of v0.0.38: which names are known, and what their values mean.

22.05 takes sbatch's long options with underscores. It stops at the first key it cannot use.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from simulator.hostlist import expand
from simulator.slurm.errors import TEXT, Body, coded, numbered
from simulator.slurm.times import parse_instant, parse_minutes

_FIELDS = dict[str, Any]
_MEMORY = re.compile(r"^(\d+)([KMGT]?)B?$", re.IGNORECASE)
_MEGABYTES = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_GRES = re.compile(r"^(?:gres[:/])?(\w+)(?::([A-Za-z_][\w.-]*))?(?::(\d+))?$")
_GPUS = re.compile(r"^(?:([A-Za-z_][\w.-]*):)?(\d+)$")
_NODES = re.compile(r"^(\d+)(?:-(\d+))?$")

# Known to slurmrestd and without effect on the simulation.
ACCEPTED = frozenset(
    [
        "account_gather_frequency",
        "argv",
        "array",
        "batch_features",
        "burst_buffer",
        "cluster_constraint",
        "container",
        "core_specification",
        "cores_per_socket",
        "cpu_binding",
        "cpu_binding_hint",
        "cpu_frequency",
        "cpus_per_gpu",
        "deadline",
        "delay_boot",
        "distribution",
        "get_user_environment",
        "gpu_binding",
        "gpu_frequency",
        "gpus",
        "gpus_per_socket",
        "gpus_per_task",
        "gres_flags",
        "kill_on_invalid_dependency",
        "licenses",
        "mail_type",
        "mail_user",
        "mcs_label",
        "memory_binding",
        "memory_per_gpu",
        "minimum_cpus_per_node",
        "minimum_nodes",
        "no_kill",
        "open_mode",
        "oversubscribe",
        "prefer",
        "reservation",
        "signal",
        "sockets_per_node",
        "spread_job",
        "tasks_per_core",
        "tasks_per_socket",
        "thread_specification",
        "threads_per_core",
        "time_minimum",
        "wait_all_nodes",
        "wckey",
        "test_only",
    ]
)
# Known to sbatch and refused over REST (openapi/v0.0.38/jobs.c, table job_params).
DISABLED = frozenset(
    [
        "required_switches",
        "wait_for_switch",
        "required_nodes",
        "contiguous",
        "network",
        "reboot",
        "overcommit",
        "clusters",
        "immediate",
        "interactive",
        "parsable",
        "quiet",
        "uid",
        "gid",
        "verbose",
        "wait",
        "wrap",
        "export",
        "export_file",
    ]
)


class OptionError(Exception):
    """A key the request cannot be parsed with; `errors` goes into the answer as it is."""

    def __init__(self, *errors: Body) -> None:
        super().__init__(errors)
        self.errors = list(errors)


class ValueRefusedError(Exception):
    """A value that an option does not take; carries Slurm's number and text."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number, self.text = number, text


def parse_options(job: Mapping[str, Any], *, now: int) -> dict[str, Any]:
    """Fields of the engine's request from a `job` object; OptionError for the first bad key."""
    fields: dict[str, Any] = {}
    for key, value in job.items():
        if key in DISABLED:
            text = f'Disabled key: "{key}"'
            raise OptionError(numbered(1, text, "openapi specification"))
        if key in _PARSERS:
            fields |= _parse_one(key, value, now)
        elif key not in ACCEPTED:
            raise OptionError({"description": f'Unknown key "{key}"', "source": "hsearch_r"})
    return fields


def _parse_one(key: str, value: Any, now: int) -> dict[str, Any]:
    try:
        return _PARSERS[key](value, now)
    except ValueRefusedError as error:
        text = f'Unable to process key "{key}"'
        raise OptionError(
            {"error": error.text, "error_code": error.number},
            numbered(-1, text, "slurm_process_option_data"),
        ) from error


def parse_environment(job: Mapping[str, Any]) -> None:
    """A job without an environment is refused."""
    environment = job.get("environment")
    if environment is None or environment == {}:
        raise OptionError({"error": TEXT[2127], "error_code": 2127})


def _string(value: Any) -> str:
    if isinstance(value, dict | list) or value is None:
        raise ValueRefusedError(9202, TEXT[9202])
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(name: str) -> Callable[[Any, int], _FIELDS]:
    return lambda value, now: {name: _string(value)}


def _number(name: str) -> Callable[[Any, int], _FIELDS]:
    def parse(value: Any, now: int) -> _FIELDS:
        text = _string(value)
        if not re.match(r"^-?\d+$", text):
            raise ValueRefusedError(9202, "Unable to read integer value")
        return {name: int(text)}

    return parse


def _flag(name: str) -> Callable[[Any, int], _FIELDS]:
    return lambda value, now: {name: _string(value) not in {"false", "0", "no"}}


def _nodes(value: Any, now: int) -> _FIELDS:
    text = "-".join(str(v) for v in value) if isinstance(value, list) else _string(value)
    match = _NODES.match(text)
    if match is None:
        raise ValueRefusedError(-1, "Invalid node count string")
    least = int(match.group(1))
    return {"nodes_min": least, "nodes_max": int(match.group(2) or least)}


def _memory(name: str) -> Callable[[Any, int], _FIELDS]:
    def parse(value: Any, now: int) -> _FIELDS:
        match = _MEMORY.match(_string(value))
        if match is None:
            raise ValueRefusedError(-1, "Invalid memory specification")
        number, unit = match.groups()
        return {name: int(int(number) * _MEGABYTES[unit.upper()])}

    return parse


def _gres(value: Any, now: int) -> _FIELDS:
    match = _GRES.match(_string(value))
    if match is None or match.group(1) != "gpu":
        raise OptionError
    kind, count = match.group(2) or "", int(match.group(3) or 1)
    return _gpu_fields(kind, count)


def _gpus_per_node(value: Any, now: int) -> _FIELDS:
    match = _GPUS.match(_string(value))
    if match is None:
        raise OptionError
    return _gpu_fields(match.group(1) or "", int(match.group(2)))


def _gpu_fields(kind: str, count: int) -> _FIELDS:
    middle = f"{kind}:" if kind else ""
    return {"gpus_per_node": count, "gpu_type": kind, "gres": f"gpu:{middle}{count}"}


def _node_list(name: str) -> Callable[[Any, int], _FIELDS]:
    def parse(value: Any, now: int) -> _FIELDS:
        try:
            return {name: tuple(expand(_string(value)))}
        except ValueError:
            # Not a hostlist: no node has such a name, and that is found out later.
            return {name: (_string(value),)}

    return parse


def _minutes(value: Any, now: int) -> _FIELDS:
    text = _string(value)
    if re.match(r"^-\d+$", text):
        return {"time_limit": int(text)}
    try:
        return {"time_limit": parse_minutes(text)}
    except ValueError as error:
        raise ValueRefusedError(-1, "Invalid time specification") from error


def _begin(value: Any, now: int) -> _FIELDS:
    try:
        return {"begin_ms": parse_instant(_string(value), now) * 1000}
    except ValueError as error:
        raise ValueRefusedError(2054, TEXT[2054]) from error


def _exclusive(value: Any, now: int) -> _FIELDS:
    if _string(value) not in {"exclusive", "user", "mcs"}:
        raise ValueRefusedError(-1, "Invalid exclusive specification")
    return {"exclusive": _string(value) == "exclusive"}


def _environment(value: Any, now: int) -> _FIELDS:
    if not isinstance(value, dict):
        raise ValueRefusedError(-1, "environment must be a dictionary")
    return {}


_PARSERS: dict[str, Callable[[Any, int], _FIELDS]] = {
    "account": _text("account"),
    "begin_time": _begin,
    "comment": _text("comment"),
    "constraints": _text("constraints"),
    "cpus_per_task": _number("cpus_per_task"),
    "current_working_directory": _text("directory"),
    "dependency": _text("dependency"),
    "environment": _environment,
    "exclude_nodes": _node_list("excluded_nodes"),
    "exclusive": _exclusive,
    "gpus_per_node": _gpus_per_node,
    "gres": _gres,
    "hold": _flag("hold"),
    "memory_per_cpu": _memory("memory_per_cpu_mb"),
    "memory_per_node": _memory("memory_per_node_mb"),
    "name": _text("name"),
    "nice": _number("nice"),
    "no_requeue": lambda value, now: {"requeue": False},
    "nodelist": _node_list("required_nodes"),
    "nodes": _nodes,
    "partition": _text("partition"),
    "priority": _number("priority"),
    "qos": _text("qos"),
    "requeue": _flag("requeue"),
    "standard_error": _text("standard_error"),
    "standard_input": _text("standard_input"),
    "standard_output": _text("standard_output"),
    "tasks": _number("tasks"),
    "tasks_per_node": _number("tasks_per_node"),
    "time_limit": _minutes,
}

# What POST job/{id} can change; `name` and `nodes` are accepted and ignored, as seen live.
CHANGEABLE = frozenset(
    [
        "hold",
        "priority",
        "comment",
        "time_limit",
        "required_nodes",
        "excluded_nodes",
        "nice",
        "begin_ms",
        "qos",
        "requeue",
        "dependency",
    ]
)


def parse_failure() -> Body:
    """The error that ends every refused submit."""
    return coded(9001)

"""A gang as Slurm's submit request.

Names: the job's name is the fence and its comment `<mark>:<fence>`, both plain ASCII of our own;
the user's title may hold any text and therefore travels only in the environment
(`MUSTER_JOB_NAME`).
"""

import re
from collections.abc import Callable, Mapping
from zlib import crc32

from clusters.backends.slurm.hostlist import compress
from clusters.backends.slurm.values import Json, wrapped
from clusters.backends.slurm.versions import Dialect
from clusters.core.checkpoint_note import has_note, without_note
from clusters.core.gang import Gang

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# Below the usual ephemeral range (32768 on), above the services
_FIRST_PORT, _PORTS = 15_000, 15_000
_SHELL = re.compile(r"#!\s*\S*/(?:env\s+)?(?:ba|da|k|z)?sh\b")
_SIGNAL = re.compile(r"[A-Z][A-Z0-9]{1,11}")


def owner_mark(options: Mapping[str, str]) -> str:
    """What tells our jobs from others' (option `mark`): one per Muster on the same cluster."""
    return options.get("mark", "muster")


def comment_of(mark: str, fence: str) -> str:
    """The comment that makes a job of this name ours."""
    return f"{mark}:{fence}"


def is_ours(mark: str, name: str, comment: str, known: Callable[[str], bool]) -> bool:
    """Whether a job is ours: by the mark in its comment.

    A job that notes its checkpoints may have written over the mark; then it is ours if its name is
    a fence that is `known` to be.
    """
    if comment == comment_of(mark, name):
        return True
    if not has_note(comment):
        return False
    rest = without_note(comment)
    return rest == comment_of(mark, name) or (not rest and known(name))


def submit_body(gang: Gang, dialect: Dialect, options: Mapping[str, str], cluster: str) -> Json:
    """The whole body of `POST job/submit`: held, singleton, pinned, never requeued by Slurm."""
    job: Json = {
        "name": gang.fence,
        "comment": comment_of(owner_mark(options), gang.fence),
        "hold": True,
        "dependency": "singleton",
        "requeue": False,
        "account": gang.charge,
        "partition": gang.queue,
        "qos": gang.service_class,
        "current_working_directory": gang.workdir or _workdir(gang, options),
        "standard_output": gang.output,
        "standard_error": gang.error,
        "tasks": gang.shape.nodes * gang.tasks_per_node,
        "tasks_per_node": gang.tasks_per_node,
        "cpus_per_task": gang.shape.per_node.cpus // gang.tasks_per_node,
    }
    minutes = -(-gang.time_limit_s // 60)
    memory = gang.shape.per_node.memory_mib
    job |= _newer(gang, minutes, memory) if dialect.uses_tres else _v38(gang, minutes, memory)
    variables = environment(gang, options, cluster)
    job["environment"] = (
        [f"{key}={value}" for key, value in variables.items()]
        if dialect.lists_environment
        else variables
    )
    # Empty means the cluster's default; Slurm would read 0 CPUs or 0 MiB as something else.
    job = {key: value for key, value in job.items() if value not in ("", 0, None) or value is False}
    script = guard_shell(gang.script, gang.signal)
    if dialect.script_inside:
        return {"job": job | {"script": script}}
    return {"job": job, "script": script}


def _v38(gang: Gang, minutes: int, memory_mib: int) -> Json:
    """Slurm 22.05 takes sbatch's names, some of which it does not list."""
    return {
        "nodes": gang.shape.nodes,
        "nodelist": compress(gang.nodes),
        "no_requeue": True,
        "gres": _gres(gang, "gpu:"),
        "memory_per_node": f"{memory_mib}M" if memory_mib else "",
        "time_limit": minutes,
        "exclusive": "exclusive" if gang.shape.exclusive else "",
        "signal": f"{signal}@{gang.grace_s}" if (signal := _signal(gang.signal)) else "",
    }


def _newer(gang: Gang, minutes: int, memory_mib: int) -> Json:
    """v0.0.40 and later (slurm.md §9): other names, wrapped numbers. Not yet run live."""
    return {
        "nodes": str(gang.shape.nodes),
        "required_nodes": list(gang.nodes),
        "tres_per_node": _gres(gang, "gres/gpu:"),
        "memory_per_node": wrapped(memory_mib) if memory_mib else None,
        "time_limit": wrapped(minutes),
        "shared": ["none"] if gang.shape.exclusive else None,
        "kill_warning_signal": _signal(gang.signal),
        "kill_warning_delay": wrapped(gang.grace_s) if _signal(gang.signal) else None,
    }


def _gres(gang: Gang, prefix: str) -> str:
    count = gang.shape.per_node.gpus
    kind = f"{gang.device}:" if gang.device else ""
    return f"{prefix}{kind}{count}" if count else ""


def _workdir(gang: Gang, options: Mapping[str, str]) -> str:
    return _fill(options.get("workdir", "/home/{account}"), gang)


def _fill(template: str, gang: Gang) -> str:
    return template.replace("{account}", gang.account)


def _signal(name: str) -> str:
    """A signal's name without SIG; "" when there is none or it is no signal's name."""
    short = name.upper().removeprefix("SIG")
    return short if _SIGNAL.fullmatch(short) else ""


def guard_shell(script: str, signal: str) -> str:
    """Keep a shell script alive under the checkpoint signal, by a no-op trap after the first line.

    Slurm 22.05 signals the batch shell together with the steps, and an untrapped USR1 ends the
    shell and so the job. The user's own trap comes later and wins; programs the shell starts get
    the signal as usual, since a trap (unlike an ignored signal) is not inherited. Scripts of other
    interpreters are left as they are.
    """
    first, newline, rest = script.partition("\n")
    name = _signal(signal)
    if not name or name in {"KILL", "STOP"} or not _SHELL.match(first):
        return script
    return f"{first}{newline or chr(10)}trap : {name}  # muster: the checkpoint signal\n{rest}"


def environment(gang: Gang, options: Mapping[str, str], cluster: str) -> dict[str, str]:
    """The job's whole environment: a batch job over REST gets nothing else.

    Defaults, then the cluster's `environment.*` options (`{account}` is filled in), then the
    user's, then our own `MUSTER_*`, which nobody overrides. `srun torchrun train.py` works as it
    is: torchrun takes its flags from `PET_*`; scripts that build their own command line find
    `MASTER_ADDR`, `MASTER_PORT`, `NNODES`, `GPUS_PER_NODE` and `WORLD_SIZE` (the number of GPUs).
    """
    own = {
        "MUSTER_FENCE": gang.fence,
        "MUSTER_JOB_NAME": gang.title,
        "MUSTER_CLUSTER": cluster,
        "MUSTER_NODES": ",".join(gang.nodes),
    }
    site = {
        key.removeprefix("environment."): _fill(value, gang)
        for key, value in options.items()
        if key.startswith("environment.")
    }
    account = {"PATH": DEFAULT_PATH, "USER": gang.account, "LOGNAME": gang.account}
    return account | rendezvous(gang) | site | dict(gang.environment) | own


def rendezvous(gang: Gang) -> dict[str, str]:
    """Where the ranks meet: the first node, and a port that follows from the fence."""
    if not gang.nodes:
        return {}
    port = str(_FIRST_PORT + crc32(gang.fence.encode()) % _PORTS)
    nodes, gpus = str(gang.shape.nodes), str(gang.shape.per_node.gpus)
    return {
        "MASTER_ADDR": gang.nodes[0],
        "MASTER_PORT": port,
        "NNODES": nodes,
        "GPUS_PER_NODE": gpus,
        "WORLD_SIZE": str(gang.shape.gpus),
        "PET_NNODES": nodes,
        "PET_NPROC_PER_NODE": gpus,
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{gang.nodes[0]}:{port}",
        "PET_RDZV_ID": gang.fence,
    }

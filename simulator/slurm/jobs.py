"""A job of the controller as v0.0.38 shows it: every key of the recorded replies."""

from typing import Any

from simulator.config import Cluster
from simulator.engine.clocks import seconds
from simulator.engine.demand import cpus_asked_per_node, task_count
from simulator.engine.model import Job, Share, State, World
from simulator.hostlist import compress
from simulator.slurm import tres

Row = dict[str, Any]

# Keys that the simulation never fills, with the value real Slurm shows for such jobs.
_EMPTY: Row = (
    dict.fromkeys(
        [
            "admin_comment",
            "array_task_string",
            "batch_features",
            "burst_buffer",
            "burst_buffer_state",
            "cluster_features",
            "command",
            "container",
            "cpus_per_tres",
            "federation_origin",
            "federation_siblings_active",
            "federation_siblings_viable",
            "het_job_id_set",
            "licenses",
            "mcs_label",
            "memory_per_tres",
            "prefer",
            "resv_name",
            "system_comment",
            "tres_bind",
            "tres_freq",
            "tres_per_job",
            "tres_per_socket",
            "tres_per_task",
            "wckey",
        ],
        "",
    )
    | dict.fromkeys(
        [
            "array_job_id",
            "array_max_tasks",
            "deadline",
            "delay_boot",
            "derived_exit_code",
            "het_job_id",
            "het_job_offset",
            "max_cpus",
            "minimum_tmp_disk_per_node",
            "preempt_time",
            "pre_sus_time",
            "resize_time",
            "sockets_per_board",
            "suspend_time",
            "tasks_per_board",
            "time_minimum",
        ],
        0,
    )
    | dict.fromkeys(
        [
            "array_task_id",
            "core_spec",
            "thread_spec",
            "cores_per_socket",
            "cpus_per_task",
            "cpu_frequency_minimum",
            "cpu_frequency_maximum",
            "cpu_frequency_governor",
            "tasks_per_core",
            "tasks_per_socket",
            "profile",
            "sockets_per_node",
            "threads_per_core",
        ]
    )
    | {"contiguous": False, "reboot": False, "batch_flag": True}
)


def job_row(world: World, job: Job) -> Row:
    """One element of `jobs`. A job that never started has no `job_resources` key at all."""
    row = _EMPTY | _identity(world, job) | _times(world, job) | _wishes(world, job)
    row |= _allocation(world.config, job)
    return row


def _identity(world: World, job: Job) -> Row:
    request = job.request
    return {
        "account": request.account,
        "association_id": job.association_id,
        "cluster": world.config.name,
        "comment": request.comment,
        "current_working_directory": request.directory,
        "dependency": _dependency(job),
        "exit_code": job.exit_status,
        "flags": _flags(job),
        "group_id": request.uid,
        "group_name": request.user,
        "job_id": job.id,
        "job_state": "COMPLETING" if job.completing else str(job.state),
        "name": request.name,
        "nice": request.nice or None,
        "partition": request.partition,
        "priority": job.priority,
        "qos": request.qos,
        "requeue": request.requeue,
        "restart_cnt": job.restarts,
        "show_flags": ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"],
        "standard_error": request.standard_error,
        "standard_input": request.standard_input,
        "standard_output": request.standard_output,
        "state_description": job.description,
        "state_reason": job.reason,
        "user_id": request.uid,
        "user_name": request.user,
    }


def _dependency(job: Job) -> str:
    """Shown until the job has started, every clause as unfulfilled."""
    clauses = [part for part in job.request.dependency.split(",") if part]
    return ",".join(f"{c}(unfulfilled)" for c in clauses) if job.run.start_ms == 0 else ""


def _flags(job: Job) -> list[str]:
    flags = ["JOB_CPUS_SET"] if job.request.cpus_per_task else []
    if job.run.start_ms:
        flags.append("JOB_ACCRUE_OVER")
    if job.state is State.RUNNING:
        flags.append("JOB_WAS_RUNNING")
    memory = job.request.memory_per_node_mb or job.request.memory_per_cpu_mb
    return [*flags, "JOB_MEM_SET"] if memory else flags


def _times(world: World, job: Job) -> Row:
    start, end = job.start_ms, job.end_ms
    if job.waiting and job.expected_start_ms:
        start = job.expected_start_ms
        end = start + world.config.job_ms(job.request.time_limit * 60)
    return {
        "accrue_time": seconds(world, job.eligible_ms),
        "eligible_time": seconds(world, job.eligible_ms),
        "end_time": seconds(world, end),
        "last_sched_evaluation": seconds(world, job.last_evaluated_ms or job.submit_ms),
        "start_time": seconds(world, start),
        "submit_time": seconds(world, job.submit_ms),
        "time_limit": job.request.time_limit,
    }


def _wishes(world: World, job: Job) -> Row:
    request, config = job.request, world.config
    per_node = request.memory_per_node_mb
    per_cpu = request.memory_per_cpu_mb or config.memory_per_cpu_mb
    return {
        "excluded_nodes": compress(request.excluded_nodes),
        "features": request.constraints,
        "max_nodes": 0 if job.run.start_ms else request.nodes_max,
        "memory_per_cpu": per_cpu if per_node is None else None,
        "memory_per_node": per_node,
        "minimum_cpus_per_node": cpus_asked_per_node(request) if request.tasks_per_node else 1,
        "required_nodes": compress(request.required_nodes),
        "shared": "none" if request.exclusive else None,
        "tasks": task_count(request),
        "tasks_per_node": request.tasks_per_node or 0,
        "tres_per_node": f"gres:{request.gres}" if request.gres else "",
        "tres_req_str": tres.text(tres.requested(request, config)),
    }


def _allocation(config: Cluster, job: Job) -> Row:
    shares = job.shares
    held = tres.allocated(shares.values(), config)
    names = list(shares)
    row: Row = {
        "batch_host": names[0] if names else "",
        "billable_tres": float(held["billing"]) if held else None,
        "cpus": held.get("cpu", tres.requested_cpus(job.request)),
        "gres_detail": [],
        "node_count": len(shares) or job.request.nodes_min,
        "nodes": compress(shares),
        "tres_alloc_str": tres.text(held),
    }
    if job.state is State.RUNNING:
        row["gres_detail"] = [_gres_text(config, s) for s in shares.values() if s.gpus]
    if shares:
        row["job_resources"] = _resources(config, shares)
    return row


def _gres_text(config: Cluster, share: Share) -> str:
    return f"{config.gres}:{config.gpu_type}:{len(share.gpus)}(IDX:{indices(share.gpus)})"


def indices(numbers: tuple[int, ...] | list[int]) -> str:
    """`0-3,6`, or `N/A` for none."""
    folded = compress(f"x{n}" for n in numbers).removeprefix("x").strip("[]")
    return folded or "N/A"


def _resources(config: Cluster, shares: dict[str, Share]) -> Row:
    return {
        "nodes": compress(shares),
        "allocated_cores": sum(share.cpus for share in shares.values()),
        "allocated_hosts": len(shares),
        "allocated_nodes": [
            {
                "sockets": _sockets(config, share),
                "nodename": name,
                "cpus_used": 0,
                "memory_used": 0,
                "memory_allocated": share.memory_mb,
            }
            for name, share in shares.items()
        ],
    }


def _sockets(config: Cluster, share: Share) -> Row:
    """Cores by socket, filled from the first. Real Slurm spreads them; nobody reads which."""
    cores, each = share.cpus // config.threads, config.cpus // config.threads // config.sockets
    sockets: Row = {}
    for core in range(cores):
        place = sockets.setdefault(str(core // each), {"cores": {}})
        place["cores"][str(core % each)] = "allocated"
    return sockets

"""Nodes, partitions and the controller itself as v0.0.38 shows them."""

from typing import Any

from simulator.config import Partition
from simulator.engine.clocks import seconds
from simulator.engine.model import Node, State, World
from simulator.hostlist import compress, expand
from simulator.slurm import tres
from simulator.slurm.jobs import indices

Row = dict[str, Any]
_HOST = "simulator"


def node_row(world: World, node: Node, *, unknown: bool = False) -> Row:
    """One element of `nodes`; `unknown` while a restarted controller has not heard from it."""
    config = world.config
    used = [index for index, owner in enumerate(node.owners) if owner]
    kind = f"{config.gres}:{config.gpu_type}"
    features = ",".join(node.features)
    held = {"cpu": node.cpus_used, "mem": node.memory_used_mb}
    held |= tres.gpu_counts(len(used), config)
    whole = {"cpu": node.cpus, "mem": node.memory_mb, "billing": node.cpus}
    whole |= tres.gpu_counts(len(node.owners), config)
    return _hardware(world, node) | {
        "features": features,
        "active_features": features,
        "gres": f"{kind}:{len(node.owners)}" if node.owners else "",
        "gres_used": f"{kind}:{len(used)}(IDX:{indices(used)})" if node.owners else "",
        "state": "unknown" if unknown else _state(node),
        "state_flags": _flags(node),
        "partitions": [p.name for p in config.partitions if _within(p, node)],
        "reason": node.reason,
        "reason_changed_at": seconds(world, node.reason_ms),
        "reason_set_by_user": "root" if node.reason else None,
        "tres": tres.text(whole),
        "alloc_memory": node.memory_used_mb,
        "alloc_cpus": node.cpus_used,
        "idle_cpus": node.cpus - node.cpus_used,
        "tres_used": tres.text(held) if node.jobs else None,
        "tres_weighted": float(node.cpus_used),
        "last_busy": seconds(world, node.last_busy_ms or world.started_ms),
    }


def _hardware(world: World, node: Node) -> Row:
    config = world.config
    return {
        "architecture": "x86_64",
        "burstbuffer_network_address": "",
        "boards": 1,
        "boot_time": seconds(world, world.started_ms),
        "comment": "",
        "cores": node.cpus // config.threads // config.sockets,
        "cpu_binding": 0,
        "cpu_load": 0,
        "extra": "",
        "free_memory": node.memory_mb,
        "cpus": node.cpus,
        "gres_drained": "N/A",
        "mcs_label": "",
        "name": node.name,
        "next_state_after_reboot": "invalid",
        "address": "127.0.0.1",
        "hostname": _HOST,
        "next_state_after_reboot_flags": [],
        "operating_system": "Linux simulated",
        "owner": None,
        "port": 6818,
        "real_memory": node.memory_mb,
        "slurmd_start_time": seconds(world, world.started_ms),
        "sockets": config.sockets,
        "threads": config.threads,
        "temporary_disk": 0,
        "weight": 1,
        "slurmd_version": "22.05.8",
    }


def _state(node: Node) -> str:
    if node.down:
        return "down"
    if not node.jobs:
        return "idle"
    return "allocated" if node.cpus_used >= node.cpus else "mixed"


def _flags(node: Node) -> list[str]:
    flags = ["DRAIN"] if node.drain else []
    return [*flags, "NOT_RESPONDING"] if node.silent_until_ms else flags


def _within(partition: Partition, node: Node) -> bool:
    return not partition.nodes or node.name in expand(partition.nodes)


def partition_row(world: World, partition: Partition) -> Row:
    """One element of `partitions`."""
    config = world.config
    nodes = [node for node in world.nodes.values() if _within(partition, node)]
    cpus = sum(node.cpus for node in nodes)
    whole = {
        "cpu": cpus,
        "mem": sum(node.memory_mb for node in nodes),
        "node": len(nodes),
        "billing": cpus,
    } | tres.gpu_counts(sum(len(node.owners) for node in nodes), config)
    texts = "allowed_allocation_nodes allowed_accounts allowed_groups allowed_qos alternative"
    texts += " billing_weights denied_accounts denied_qos qos"
    return dict.fromkeys(texts.split(), "") | {
        "flags": ["default"] if partition.default else [],
        "preemption_mode": ["disabled"],
        "default_memory_per_cpu": config.memory_per_cpu_mb,
        "default_memory_per_node": None,
        "default_time_limit": partition.default_minutes,
        "preemption_grace_time": 0,
        "maximum_cpus_per_node": -1,
        "maximum_memory_per_cpu": None,
        "maximum_memory_per_node": None,
        "maximum_nodes_per_job": -1,
        "max_time_limit": partition.max_minutes,
        "min nodes per job": 0,
        "name": partition.name,
        "nodes": compress(node.name for node in nodes),
        "over_time_limit": None,
        "priority_job_factor": 1,
        "priority_tier": 1,
        "state": "UP",
        "total_cpus": cpus,
        "total_nodes": len(nodes),
        "tres": tres.text(whole),
    }


def ping_row() -> Row:
    """The one element of `pings`."""
    return {"hostname": _HOST, "ping": "UP", "status": 0, "mode": "primary"}


_COUNTERS = [
    "agent_queue_size",
    "agent_count",
    "agent_thread_count",
    "dbd_agent_queue_size",
    "gettimeofday_latency",
    "schedule_cycle_max",
    "schedule_cycle_last",
    "schedule_cycle_total",
    "schedule_cycle_mean",
    "schedule_cycle_mean_depth",
    "schedule_cycle_per_minute",
    "bf_backfilled_jobs",
    "bf_last_backfilled_jobs",
    "bf_backfilled_het_jobs",
    "bf_cycle_counter",
    "bf_cycle_mean",
    "bf_depth_mean",
    "bf_depth_mean_try",
    "bf_cycle_last",
    "bf_cycle_max",
    "bf_queue_len",
    "bf_queue_len_mean",
    "bf_table_size",
    "bf_table_size_mean",
    "bf_when_last_cycle",
]


def statistics(world: World) -> Row:
    """The `statistics` of diag: job counts are real, timings are not simulated."""
    states = [run.state for run in world.records]
    now = seconds(world, world.now_ms)
    return dict.fromkeys(_COUNTERS, 0) | {
        "rpcs_by_message_type": [],
        "rpcs_by_user": [],
        "parts_packed": 1,
        "req_time": now,
        "req_time_start": seconds(world, world.started_ms),
        "server_thread_count": 1,
        "schedule_queue_length": len(world.waiting),
        "jobs_submitted": world.next_job_id - 1,
        "jobs_started": sum(run.start_ms > 0 for run in world.records),
        "jobs_completed": states.count(State.COMPLETED),
        "jobs_canceled": states.count(State.CANCELLED),
        "jobs_failed": states.count(State.FAILED),
        "jobs_pending": len(world.waiting),
        "jobs_running": states.count(State.RUNNING),
        "job_states_ts": now,
        "bf_active": False,
    }

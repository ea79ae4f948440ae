"""Slurm's rows (jobs, runs, nodes, partitions, reservations) as our own values.

One reader for every API version: what differs in shape is told apart by shape.
"""

from functools import lru_cache
from typing import NamedTuple

from clusters.backends.slurm import gres
from clusters.backends.slurm.hostlist import expand
from clusters.backends.slurm.states import exit_code, job_reason, job_state, node_state
from clusters.backends.slurm.topology import Topology
from clusters.backends.slurm.values import Json, number, only, seconds_to_ms, words
from clusters.core.observation import (
    GangSeen,
    GangState,
    NodeSeen,
    QueueSeen,
    ReservationSeen,
    Run,
)
from clusters.core.resources import NodeShape

# what `controller_job` and `usage_by_node`, and what `node` and its reader in `memo`, look at
JOB = only(
    "job_id name user_name comment job_state state_reason hold nodes required_nodes start_time"
    " submit_time end_time exit_code restart_cnt tres_alloc_str tres_req_str gres_detail"
    " job_resources"
)
NODE = only(
    "name gres gres_used features active_features state state_flags effective_cpus cpus"
    " real_memory partitions reason threads"
)


class JobRow(NamedTuple):
    """One job as the controller or accounting tells it. Times in ms, None when not (yet) true.

    `comment` is None where accounting has none: not stored, or not yet. `is_end` is whether a final
    state is the job's own end; it is not where accounting tells of a run that Slurm took back, or
    closed the record itself because its controller had lost the job.
    """

    job_id: int
    name: str
    user: str
    comment: str | None
    state: GangState
    nodes: tuple[str, ...]
    gpus: int
    reason: str = ""
    submitted_ms: int | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    exit_code: int | None = None
    restarts: int = 0
    pinned: tuple[str, ...] = ()
    is_end: bool = True

    @property
    def run(self) -> Run | None:
        """The stay on nodes this row tells of, if it has begun.

        One that ends before it starts, as the clock was set back meanwhile, lasted no time: so says
        Slurm's own accounting of it.
        """
        if self.started_ms is None:
            return None
        end_ms = None if self.ended_ms is None else max(self.ended_ms, self.started_ms)
        return Run(self.started_ms, end_ms, self.gpus, self.nodes, self.state)


def controller_job(raw: Json) -> JobRow:
    """A job from `/slurm/.../jobs`. A pending job's start is only a forecast and left out."""
    row = others_job(raw)
    state = row.state
    started = seconds_to_ms(raw.get("start_time"))
    has_run = state.holds_nodes or (state.is_final and bool(row.nodes))
    return row._replace(
        reason=job_reason(words(raw.get("job_state")), raw.get("state_reason")),
        submitted_ms=seconds_to_ms(raw.get("submit_time")),
        started_ms=started if has_run else None,
        ended_ms=seconds_to_ms(raw.get("end_time")) if state.is_final else None,
        exit_code=exit_code(raw.get("exit_code")) if state.is_final and has_run else None,
        restarts=number(raw.get("restart_cnt")) or 0,
        pinned=expand(raw.get("required_nodes")),
    )


def others_job(raw: Json) -> JobRow:
    """As much as matters of one that is neither marked nor named as ours: what it holds, waits for."""
    state = job_state(words(raw.get("job_state")), str(raw.get("state_reason") or ""))
    if state is GangState.PENDING and raw.get("hold") is True:
        state = GangState.HELD
    return JobRow(
        job_id=number(raw.get("job_id")) or 0,
        name=str(raw.get("name") or ""),
        user=str(raw.get("user_name") or ""),
        comment=str(raw.get("comment") or ""),
        state=state,
        nodes=expand(raw.get("nodes")),
        gpus=gres.count(raw.get("tres_alloc_str") or raw.get("tres_req_str")),
    )


def accounting_job(raw: Json) -> JobRow:
    """One run of a job from `/slurmdb/.../jobs`."""
    time, told = _part(raw, "time"), _part(raw, "state")
    said = words(told.get("current"))
    state = job_state(said, str(told.get("reason") or ""))
    nodes = expand(raw.get("nodes"))
    tres = _part(raw, "tres")
    started = seconds_to_ms(time.get("start")) if nodes else None
    return JobRow(
        job_id=number(raw.get("job_id")) or 0,
        name=str(raw.get("name") or ""),
        user=str(_part(raw, "association").get("user") or raw.get("user") or ""),
        comment=_part(raw, "comment").get("job"),
        state=state,
        reason=job_reason(said, "" if state.is_final else told.get("reason")),  # else why it waited
        nodes=nodes,
        gpus=gres.count_tres(tres.get("allocated") or tres.get("requested")),
        submitted_ms=seconds_to_ms(time.get("submission")),
        started_ms=started,
        ended_ms=seconds_to_ms(time.get("end")) if state.is_final else None,
        exit_code=exit_code(raw.get("exit_code")) if state.is_final and started else None,
        restarts=number(raw.get("restart_cnt")) or 0,
        is_end=state.is_final and "REQUEUED" not in said and not _is_closed_unseen(state, raw),
    )


def _is_closed_unseen(state: GangState, raw: Json) -> bool:
    """Whether nobody cancelled a job that accounting calls cancelled.

    A controller that starts without the jobs it had lets accounting close their records so, as of
    the moment it went down (seen on 22.05; a cancel always has its user). The nodes may run on.
    """
    is_nobodys = "kill_request_user" in raw and not raw["kill_request_user"]
    return state is GangState.CANCELLED and is_nobodys


def _part(raw: Json, key: str) -> Json:
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def gang_from(row: JobRow, runs: tuple[Run, ...], *, is_whole: bool = True) -> GangSeen:
    """The gang a row stands for, with all its runs (or not, where it is not whole)."""
    return GangSeen(
        fence=row.name,
        backend_id=str(row.job_id),
        state=row.state,
        reason=row.reason,
        account=row.user,
        nodes=row.nodes,
        gpus=row.gpus,
        submitted_ms=row.submitted_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
        exit_code=row.exit_code,
        comment=row.comment or "",
        runs=runs,
        pinned=row.pinned,
        is_whole=is_whole,
    )


def node(raw: Json, topology: Topology) -> NodeSeen:
    """A node; of several GPU types on it the most numerous is taken (a gang asks for one type)."""
    name = str(raw.get("name") or "")
    kinds = gres.by_type(raw.get("gres"))
    device, gpus = max(kinds.items(), key=lambda kind: kind[1], default=("", 0))
    features = words(raw.get("active_features")) or words(raw.get("features"))
    return NodeSeen(
        name=name,
        state=node_state(words(raw.get("state")) + words(raw.get("state_flags"))),
        device=device,
        gpus=gpus,
        cpus=number(raw.get("effective_cpus")) or number(raw.get("cpus")) or 0,
        memory_mib=number(raw.get("real_memory")) or 0,
        path=topology.path(name, features),
        queues=words(raw.get("partitions")),
        reason=str(raw.get("reason") or ""),
    )


def queue(raw: Json) -> QueueSeen:
    """A partition. Up to v0.0.38 its fields are flat, later they are grouped."""
    state = words(raw.get("state")) or words(_part(raw, "partition").get("state"))
    limit = number(raw.get("max_time_limit")) or number(_part(raw, "maximums").get("time"))
    nodes = number(raw.get("total_nodes")) or number(_part(raw, "nodes").get("total")) or 0
    return QueueSeen(
        name=str(raw.get("name") or ""),
        is_open=tuple(word.upper() for word in state) == ("UP",),
        nodes=nodes,
        max_time_s=None if limit is None else limit * 60,
    )


def reservation(raw: Json) -> ReservationSeen:
    """A reservation. One without an end lasts for ever (2**53 ms, exact in every JSON reader)."""
    return ReservationSeen(
        name=str(raw.get("name") or ""),
        nodes=expand(raw.get("node_list")),
        start_ms=seconds_to_ms(raw.get("start_time")) or 0,
        end_ms=seconds_to_ms(raw.get("end_time")) or 2**53,
        is_maintenance="MAINT" in words(raw.get("flags")),
    )


def usage_by_node(raw: Json, threads: int) -> dict[str, NodeShape]:
    """What a job holds on each of its nodes. `threads` is the nodes' hardware threads a core.

    `gres_detail` goes node by node in the order of the list; what is not told by node is spread
    evenly and rounded up, so that nothing is thought free that is not.
    """
    nodes = expand(raw.get("nodes"))
    if not nodes:
        return {}
    tres = raw.get("tres_alloc_str")
    detail = raw.get("gres_detail") or []
    gpus = [gres.count(text) for text in detail]
    if len(gpus) != len(nodes):
        gpus = [_share(gres.count(tres), len(nodes))] * len(nodes)
    told = _told_by_node(raw.get("job_resources"), threads)
    even = (_share(gres.cpus(tres), len(nodes)), _share(gres.memory_mib(tres), len(nodes)))
    return {
        name: NodeShape(of_node, *told.get(name, even))
        for name, of_node in zip(nodes, gpus, strict=True)
    }


def _share(total: int, parts: int) -> int:
    return -(-total // parts)


def _told_by_node(resources: object, threads: int) -> dict[str, tuple[int, int]]:
    """CPUs and MiB by node from `job_resources` of v0.0.38 to v0.0.40, or its later shape."""
    if not isinstance(resources, dict):
        return {}
    rows = resources.get("allocated_nodes")
    if not isinstance(rows, list):
        rows = _part(resources, "nodes").get("allocation")
    told = {}
    for row in rows if isinstance(rows, list) else ():
        memory = row.get("memory_allocated") or _part(row, "memory").get("allocated")
        cpus = number(_part(row, "cpus").get("count")) or _cores(row.get("sockets")) * threads
        told[str(row.get("nodename") or row.get("name"))] = (cpus, number(memory) or 0)
    return told


def _cores(sockets: object) -> int:
    """Cores marked allocated, in either spelling of `sockets` (objects or lists)."""
    if not isinstance(sockets, dict | list):
        return 0
    found = 0
    for socket in sockets.values() if isinstance(sockets, dict) else sockets:
        cores = socket.get("cores") if isinstance(socket, dict) else None
        marks = cores.values() if isinstance(cores, dict) else cores or ()
        for mark in marks:
            status = mark.get("status") if isinstance(mark, dict) else mark
            told = status if isinstance(status, list) else [status]
            found += any(_is_allocated(str(word)) for word in told)
    return found


@lru_cache(maxsize=256)  # a large cluster has some hundred thousand cores, and few words for them
def _is_allocated(status: str) -> bool:
    return "ALLOCATED" in {word.upper() for word in words(status)}

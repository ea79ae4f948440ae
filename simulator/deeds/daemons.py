"""slurmctld and slurmdbd: away, back, and what they then know."""

from simulator.deeds.common import Deed, Json, bounded, named_jobs, state
from simulator.engine import restarts
from simulator.engine.commands import set_paused
from simulator.engine.model import State
from simulator.runtime import Running
from simulator.slurm.cache import RowCache

DAY_MS = 86_400_000
ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")


def controller_down(cluster: Running) -> Json:
    """slurmctld stops: its calls fail after `controller_timeout_ms`, nothing starts."""
    set_paused(cluster.world, cluster.now_ms(), paused=True)
    cluster.faults.controller_down = True
    return state(cluster)


def controller_up(
    cluster: Running,
    *,
    knows: str = "kept",
    ago_ms: int = 0,
    cold: bool = False,
    unknown_ms: int = 5000,
) -> Json:
    """slurmctld is back, and nodes are `unknown` for `unknown_ms`. It `knows` what it knew
    ("kept"), nothing ("lost": ids from 1; `cold` closes open records in accounting) or what it
    knew `ago_ms` ago ("older")."""
    now_ms = cluster.now_ms()
    if knows == "lost":
        restarts.lose_state(cluster.world, now_ms, cold=cold)
    elif knows == "older":
        then_ms = now_ms - bounded("ago_ms", ago_ms, 0, 31 * DAY_MS)
        restarts.recall_state(cluster.world, then_ms, now_ms)
    elif knows != "kept":
        raise ValueError('knows: "kept", "lost" or "older"')
    set_paused(cluster.world, now_ms, paused=False)
    cluster.rows = RowCache()
    cluster.faults.controller_down = False
    cluster.faults.nodes_unknown_until_ms = now_ms + unknown_ms
    return state(cluster)


def controller_restart(
    cluster: Running,
    *,
    knows: str = "kept",
    ago_ms: int = 0,
    cold: bool = False,
    unknown_ms: int = 5000,
) -> Json:
    """slurmctld stops and is back at once; see slurmctld/up."""
    controller_down(cluster)
    return controller_up(cluster, knows=knows, ago_ms=ago_ms, cold=cold, unknown_ms=unknown_ms)


def controller_forget(
    cluster: Running,
    *,
    job_id: int | None = None,
    name: str | None = None,
    ended: str | None = None,
) -> Json:
    """Jobs vanish from slurmctld, and what they ran is killed. Their open records in accounting
    stay open, or are closed with the final state `ended`."""
    now_ms = cluster.now_ms()
    if ended not in {None, *ENDED}:
        raise ValueError(f"ended: one of {', '.join(ENDED)}")
    chosen = named_jobs(cluster.world, job_id, name)
    for number in chosen:
        restarts.vanish(cluster.world, number, now_ms, State(ended) if ended else None)
    return {"jobs": chosen}


def controller_forget_finished(cluster: Running) -> Json:
    """Every finished job is forgotten now, as if MinJobAge were over."""
    return {"jobs": restarts.forget_finished(cluster.world, cluster.now_ms())}


def controller_next_id(cluster: Running, *, job_id: int) -> Json:
    """The next job gets this id, or the next one after it that no job bears."""
    now_ms = cluster.now_ms()
    restarts.set_next_id(cluster.world, bounded("job_id", job_id, 1, 2**26), now_ms)
    return state(cluster)


def accounting_down(cluster: Running) -> Json:
    """slurmdbd stops; jobs go on."""
    cluster.faults.accounting_down = True
    return state(cluster)


def accounting_up(cluster: Running) -> Json:
    """slurmdbd is back, with everything that happened meanwhile."""
    cluster.faults.accounting_down = False
    return state(cluster)


def accounting_lag(cluster: Running, *, ms: int) -> Json:
    """Accounting is so far behind slurmctld from now on."""
    cluster.world.accounting_lag_ms = bounded("ms", ms, 0, DAY_MS)
    return state(cluster)


def accounting_deaf(cluster: Running, *, deaf: bool = True) -> Json:
    """Runs queued while it is `deaf` never get into accounting."""
    cluster.now_ms()
    cluster.world.accounting_deaf = deaf
    return state(cluster)


def accounting_lose(
    cluster: Running, *, job_id: int | None = None, name: str | None = None
) -> Json:
    """Accounting loses every record of a job; slurmctld keeps the job, if it has it."""
    chosen = _recorded(cluster, job_id, name)
    return {"records": restarts.lose_records(cluster.world, chosen)}


def accounting_freeze(
    cluster: Running, *, job_id: int | None = None, name: str | None = None
) -> Json:
    """Open records of a job stay as they are for ever: accounting never hears of its end."""
    chosen = _recorded(cluster, job_id, name)
    restarts.freeze_records(cluster.world, chosen)
    return {"jobs": sorted(chosen)}


def _recorded(cluster: Running, job_id: int | None, name: str | None) -> set[int]:
    cluster.now_ms()
    records = cluster.world.records
    found = {r.job_id for r in records if r.job_id == job_id or r.request.name == name}
    if not found:
        raise ValueError("accounting has no such job")
    return found


DEEDS: dict[str, Deed] = {
    "slurmctld/down": controller_down,
    "slurmctld/up": controller_up,
    "slurmctld/restart": controller_restart,
    "slurmctld/forget": controller_forget,
    "slurmctld/forget_finished": controller_forget_finished,
    "slurmctld/next_id": controller_next_id,
    "slurmdbd/down": accounting_down,
    "slurmdbd/up": accounting_up,
    "slurmdbd/lag": accounting_lag,
    "slurmdbd/deaf": accounting_deaf,
    "slurmdbd/lose": accounting_lose,
    "slurmdbd/freeze": accounting_freeze,
}

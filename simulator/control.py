"""The laboratory's side door, outside Slurm's paths: `/_control/...`, only if configured.

Every deed is one line in `DEEDS`: a function that takes the cluster and the JSON body and returns
JSON. `GET /_control` lists them; `GET /_control/state` and `/_control/jobs/{id}` look inside.
"""

import json
from collections.abc import Callable
from typing import Any

from simulator.config import Foreign
from simulator.engine.commands import Actor, cancel, find, set_nodes, set_paused
from simulator.engine.foreign import submit_foreign
from simulator.engine.model import RefusedError
from simulator.faults import KINDS, Fault
from simulator.hostlist import expand
from simulator.runtime import Running
from simulator.slurm.calls import Answer
from simulator.slurm.errors import TEXT

Json = dict[str, Any]


def answer_control(cluster: Running, method: str, path: str, body: bytes) -> Answer:
    """Answer a request below `/_control`; 400 with a reason if it makes no sense."""
    rest = path.removeprefix("/_control").strip("/")
    try:
        data = json.loads(body) if body.strip() else {}
        if not isinstance(data, dict):
            raise TypeError("the body is not an object")
        result = _look(cluster, rest) if method == "GET" else _do(cluster, rest, data)
    except RefusedError as error:
        return _json(400, {"error": TEXT.get(error.number, str(error.number))})
    except (ValueError, TypeError, KeyError) as error:
        return _json(400, {"error": f"{type(error).__name__}: {error}"})
    if result is None:
        return _json(404, {"error": f"no such control: {method} {rest}"})
    return _json(200, result)


def _json(status: int, body: Json) -> Answer:
    return Answer(status, json.dumps(body))


def _do(cluster: Running, deed: str, data: Json) -> Json | None:
    function = DEEDS.get(deed)
    return None if function is None else function(cluster, data)


def _look(cluster: Running, rest: str) -> Json | None:
    if rest == "":
        return {
            "deeds": {name: (f.__doc__ or "").strip() for name, f in DEEDS.items()},
            "faults": {name: kind.meaning for name, kind in KINDS.items()},
        }
    if rest == "state":
        return state(cluster)
    head, _, number = rest.partition("/")
    if head == "jobs" and number.isdigit():
        return _job(cluster, int(number))
    return None


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
        "faults": [vars(fault) for fault in board.faults],
    }


def _job(cluster: Running, job_id: int) -> Json:
    cluster.now_ms()
    job = find(cluster.world, job_id)
    return {
        "id": job.id,
        "state": str(job.state),
        "nodes": list(job.shares),
        "script": job.request.script,
        "seconds": job.program.seconds,
        "signals": [{"number": number, "at_ms": at_ms} for number, at_ms in job.signals],
    }


def _nodes(action: str) -> Callable[[Running, Json], Json]:
    def change(cluster: Running, data: Json) -> Json:
        names = expand(data["nodes"])
        set_nodes(cluster.world, names, action, data.get("reason", action), cluster.now_ms())
        return {"nodes": names}

    change.__doc__ = f"{action} `nodes` (a hostlist), with an optional `reason`"
    return change


def _paused(value: int) -> Callable[[Running, Json], Json]:
    def change(cluster: Running, data: Json) -> Json:
        set_paused(cluster.world, cluster.now_ms(), paused=bool(value))
        return state(cluster)

    change.__doc__ = "stop starting jobs" if value else "start jobs again"
    return change


def controller_down(cluster: Running, data: Json) -> Json:
    """slurmctld stops: its calls fail after `controller_timeout_ms`, nothing starts."""
    set_paused(cluster.world, cluster.now_ms(), paused=True)
    cluster.faults.controller_down = True
    return state(cluster)


def controller_up(cluster: Running, data: Json) -> Json:
    """slurmctld is back; nodes are `unknown` for `unknown_ms` (default 5000)."""
    now_ms = cluster.now_ms()
    set_paused(cluster.world, now_ms, paused=False)
    cluster.faults.controller_down = False
    cluster.faults.nodes_unknown_until_ms = now_ms + int(data.get("unknown_ms", 5000))
    return state(cluster)


def accounting_down(cluster: Running, data: Json) -> Json:
    """slurmdbd stops; jobs go on."""
    cluster.faults.accounting_down = True
    return state(cluster)


def accounting_up(cluster: Running, data: Json) -> Json:
    """slurmdbd is back, with everything that happened meanwhile."""
    cluster.faults.accounting_down = False
    return state(cluster)


def foreign_add(cluster: Running, data: Json) -> Json:
    """A foreign job: `nodes` (count), `seconds`, and optionally `user`, `account`, `name`."""
    cluster.now_ms()
    defaults = cluster.config.foreign or Foreign()
    known = cluster.config.users
    user = data.get("user") or (known[-1].name if known else defaults.users[0])
    job = submit_foreign(
        cluster.world,
        user=user,
        account=data.get("account", ""),
        name=data.get("name", defaults.name),
        nodes=int(data["nodes"]),
        seconds=int(data["seconds"]),
    )
    return {"job_id": job.id}


def foreign_remove(cluster: Running, data: Json) -> Json:
    """Cancel the foreign job `job_id`, or all of them; with `stream: false` no more will come."""
    now_ms = cluster.now_ms()
    world = cluster.world
    ids = [j.id for j in world.jobs.values() if j.request.foreign and (j.waiting or j.holds_nodes)]
    chosen = [i for i in ids if i == data.get("job_id", i)]
    for job_id in chosen:
        cancel(world, job_id, Actor("root", admin=True), now_ms)
    if data.get("stream") is False:
        world.foreign = None
    return {"cancelled": chosen}


def advance_clock(cluster: Running, data: Json) -> Json:
    """Let a manual clock go on by `ms`."""
    return {"now_ms": cluster.advance_ms(int(data["ms"]))}


def reset(cluster: Running, data: Json) -> Json:
    """Forget all jobs, accounting and faults."""
    cluster.reset()
    return state(cluster)


def add_fault(cluster: Running, data: Json) -> Json:
    """A fault: `kind`, `method`, `path` (expression), `times` (null: always), `ms`, `status`, `text`"""
    fault = Fault(id=cluster.faults.next_id, **data)
    cluster.faults.add(fault)
    return vars(fault)


def clear_faults(cluster: Running, data: Json) -> Json:
    """All services up, no faults."""
    if cluster.faults.controller_down:
        controller_up(cluster, {"unknown_ms": 0})
    cluster.faults.clear()
    return state(cluster)


DEEDS: dict[str, Callable[[Running, Json], Json]] = {
    "nodes/down": _nodes("down"),
    "nodes/up": _nodes("up"),
    "nodes/drain": _nodes("drain"),
    "nodes/undrain": _nodes("undrain"),
    "scheduling/pause": _paused(1),
    "scheduling/resume": _paused(0),
    "slurmctld/down": controller_down,
    "slurmctld/up": controller_up,
    "slurmdbd/down": accounting_down,
    "slurmdbd/up": accounting_up,
    "foreign/add": foreign_add,
    "foreign/remove": foreign_remove,
    "faults/add": add_fault,
    "faults/clear": clear_faults,
    "clock/advance": advance_clock,
    "reset": reset,
}

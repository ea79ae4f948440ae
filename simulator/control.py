"""The laboratory's side door, outside the clusters' paths: `/_control/...`, only if configured.

Every deed is one line in a table of `simulator.deeds`, and `DEEDS` is all of them. `GET /_control`
lists them; `GET /_control/state`, `/_control/stays` and `/_control/jobs/{id}` look inside. In the
same process
`do(cluster, "nodes/blink", nodes="alpha-n000", ms=500)` is the same as the POST.
"""

import dataclasses
import json
from typing import Any

from simulator.deeds import clock, daemons, foreign, jobs, nodes, wire
from simulator.deeds.common import Deed, Json, call, describe, state
from simulator.engine.commands import find
from simulator.engine.model import RefusedError
from simulator.faults import KINDS
from simulator.kubernetes.errors import ApiError
from simulator.runtime import Running, Timed
from simulator.slurm.calls import Answer
from simulator.slurm.errors import TEXT
from simulator.volcano import deeds as volcano
from simulator.volcano.cluster import VolcanoCluster


def reset(cluster: Running) -> Json:
    """Forget all jobs, accounting and faults."""
    cluster.reset()
    return state(cluster)


DEEDS: dict[str, Deed] = {
    **nodes.DEEDS,
    **jobs.DEEDS,
    **daemons.DEEDS,
    **foreign.DEEDS,
    **clock.DEEDS,
    **wire.DEEDS,
    "reset": reset,
}


def deeds_of(cluster: Timed) -> dict[str, Deed]:
    """What can be done to a cluster of its kind."""
    return volcano.DEEDS if isinstance(cluster, VolcanoCluster) else DEEDS


def do(cluster: Timed, deed: str, **data: Any) -> Json:
    """Do a deed in the same process.

    Raises:
        KeyError: there is no such deed.
        ValueError, TypeError: the values do not fit.
        RefusedError: Slurm would not do it (no such job or node, or not in this state).
        ApiError: Kubernetes would not.
    """
    return call(deeds_of(cluster)[deed], cluster, data)


def answer_control(cluster: Timed, method: str, path: str, body: bytes) -> Answer:
    """Answer a request below `/_control`; 400 with a reason if it makes no sense."""
    rest = path.removeprefix("/_control").strip("/")
    try:
        data = json.loads(body) if body.strip() else {}
        if not isinstance(data, dict):
            raise TypeError("the body is not an object")
        result = _look(cluster, rest) if method == "GET" else _do(cluster, rest, data)
    except RefusedError as error:
        return _json(400, {"error": TEXT.get(error.number, str(error.number))})
    except ApiError as error:
        return _json(400, {"error": str(error)})
    except (ValueError, TypeError) as error:
        return _json(400, {"error": f"{type(error).__name__}: {error}"})
    if result is None:
        return _json(404, {"error": f"no such control: {method} {rest}"})
    return _json(200, result)


def _json(status: int, body: Json) -> Answer:
    return Answer(status, json.dumps(body))


def _do(cluster: Timed, name: str, data: Json) -> Json | None:
    deed = deeds_of(cluster).get(name)
    return None if deed is None else call(deed, cluster, data)


def _look(cluster: Timed, rest: str) -> Json | None:
    if rest == "":
        return {
            "deeds": {name: describe(deed) for name, deed in deeds_of(cluster).items()},
            "faults": {name: kind.meaning for name, kind in KINDS.items()},
        }
    if isinstance(cluster, VolcanoCluster):
        return volcano.state(cluster) if rest == "state" else None
    return _look_at_slurm(cluster, rest) if isinstance(cluster, Running) else None


def _look_at_slurm(cluster: Running, rest: str) -> Json | None:
    if rest == "state":
        return state(cluster)
    if rest == "stays":
        cluster.now_ms()
        return {"stays": [dataclasses.asdict(stay) for stay in cluster.world.stays]}
    head, _, number = rest.partition("/")
    if head == "jobs" and number.isdigit():
        return _job(cluster, int(number))
    return None


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

"""The /slurm endpoints: what slurmctld answers."""

import json
from typing import Any

from simulator.engine.clocks import seconds, steady_ms
from simulator.engine.commands import cancel, find, send_signal, submit, update
from simulator.engine.foreign import uid_of
from simulator.engine.model import Job, Node, RefusedError, Request
from simulator.engine.program import signal_number
from simulator.slurm import options
from simulator.slurm.calls import Answer, Call, answer, plain, rows_answer
from simulator.slurm.errors import (
    Body,
    coded,
    errno,
    kill_failed,
    numbered,
    update_failed,
)
from simulator.slurm.jobs import job_row
from simulator.slurm.nodes import node_row, partition_row, ping_row, statistics

_NO_JOBS: Body = {"jobs": []}
SIGKILL = 9


def unchanged(call: Call, changed_ms: int) -> Answer | None:
    """304 if `update_time` is later than the last change, 400 if it is no number."""
    asked = call.query.get("update_time")
    if asked is None:
        return None
    if not asked.isdigit():
        return answer({"errors": [], "jobs": []}, 400)
    return plain(304, "") if int(asked) > seconds(call.cluster.world, changed_ms) else None


def ping(call: Call) -> Answer:
    """GET ping."""
    return answer({"errors": [], "pings": [ping_row()]})


def diag(call: Call) -> Answer:
    """GET diag."""
    return answer({"errors": [], "statistics": statistics(call.cluster.world)})


def jobs(call: Call) -> Answer:
    """GET jobs: everything the controller remembers."""
    world = call.cluster.world
    early = unchanged(call, world.jobs_changed_ms)
    if early is not None:
        return early
    call.cluster.rows.keep_only("job", set(world.jobs))
    return rows_answer("jobs", [_job_text(call, job) for job in world.jobs.values()])


def _job_text(call: Call, job: Job) -> str:
    world = call.cluster.world
    revision = (job.revision, job.last_evaluated_ms)
    return call.cluster.rows.row("job", job.id, revision, lambda: job_row(world, job))


def job(call: Call) -> Answer:
    """GET job/{id}."""
    text = f"Unable to find JobId={call.argument}"
    if not call.argument.isdigit():
        return answer({"errors": [numbered(9002, text, "_handle_job_get")], **_NO_JOBS}, 400)
    try:
        found = find(call.cluster.world, call.job_id)
    except RefusedError as error:
        return answer({"errors": [numbered(error.number, text, "slurm_load_job")], **_NO_JOBS}, 500)
    return rows_answer("jobs", [_job_text(call, found)])


def nodes(call: Call) -> Answer:
    """GET nodes."""
    world = call.cluster.world
    early = unchanged(call, world.nodes_changed_ms)
    if early is not None:
        return early
    return rows_answer("nodes", [_node_text(call, node) for node in world.nodes.values()])


def _node_text(call: Call, found: Node) -> str:
    cluster = call.cluster
    unknown = call.now_ms < cluster.faults.nodes_unknown_until_ms
    return cluster.rows.row(
        "node",
        found.name,
        (found.revision, unknown),
        lambda: node_row(cluster.world, found, unknown=unknown),
    )


def node(call: Call) -> Answer:
    """GET node/{name}: one node; a list or a range is no name."""
    found = call.cluster.world.nodes.get(call.argument)
    if found is None:
        return answer({"errors": [errno(2018)], "nodes": []}, 500)
    return rows_answer("nodes", [_node_text(call, found)])


def partitions(call: Call) -> Answer:
    """GET partitions."""
    world = call.cluster.world
    early = unchanged(call, world.started_ms)
    if early is not None:
        return early
    rows = [partition_row(world, p) for p in world.config.partitions]
    return answer({"errors": [], "partitions": rows})


def partition(call: Call) -> Answer:
    """GET partition/{name}."""
    world = call.cluster.world
    rows = [partition_row(world, p) for p in world.config.partitions if p.name == call.argument]
    if not rows:
        return answer({"errors": [errno(2000)], "partitions": []}, 500)
    return answer({"errors": [], "partitions": rows})


def reservations(call: Call) -> Answer:
    """GET reservations: there are none."""
    return unchanged(call, call.cluster.world.started_ms) or answer(
        {"errors": [], "reservations": []}
    )


def reservation(call: Call) -> Answer:
    """GET reservation/{name}: there are none."""
    return answer({"errors": [errno(2053)], "reservations": []}, 500)


def licenses(call: Call) -> Answer:
    """GET licenses: there are none."""
    return answer({"errors": [], "licenses": []})


def _decode(body: bytes) -> Any:
    """The decoded body, None for an empty one; ValueError if it is not JSON."""
    return json.loads(body) if body.strip() else None


def _parse(call: Call, wanted: dict[str, Any]) -> dict[str, Any]:
    """The options asked for, instants by the cluster's clock turned into the engine's time."""
    world = call.cluster.world
    parsed = options.parse_options(wanted, now=seconds(world, call.now_ms))
    if "begin_ms" in parsed:
        parsed["begin_ms"] = steady_ms(world, parsed["begin_ms"])
    return parsed


def submit_job(call: Call) -> Answer:
    """POST job/submit."""
    try:
        data = _decode(call.body)
    except ValueError:
        return plain(400, "Unable to parse query.")
    if not isinstance(data, dict) or "script" not in data:
        return answer({"errors": [coded(2009)]}, 500)
    wanted = data.get("job")
    if not isinstance(wanted, dict) or not wanted:
        return answer({"errors": [coded(9002)]}, 400)
    try:
        parsed = _parse(call, wanted)
        options.parse_environment(wanted)
    except options.OptionError as error:
        return answer({"errors": [*error.errors, options.parse_failure()]}, 400)
    try:
        queued = submit(
            call.cluster.world, _request(call, parsed, str(data["script"])), call.now_ms
        )
    except RefusedError as error:
        return answer({"errors": [coded(error.number)]}, 500)
    return answer(
        {
            "errors": [coded(2042)] if queued.request.hold else [],
            "job_id": queued.id,
            "step_id": "BATCH",
            "job_submit_user_msg": "",
        }
    )


def _request(call: Call, parsed: dict[str, Any], script: str) -> Request:
    """The engine's request; only an administrator sets a priority."""
    if not call.actor.admin:
        parsed.pop("priority", None)
    least = parsed.get("nodes_min", max(1, len(parsed.get("required_nodes", ()))))
    base: dict[str, Any] = {
        "name": "openapi",
        "account": "",
        "partition": "",
        "qos": "",
        "nodes_min": least,
        "nodes_max": least,
        **parsed,
    }
    user = call.actor.user
    return Request(user=user, uid=uid_of(call.cluster.world, user), script=script, **base)


def update_job(call: Call) -> Answer:
    """POST job/{id}: a parse error is answered with 200, as the real one does."""
    try:
        data = _decode(call.body)
    except ValueError:
        return plain(400, "Unable to parse query.")
    failed = f"job parsing failed for [localhost]:{call.peer}"
    end = numbered(9001, failed, "_parse_job_list")
    if not isinstance(data, dict):
        first = numbered(9001, "unexpected failure parsing het job: 0", "_parse_job_desc")
        return answer({"errors": [first, end]})
    try:
        parsed = _parse(call, data)
    except options.OptionError as error:
        return answer({"errors": [*error.errors, end]})
    changes = {name: value for name, value in parsed.items() if name in options.CHANGEABLE}
    try:
        update(call.cluster.world, call.job_id, changes, call.actor, call.now_ms)
    except RefusedError as error:
        return answer({"errors": [update_failed(error.number, call.peer)]}, 500)
    return answer({"errors": []})


def cancel_job(call: Call) -> Answer:
    """DELETE job/{id}: cancel, or with `?signal=` send that signal."""
    wanted = call.query.get("signal")
    number = SIGKILL if wanted is None else signal_number(wanted)
    if number == 0:
        return answer(
            {"errors": [numbered(9000, "invalid signal: 0", "HTTP request: signal")]}, 400
        )
    world = call.cluster.world
    try:
        if number == SIGKILL:
            cancel(world, call.job_id, call.actor, call.now_ms)
        else:
            send_signal(world, call.job_id, number, call.actor, call.now_ms)
    except RefusedError as error:
        return answer({"errors": [kill_failed(error.number, call.job_id, number)]}, 500)
    return answer({"errors": []})

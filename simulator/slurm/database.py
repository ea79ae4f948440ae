"""The /slurmdb endpoints: what slurmdbd answers."""

from simulator.slurm import accounting
from simulator.slurm import associations as accounts
from simulator.slurm.calls import Answer, Call, DropConnection, answer, plain
from simulator.slurm.errors import Body, nothing_found, numbered

PLUGIN = "dbv0.0.38"


def _answer(body: Body, status: int = 200) -> Answer:
    return answer(body, status, plugin=PLUGIN)


def jobs(call: Call) -> Answer:
    """GET jobs with its filters."""
    world = call.cluster.world
    try:
        runs = accounting.select_runs(world, call.query, call.now_ms)
    except accounting.QueryError as error:
        return _answer({"errors": [error.error]}, 500)
    steps = not accounting.skips_steps(call.query)
    rows = [accounting.run_row(world, run, call.now_ms, steps=steps) for run in runs]
    return _answer({"errors": [] if rows else [nothing_found("slurmdb_jobs_get")], "jobs": rows})


def job(call: Call) -> Answer:
    """GET job/{id}: every run of the job."""
    world = call.cluster.world
    runs = [r for r in accounting.known_runs(world, call.now_ms) if r.job_id == call.job_id]
    rows = [accounting.run_row(world, run, call.now_ms, steps=True) for run in runs]
    return _answer({"errors": [] if rows else [nothing_found("slurmdb_jobs_get")], "jobs": rows})


def diag(call: Call) -> Answer:
    """GET diag: for administrators."""
    if not call.actor.admin:
        return _answer({"errors": [numbered(2002, None, "slurmdb_get_stats")]}, 500)
    return _answer({"errors": [], "statistics": accounting.database_statistics(call.cluster.world)})


def clusters(call: Call) -> Answer:
    """GET clusters."""
    return _answer({"errors": [], "clusters": [accounting.cluster_row(call.cluster.world)]})


def associations(call: Call) -> Answer:
    """GET associations."""
    rows = accounts.association_rows(call.cluster.world)
    return _answer({"errors": [], "associations": rows})


def change_associations(call: Call) -> Answer:
    """POST associations: limits of accounts."""
    try:
        errors = accounts.change(call.cluster.world, call.body, is_admin=call.actor.admin)
    except accounts.NoJsonError:
        return plain(400, "Unable to parse query.")
    except accounts.CrashError:
        raise DropConnection from None
    is_refused = bool(errors) and errors[0]["error_number"] != accounts.NO_LIST
    return _answer({"errors": errors}, 400 if is_refused else 200)


def users(call: Call) -> Answer:
    """GET users."""
    return _answer({"errors": [], "users": accounts.user_rows(call.cluster.world)})


def tres(call: Call) -> Answer:
    """GET tres: what is counted."""
    return _answer({"errors": [], "TRES": accounts.tres_rows(call.cluster.world)})

"""The /slurmdb endpoints: what slurmdbd answers."""

from simulator.slurm import accounting
from simulator.slurm.calls import Answer, Call, answer
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
    rows = accounting.association_rows(call.cluster.world)
    return _answer({"errors": [], "associations": rows})

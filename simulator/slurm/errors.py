"""Error numbers and the many shapes in which slurmrestd 22.05 reports them (recorded live)."""

from typing import Any, Literal

Body = dict[str, Any]

TEXT = {
    -1: "Unspecified error",
    1: "Operation not permitted",
    1000: "Unexpected message received",
    1007: "Protocol authentication error",
    1800: "Unable to contact slurm controller (connect failure)",
    2000: "Invalid partition name specified",
    2002: "Access/permission denied",
    2006: "Node count specification invalid",
    2009: "Job script not specified",
    2010: "Invalid user id",
    2014: "Requested node configuration is not available",
    2017: "Invalid job id specified",
    2018: "Invalid node name specified",
    2020: "Job can not be altered now, try again later",
    2029: "Invalid feature specification",
    2038: "Job dependency problem",
    2042: "Job is in held state, pending scheduler release",
    2045: "Invalid account or account/partition combination specified",
    2051: "Requested time limit is invalid (missing or exceeds some limit)",
    2053: "Requested reservation is invalid",
    2054: "Unable to parse time",
    2066: "Invalid qos specification",
    2084: "Job has already finished",
    2115: "Invalid Trackable RESource (TRES) specification",
    2123: "Invalid --nice value",
    2127: "environment must be set",
    5005: "Zero Bytes were transmitted or received",
    7000: "Unable to connect to database",
    7008: "Database connection reference is invalid",
    9000: "Query empty or not RFC7320 compliant",
    9001: "Failure during parsing",
    9002: "Jobs description entry not found, empty or not dictionary or list",
    9003: "Nothing found with query",
    9200: "Unable to resolve path",
    9202: "Unable to read string",
}


def coded(number: int) -> Body:
    """The shape of submit: `error_code` and `error`."""
    return {"error_code": number, "error": TEXT[number]}


def numbered(number: int, description: str | None, source: str | None) -> Body:
    """The shape of most others: `description`, `error_number`, `error`, `source`."""
    error: Body = {} if description is None else {"description": description}
    error |= {"error_number": number, "error": TEXT[number]}
    return error if source is None else {**error, "source": source}


def errno(number: int) -> Body:
    """The shape of nodes, partitions and reservations: `error` and `errno`."""
    return {"error": TEXT[number], "errno": number}


def update_failed(number: int, peer: int) -> Body:
    """The shape of POST job/{id}; it names the peer's port."""
    return numbered(number, f"job update from [localhost]:{peer} failed", "_parse_job_list")


def kill_failed(number: int, job_id: int, signal: int) -> Body:
    """The shape of DELETE job/{id}."""
    text = f"unable to kill JobId={job_id} with signal {signal}: {TEXT[number]}"
    return numbered(number, text, "slurm_kill_job")


Trouble = Literal["token", "controller"]
_DATABASE_DOWN = "Failed connecting to slurmdbd"
_EMPTY_STATISTICS: Body = {"rpcs_by_message_type": [], "rpcs_by_user": []}


def controller_failure(endpoint: str, trouble: Trouble, job_id: int, peer: int) -> Body:
    """What a /slurm endpoint answers (with 500) to a bad token or without its controller."""
    number = 5005 if trouble == "token" else 1800
    match endpoint:
        case "jobs":
            text = "Failed while looking for jobs"
            return {"errors": [numbered(-1, text, "slurm_load_jobs")], "jobs": []}
        case "job":
            text = f"Unable to find JobId={job_id}"
            return {"errors": [numbered(-1, text, "slurm_load_job")], "jobs": []}
        case "ping":
            text = "slurmctld config is unable to load"
            return {"errors": [numbered(-1, text, "slurm_load_ctl_conf")]}
        case "diag":
            error = numbered(-1, "request failed", "slurm_get_statistics")
            return {"errors": [error], "statistics": _EMPTY_STATISTICS}
        case "submit":
            return {"errors": [coded(number)]}
        case "update":
            return {"errors": [update_failed(1000, peer)]}
        case "cancel":
            return {"errors": [kill_failed(number, job_id, 9)]}
        case _:
            return {"errors": [errno(-1)], endpoint: []}


def accounting_failure(endpoint: str, trouble: Literal["token", "database"]) -> tuple[int, Body]:
    """Status and body of a /slurmdb endpoint for a bad token or without its database."""
    if endpoint == "diag":
        if trouble == "token":
            return 500, {"errors": [numbered(-1, None, "slurmdb_get_stats")]}
        return 200, {"errors": [numbered(7008, None, "openapi_get_db_conn")]}
    source = {"jobs": "slurmdb_jobs_get", "clusters": "slurmdb_tres_get"}.get(
        endpoint, f"slurmdb_{endpoint}_get"
    )
    number, text = (1007, None) if trouble == "token" else (7000, _DATABASE_DOWN)
    body: Body = {"errors": [numbered(number, text, source)]}
    if endpoint in {"jobs", "clusters"}:
        body[endpoint] = []
    return (200 if endpoint == "jobs" else 500), body


def nothing_found(source: str) -> Body:
    """An accounting query without an answer: 200 all the same."""
    return numbered(9003, "Nothing found", source)

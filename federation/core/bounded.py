"""What limits of a tenant, its people and its labels say to a job that they keep back, in words."""

from federation.core.plan import Reason
from federation.core.snapshot import Site
from quotas.core.limits import Hit, LimitRow, Scope, Unit


def whom(row: LimitRow, path: str) -> str:
    """Of whom a limit of the tenant with this path speaks, as a sentence begins."""
    if row.scope is Scope.LABEL:
        return f"Jobs of {path} with the label {row.name}={row.text}"
    if row.scope is Scope.USER:
        return f"{'Each person' if row.user is None else 'Its submitter'} in {path}"
    return path


def limit_reason(hit: Hit, path: str, site: Site) -> Reason:
    """Why a limit keeps a job from a site: GPUs there, else (jobs, time) wherever it could go."""
    who, most = whom(hit.row, path), hit.most
    if hit.unit is Unit.GPUS:
        words = f"{who} may hold at most {most} GPUs at once and has {hit.available} left"
        return Reason(
            "limit_reached",
            f"{words}; it needs {hit.needed}.",
            site.cluster.name,
            site.flavor.name,
            needed=hit.needed,
            available=hit.available,
            unit="gpus",
        )
    if hit.unit is Unit.JOBS:
        words = (
            f"{who} may run at most {most} job{'s' if most > 1 else ''} at once; all of them run."
        )
        return Reason("limit_reached", words, needed=1, available=0, unit="jobs")
    needed_s, most_s = hit.needed // 1000, most // 1000
    return Reason(
        "limit_reached",
        f"{too_long(hit.row, path)}; its time limit is {needed_s} s.",
        needed=needed_s,
        available=most_s,
        unit="seconds",
    )


def too_long(row: LimitRow, path: str) -> str:
    """How long a job may run by a limit that bounds the time, as a sentence begins."""
    return (
        f"{whom(row, path)} may ask for a time limit of at most {(row.longest_ms or 0) // 1000} s"
    )

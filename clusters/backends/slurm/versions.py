"""What differs between the versions of Slurm's REST API, as data.

v0.0.38 (Slurm 22.05) has been run live. The others follow SchedMD's own sources and are tested on
replies written from them; NOT YET RUN LIVE, and the probe says so.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one API version is spoken to. Replies need none of this: they are read by shape.

    Attributes:
        api: its name in paths, `v0.0.38`.
        is_run_live: whether it has been tried on a real cluster.
        wraps_numbers: numbers that may be unset are `{set, infinite, number}`.
        lists_environment: the environment is `["K=V"]`, not an object.
        script_inside: the script is a field of the job.
        uses_tres: GPUs are asked for by `tres_per_node`, nodes by `required_nodes`.
        can_drain: nodes can be updated over REST.
        sets_limits: limits of accounts are set over REST (only where that has been run live).
    """

    api: str
    is_run_live: bool
    wraps_numbers: bool
    lists_environment: bool
    script_inside: bool
    uses_tres: bool
    can_drain: bool
    sets_limits: bool


def _newer(api: str, *, script_inside: bool) -> Dialect:
    return Dialect(
        api=api,
        is_run_live=False,
        wraps_numbers=True,
        lists_environment=True,
        script_inside=script_inside,
        uses_tres=True,
        can_drain=True,
        sets_limits=False,
    )


V38 = Dialect(
    api="v0.0.38",
    is_run_live=True,
    wraps_numbers=False,
    lists_environment=False,
    script_inside=False,
    uses_tres=False,
    can_drain=False,
    sets_limits=True,
)
DIALECTS = {
    dialect.api: dialect
    for dialect in (
        V38,
        _newer("v0.0.40", script_inside=False),
        _newer("v0.0.42", script_inside=True),
        _newer("v0.0.45", script_inside=True),
    )
}
_IN_PATH = re.compile(r"^/slurm/(v\d+\.\d+\.\d+)/")


def newest_known(paths: Iterable[str]) -> Dialect | None:
    """The newest version we know among the paths a server lists at `/openapi/v3`."""
    listed = {match[1] for path in paths if (match := _IN_PATH.match(path))}
    known = [dialect for api, dialect in DIALECTS.items() if api in listed]
    return known[-1] if known else None

"""Job dependencies: `singleton`, `after`, `afterany`, `afterok`, `afternotok`."""

import re
from typing import Literal

from simulator.engine.model import Job, State, World

_CLAUSE = re.compile(r"^(after|afterany|afterok|afternotok)((?::\d+)+)$")
_BAD = {State.CANCELLED, State.FAILED, State.TIMEOUT, State.NODE_FAIL}

Verdict = Literal["fulfilled", "waiting", "never"]


def is_dependency(text: str) -> bool:
    """Is this a dependency we understand?"""
    return all(part == "singleton" or _CLAUSE.match(part) for part in text.split(",") if part)


def dependency_state(world: World, job: Job) -> Verdict:
    """All clauses must be fulfilled; one that never can be settles it."""
    verdicts = {
        _singleton(world, job) if part == "singleton" else _after(world, part)
        for part in job.request.dependency.split(",")
        if part
    }
    if "never" in verdicts:
        return "never"
    return "waiting" if "waiting" in verdicts else "fulfilled"


def _singleton(world: World, job: Job) -> Verdict:
    """At most one job of a name and user runs; an earlier one goes first."""
    key = (job.request.user, job.request.name)
    for other in map(world.jobs.__getitem__, world.by_name[key] - {job.id}):
        if other.holds_nodes or (other.waiting and other.id < job.id):
            return "waiting"
    return "fulfilled"


def _after(world: World, clause: str) -> Verdict:
    match = _CLAUSE.match(clause)
    assert match is not None, "checked at submit"  # noqa: S101
    kind, ids = match.group(1), [int(i) for i in match.group(2)[1:].split(":")]
    verdicts = {_one(kind, world.jobs.get(i)) for i in ids}
    if "never" in verdicts:
        return "never"
    return "waiting" if "waiting" in verdicts else "fulfilled"


def _one(kind: str, other: Job | None) -> Verdict:
    if other is None:
        return "fulfilled"
    if kind == "after":
        return "waiting" if other.waiting else "fulfilled"
    if other.waiting or other.holds_nodes:
        return "waiting"
    if kind == "afterok":
        return "never" if other.state in _BAD else "fulfilled"
    if kind == "afternotok":
        return "fulfilled" if other.state in _BAD else "never"
    return "fulfilled"

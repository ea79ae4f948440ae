"""What every backend must do for Muster, whatever it drives: one set of cases for all of them.

What only one of them can do has its own (`contract` for Slurm, `volcano/` for Volcano).
"""

from collections.abc import Callable
from typing import Protocol

import pytest

from clusters.core.backend import (
    NOT_RUNNING,
    Backend,
    BackendAmbiguousError,
    BackendRejectedError,
)
from clusters.core.gang import Gang
from clusters.core.observation import GangSeen, GangState, NodeState

NOW_MS = 1_800_000_000_000
RUNNING = GangState.RUNNING
MOST_LOOKS = 400


class Place(Protocol):
    """A cluster of some kind, and what a test does to it."""

    def backend(self) -> Backend:
        """A backend as a task makes it: it knows nothing of earlier ones."""
        ...

    def losing(self) -> Backend:
        """One that makes what it is told and never hears the answer to its first submit."""
        ...

    def gang(self, label: str, nodes: int, seconds: int, exit_code: int = 0) -> Gang:
        """A gang on the first nodes that runs so long and ends so, by itself."""
        ...

    def intrude(self, gang: Gang) -> str:
        """Somebody else's job of the gang's name on another node; its id there."""
        ...

    def is_there(self, backend_id: str) -> bool:
        """Whether that job is alive."""
        ...

    def wait(self) -> None:
        """A moment passes there."""
        ...


Case = Callable[[Place], None]


def seen(place: Place, fence: str) -> GangSeen | None:
    found = [one for one in place.backend().observe(NOW_MS, [fence]).gangs if one.fence == fence]
    assert len(found) <= 1
    return found[0] if found else None


def until(place: Place, fence: str, *states: GangState) -> GangSeen:
    for _ in range(MOST_LOOKS):
        one = seen(place, fence)
        if one is not None and one.state in states:
            return one
        place.wait()
    raise AssertionError(f"{fence} is never {states}: {one}")


def a_gang_is_submitted_once_runs_whole_and_ends_with_its_code(place: Place) -> None:
    one = place.gang("life", 2, 6)
    assert seen(place, one.fence) is None
    made = place.backend().submit(one, is_repeat=False)
    running = until(place, one.fence, RUNNING)
    assert (running.backend_id, running.nodes, running.account) == (
        made.backend_id,
        one.nodes,
        one.account,
    )
    assert (running.gpus, running.ended_ms) == (16, None)
    done = until(place, one.fence, GangState.SUCCEEDED)
    (run,) = done.runs
    assert done.exit_code == 0
    assert run.end_ms is not None
    assert run.end_ms > run.start_ms
    assert (run.gpus, run.nodes) == (16, one.nodes)


def the_same_submit_again_makes_nothing_more(place: Place) -> None:
    one = place.gang("again", 1, 60)
    made = place.backend().submit(one, is_repeat=False)
    until(place, one.fence, RUNNING)
    assert place.backend().submit(one).backend_id == made.backend_id
    known = place.backend().submit(one, known_as=made.backend_id)
    assert known.backend_id == made.backend_id
    until(place, one.fence, RUNNING)
    place.backend().cancel(one.fence, one.account)
    until(place, one.fence, GangState.CANCELLED)


def a_submit_whose_answer_was_lost_is_found_again(place: Place) -> None:
    one = place.gang("lost", 1, 6)
    with pytest.raises(BackendAmbiguousError):
        place.losing().submit(one, is_repeat=False)
    made = place.backend().submit(one)
    done = until(place, one.fence, GangState.SUCCEEDED)
    assert (done.backend_id, len(done.runs)) == (made.backend_id, 1)


def a_cancel_ends_it_may_be_repeated_and_finds_nothing_without_harm(place: Place) -> None:
    one = place.gang("end", 2, 600)
    place.backend().cancel(one.fence, one.account)
    place.backend().submit(one)
    until(place, one.fence, RUNNING)
    for _ in range(2):
        place.backend().cancel(one.fence, one.account)
    done = until(place, one.fence, GangState.CANCELLED)
    assert [run.end_ms is not None for run in done.runs] == [True]
    place.backend().cancel(one.fence, one.account)
    after = seen(place, one.fence)
    assert after is None or after.state is GangState.CANCELLED


def what_waits_is_cancelled_unrun(place: Place) -> None:
    first, second = place.gang("first", 1, 600), place.gang("second", 1, 600)
    place.backend().submit(first)
    until(place, first.fence, RUNNING)
    place.backend().submit(second)
    until(place, second.fence, GangState.PENDING)
    place.backend().cancel(second.fence, second.account)
    assert until(place, second.fence, GangState.CANCELLED).runs == ()
    assert until(place, first.fence, RUNNING)
    place.backend().cancel(first.fence, first.account)
    until(place, first.fence, GangState.CANCELLED)


def a_rank_that_fails_ends_it_with_its_code(place: Place) -> None:
    one = place.gang("fail", 2, 2, exit_code=3)
    place.backend().submit(one)
    failed = until(place, one.fence, GangState.FAILED)
    assert (failed.exit_code, failed.reason != "") == (3, True)


def a_job_of_the_name_that_is_not_ours_is_never_touched(place: Place) -> None:
    one = place.gang("name", 1, 600)
    theirs = place.intrude(one)
    place.backend().cancel(one.fence, one.account)
    try:  # where names are unique there it is refused, else it is made beside the other
        made = place.backend().submit(one).backend_id
    except BackendRejectedError as error:
        assert error.code == "not_ours"  # noqa: PT017 - either is right
        made = ""
    assert made != theirs
    observed = place.backend().observe(NOW_MS, [one.fence])
    assert theirs not in {gang.backend_id for gang in observed.gangs}
    place.backend().cancel(one.fence, one.account)
    assert place.is_there(theirs)


def a_signal_reaches_only_what_runs(place: Place) -> None:
    one = place.gang("signal", 1, 600)

    def refused() -> str:
        with pytest.raises(BackendRejectedError) as told:
            place.backend().signal(one.fence, one.account, "CONT")
        return told.value.code

    assert refused() == NOT_RUNNING
    place.backend().submit(one)
    until(place, one.fence, RUNNING)
    for _ in range(2):
        place.backend().signal(one.fence, one.account, "CONT")
    assert until(place, one.fence, RUNNING)
    place.backend().cancel(one.fence, one.account)
    until(place, one.fence, GangState.CANCELLED)
    assert refused() == NOT_RUNNING


def the_fleet_is_seen_and_probed(place: Place) -> None:
    observed = place.backend().observe(NOW_MS, [])
    assert (observed.begun_ms, observed.accounting_answered) == (NOW_MS, True)
    with_gpus = [node for node in observed.nodes if node.gpus]
    assert {node.state for node in with_gpus} == {NodeState.UP}
    assert all(node.device and node.path for node in with_gpus)
    assert any(queue.is_open for queue in observed.queues)
    report = place.backend().probe(NOW_MS)
    flags = report.capabilities
    assert all(flags[name] for name in ("reachable", "accounting", "devices", "queues", "signal"))
    assert report.version
    assert all(finding.fix for finding in report.findings if not finding.is_on)


def nodes_are_drained_and_given_back_where_it_can(place: Place) -> None:
    if not place.backend().probe(NOW_MS).capabilities["drain"]:
        return  # it said so before: nobody will ask
    (name,) = place.gang("drain", 1, 1).nodes

    def state() -> NodeState:
        nodes = place.backend().observe(NOW_MS, []).nodes
        return next(node.state for node in nodes if node.name == name)

    for _ in range(2):
        place.backend().drain([name], "fans")
        assert state() is NodeState.DRAINING
    for _ in range(2):
        place.backend().undrain([name])
        assert state() is NodeState.UP


CASES: tuple[Case, ...] = (
    a_gang_is_submitted_once_runs_whole_and_ends_with_its_code,
    the_same_submit_again_makes_nothing_more,
    a_submit_whose_answer_was_lost_is_found_again,
    a_cancel_ends_it_may_be_repeated_and_finds_nothing_without_harm,
    what_waits_is_cancelled_unrun,
    a_rank_that_fails_ends_it_with_its_code,
    a_job_of_the_name_that_is_not_ours_is_never_touched,
    a_signal_reaches_only_what_runs,
    the_fleet_is_seen_and_probed,
    nodes_are_drained_and_given_back_where_it_can,
)

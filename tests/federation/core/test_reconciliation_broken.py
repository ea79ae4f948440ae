"""Verdicts on gangs that lost a member, or that take long to end: somebody has to end them."""

import pytest

from clusters.core.observation import GangState
from federation.core.reconciliation import Cause, Phase, Reading, judge
from tests.federation.core.test_reconciliation import DONE, T0, attempt, seen


def test_what_is_cancelled_and_still_ends_is_asked_again_after_a_minute() -> None:
    """The backend may have to go over a dead node (Volcano); a short end needs nothing."""
    cancelled = attempt(cancel=DONE, stop_cause="cancelled", phase=Phase.STOPPING)
    for later_ms, again in ((1_000, False), (60_000, False), (60_001, True)):
        reading = Reading(T0 + later_ms, accounting_answered=True)
        verdict = judge(cancelled, [seen(GangState.ENDING)], reading, T0 + later_ms)
        assert (verdict.phase, verdict.cancel_again) == (Phase.STOPPING, again)


def test_a_gang_that_lost_a_node_and_that_nobody_there_ends_is_stopped() -> None:
    for state in (GangState.RUNNING, GangState.ENDING):
        broken = seen(state, broken=GangState.NODE_FAILED)
        reading = Reading(T0 + 5, accounting_answered=True)
        assert judge(attempt(), [broken], reading, T0 + 5).abort is Cause.NODE_FAILURE
        stopping = attempt(stop_cause="cancelled", phase=Phase.STOPPING)
        assert judge(stopping, [broken], reading, T0 + 5).abort is None


@pytest.mark.parametrize(
    ("state", "stop", "cause"),
    [
        (GangState.FAILED, "node_failure", Cause.NODE_FAILURE),  # the other ranks failed of it
        (GangState.FAILED, "cancelled", Cause.FAILED),
        (GangState.CANCELLED, "node_failure", Cause.NODE_FAILURE),
        (GangState.SUCCEEDED, "node_failure", Cause.SUCCEEDED),
    ],
)
def test_where_a_node_has_died_it_is_no_fault_of_the_job(
    state: GangState, stop: str, cause: Cause
) -> None:
    stopped = attempt(stop_cause=stop, phase=Phase.STOPPING)
    assert judge(stopped, [seen(state)], None, T0).cause is cause

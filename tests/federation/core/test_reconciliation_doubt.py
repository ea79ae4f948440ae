"""Verdicts on what is told by half: records that accounting left open, runs it has not told yet."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.core.observation import ACCOUNTING_LAG_MS, GangSeen, GangState, Run
from clusters.selectors.traffic import gang_to_json, gangs_from_json
from federation.core.reconciliation import (
    Cause,
    OpenAttempt,
    Order,
    Phase,
    Reading,
    forgotten_runs,
    judge,
)
from tests.federation.core.test_reconciliation import (
    ATTEMPTS,
    READINGS,
    T0,
    attempt,
    look,
    ran,
    seen,
)

OPEN_RECORD = seen(GangState.UNKNOWN, runs=ran(T0 + 5, None, GangState.RUNNING))


def test_a_run_that_only_accounting_has_and_never_ended_is_looked_into() -> None:
    """The controller forgot it: it does not wait in the queue again, and is never run again."""
    for started_ms in (T0 + 5, None):
        verdict = judge(
            attempt(phase=Phase.RUNNING, started_ms=started_ms), [OPEN_RECORD], look(), T0 + 10
        )
        assert (verdict.phase, verdict.cause) == (Phase.LOST, Cause.LOST)
        assert verdict.runs == OPEN_RECORD.runs


def test_what_only_accounting_has_and_never_ran_is_queued_again_after_the_lag() -> None:
    waiting = seen(GangState.UNKNOWN)
    early = judge(attempt(), [waiting], look(), T0 + 10)
    late = judge(attempt(), [waiting], look(T0 + ACCOUNTING_LAG_MS + 1), T0 + 10)
    assert (early.phase, late.phase, late.cause) == (Phase.PENDING, Phase.ENDED, Cause.VANISHED)


def test_a_cancel_ends_what_only_accounting_has() -> None:
    """Its record may stay open for ever, and must not keep the job `stopping` for as long."""
    stopping = attempt(
        phase=Phase.STOPPING,
        started_ms=T0 + 5,
        stop_cause="cancelled",
        cancel=Order("done", was_sent=True, answered_ms=T0 + 20),
    )
    gone_ms = T0 + 20 + ACCOUNTING_LAG_MS
    early = judge(stopping, [OPEN_RECORD], look(gone_ms), gone_ms)
    assert (early.phase, early.runs) == (Phase.STOPPING, OPEN_RECORD.runs)
    verdict = judge(stopping, [OPEN_RECORD], look(gone_ms + 1), gone_ms)
    assert (verdict.phase, verdict.cause) == (Phase.ENDED, Cause.CANCELLED)
    told = forgotten_runs([(T0 + 5, None, 16)], verdict)
    assert [(run.start_ms, run.end_ms) for run in told] == [(T0 + 5, T0 + 5)]


@given(ATTEMPTS, st.sampled_from([(), (OPEN_RECORD,), (seen(GangState.UNKNOWN),)]), READINGS)
def test_what_was_told_stands_until_more_is_told_or_all_is_over(
    value: OpenAttempt, objects: tuple[GangSeen, ...], reading: Reading | None
) -> None:
    """Accounting that is behind says less than was seen: no bill may be closed or lost by that."""
    verdict = judge(value, objects, reading, T0)
    if verdict.phase is not Phase.ENDED and not verdict.runs:
        assert not verdict.tells_runs
        assert forgotten_runs([(T0 + 5, None, 16)], verdict) == ()
    if verdict.phase is Phase.ENDED and value.cancel is not None and value.submit.was_sent:
        assert reading is not None
        assert value.cancel.answered_ms is not None
        assert reading.begun_ms > value.cancel.answered_ms + ACCOUNTING_LAG_MS


@given(ATTEMPTS, st.sampled_from(["waiting", "sent"]), READINGS)
def test_an_absence_proves_nothing_while_an_order_to_submit_is_open(
    value: OpenAttempt, state: str, reading: Reading | None
) -> None:
    """It was given once more, to bring duplicates together: what is gone could come back by it."""
    answered = replace(value.submit, state=state, was_sent=True, answered_ms=T0)
    value = replace(value, submit=answered, cancel=None, accepted_ms=T0)
    assert judge(value, [], reading, T0).phase not in {Phase.ENDED, Phase.LOST} or (
        value.phase is Phase.LOST
    )


REQUEUED = Run(T0 + 5, T0 + 90_000, 16, ("n1", "n2"), GangState.PREEMPTED)
NO_CALL = {"converge": False, "abort": None, "cause": None}


@pytest.mark.parametrize("state", [state for state in GangState if state is not GangState.UNKNOWN])
@pytest.mark.parametrize("stop", ["", "cancelled"])
def test_nothing_ends_nor_is_too_late_while_earlier_runs_are_not_told(
    state: GangState, stop: str
) -> None:
    late_ms = T0 + 10**9
    found = seen(state, is_whole=False, runs=ran(T0 + 99_000, T0 + 99_500, state))
    known = attempt(started_ms=T0 + 5, phase=Phase.RUNNING, stop_cause=stop)
    verdict = judge(known, [found], look(late_ms, accounting=False), late_ms)
    assert verdict.phase not in {Phase.ENDED, Phase.LOST}
    assert {name: getattr(verdict, name) for name in NO_CALL} == NO_CALL
    assert (verdict.phase is Phase.STOPPING) == bool(stop)
    assert forgotten_runs([(T0 + 5, None, 16)], verdict) == ()  # what was told stands
    whole = replace(found, is_whole=True, runs=(REQUEUED, *found.runs))
    told = judge(known, [whole], look(late_ms), late_ms)
    assert (told.phase is Phase.ENDED) == state.is_final
    assert told.runs[0] == REQUEUED


def test_a_gang_that_lacks_runs_is_kept_so_and_an_older_row_is_whole() -> None:
    lacking = seen(GangState.SUCCEEDED, is_whole=False)
    whole = seen(GangState.SUCCEEDED)
    assert gangs_from_json([gang_to_json(lacking), gang_to_json(whole)]) == [lacking, whole]
    assert "is_whole" not in gang_to_json(whole)


DOUBTS = st.lists(
    st.builds(
        seen,
        state=st.just(GangState.UNKNOWN),
        number=st.integers(1, 5),
        runs=st.sampled_from(
            [(), ran(T0, None, GangState.RUNNING), ran(T0, T0, GangState.UNKNOWN)]
        ),
        is_whole=st.booleans(),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda found: found.backend_id,
)


@given(ATTEMPTS, DOUBTS, READINGS, st.integers(0, 10**9))
def test_what_only_accounting_has_never_waits_to_start(
    value: OpenAttempt, objects: list[GangSeen], reading: Reading | None, later_ms: int
) -> None:
    """Whatever is known of it: no start timeout, no order, and an end only as of one absent."""
    verdict = judge(value, objects, reading, T0 + later_ms)
    assert (verdict.abort, verdict.converge) == (None, False)
    if verdict.phase is Phase.ENDED:
        assert reading is not None or value.submit.state == "dropped"
        assert verdict.cause in {
            Cause.VANISHED,
            Cause.CANCELLED,
            *map(Cause, filter(None, [value.stop_cause])),
        }
        ran_before = value.started_ms is not None or any(found.runs for found in objects)
        assert verdict.cause is not Cause.VANISHED or not ran_before


@given(ATTEMPTS, DOUBTS, READINGS)
def test_what_may_still_start_counts_before_what_nobody_has(
    value: OpenAttempt, objects: list[GangSeen], reading: Reading | None
) -> None:
    doubts = [replace(found, runs=(), is_whole=True) for found in objects]
    waits = seen(GangState.PENDING, number=9)
    verdict = judge(value, [*doubts, waits], reading, T0)
    assert verdict.seen == waits
    assert verdict.phase is not Phase.ENDED


@given(ATTEMPTS, DOUBTS, READINGS)
def test_what_only_accounting_has_is_not_beyond_doubt(
    value: OpenAttempt, objects: list[GangSeen], reading: Reading | None
) -> None:
    """It is not billed past a midnight before more is known."""
    assert judge(value, objects, reading, T0).lasting_ms is None
    lost = judge(attempt(phase=Phase.RUNNING, started_ms=T0), [], look(), T0 + 10)
    assert (lost.phase, lost.lasting_ms) == (Phase.LOST, None)
    running = seen(GangState.RUNNING, runs=ran(T0 + 5, None, GangState.RUNNING))
    assert judge(attempt(), [running], look(), T0 + 10).lasting_ms == T0 + 5


@pytest.mark.parametrize("state", [GangState.HELD, GangState.PENDING, GangState.RUNNING])
def test_what_outlives_its_cancel_is_cancelled_again(state: GangState) -> None:
    """A submit was long on its way, or the controller came back with an older state."""
    answered = Order("done", was_sent=True, answered_ms=T0 + 20)
    stopping = attempt(phase=Phase.STOPPING, stop_cause="cancelled", cancel=answered)
    alive = [seen(state)]
    assert judge(stopping, alive, look(T0 + 21), T0 + 30).cancel_again
    assert not judge(stopping, alive, look(T0 + 20), T0 + 30).cancel_again  # read before
    asked = replace(stopping, cancel=replace(answered, state="waiting"))
    assert not judge(asked, alive, look(T0 + 21), T0 + 30).cancel_again  # it is on its way
    ending = [seen(GangState.ENDING)]
    assert not judge(stopping, ending, look(T0 + 21), T0 + 30).cancel_again


@pytest.mark.parametrize("state", [state for state in GangState if state.is_final])
def test_how_a_duplicate_ended_unrun_says_nothing_of_the_one_that_counts(state: GangState) -> None:
    """We cancelled the duplicate; the one that was accepted is not seen for the moment."""
    accepted = Order("done", was_sent=True, answered_ms=T0, backend_id="7")
    duplicate = seen(state, 8)
    ran_already = attempt(submit=accepted, phase=Phase.RUNNING, started_ms=T0 + 5)
    verdict = judge(ran_already, [duplicate], look(), T0 + 10)
    assert (verdict.phase, verdict.cause, verdict.tells_runs) == (Phase.LOST, Cause.LOST, False)
    waits = judge(attempt(submit=accepted), [duplicate], look(), T0 + 10)
    assert (waits.phase, waits.seen) == (Phase.PENDING, None)
    away = look(T0 + ACCOUNTING_LAG_MS + 1, accounting=False)
    assert judge(ran_already, [duplicate], away, T0 + 10).phase is Phase.RUNNING
    own = judge(attempt(submit=accepted), [seen(state, 7), duplicate], look(), T0 + 10)
    assert (own.phase, own.seen) == (Phase.ENDED, seen(state, 7))
    untold = replace(accepted, backend_id="")
    assert judge(attempt(submit=untold), [duplicate], look(), T0 + 10).phase is Phase.ENDED

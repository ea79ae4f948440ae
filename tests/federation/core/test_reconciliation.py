"""Verdicts on one attempt: a table of what may be seen, and what no seeing may ever cause."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.core.observation import GangSeen, GangState, Run
from federation.core.lifecycle import JobState
from federation.core.reconciliation import (
    ACCOUNTING_LAG_MS,
    Cause,
    OpenAttempt,
    Order,
    Phase,
    Reading,
    Verdict,
    Wish,
    after_end,
    forgotten_runs,
    judge,
)

T0 = 1_000_000
FENCE = "mst-aaaaaaaaaaaa-a1"
DONE = Order("done", was_sent=True, answered_ms=T0)


def attempt(**changes: object) -> OpenAttempt:
    value = OpenAttempt(
        attempt_id=UUID(int=1),
        fence=FENCE,
        phase=Phase.PENDING,
        submit=DONE,
        cancel=None,
        accepted_ms=T0,
        started_ms=None,
        start_timeout_ms=300_000,
        stop_cause="",
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def seen(state: GangState, number: int = 7, **changes: object) -> GangSeen:
    value = GangSeen(
        fence=FENCE,
        backend_id=str(number),
        state=state,
        reason="None",
        account="mia",
        nodes=("n1", "n2"),
        gpus=16,
        submitted_ms=T0,
        started_ms=None,
        ended_ms=None,
        exit_code=None,
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def ran(start: int, end: int | None, state: GangState) -> tuple[Run, ...]:
    return (Run(start, end, 16, ("n1", "n2"), state),)


def look(begun_ms: int = T0 + 1, *, accounting: bool = True) -> Reading:
    return Reading(begun_ms, accounting)


RUNNING = seen(GangState.RUNNING, runs=ran(T0 + 5, None, GangState.RUNNING), started_ms=T0 + 5)


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (GangState.SUCCEEDED, Cause.SUCCEEDED),
        (GangState.FAILED, Cause.FAILED),
        (GangState.TIMED_OUT, Cause.TIME_LIMIT),
        (GangState.NODE_FAILED, Cause.NODE_FAILURE),
        (GangState.PREEMPTED, Cause.PREEMPTED),
        (GangState.CANCELLED, Cause.CANCELLED_THERE),
    ],
)
def test_every_final_state_ends_the_attempt_with_its_cause(state: GangState, cause: Cause) -> None:
    verdict = judge(attempt(), [seen(state)], look(), T0 + 10)
    assert (verdict.phase, verdict.cause) == (Phase.ENDED, cause)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (GangState.HELD, Phase.PENDING),
        (GangState.PENDING, Phase.PENDING),
        (GangState.STARTING, Phase.PENDING),
        (GangState.RUNNING, Phase.RUNNING),
        (GangState.ENDING, Phase.RUNNING),
    ],
)
def test_every_living_state_has_a_phase(state: GangState, phase: Phase) -> None:
    assert judge(attempt(), [seen(state)], look(), T0 + 10).phase is phase


def test_the_gang_states_are_all_covered_above() -> None:
    assert len(GangState) == 12


@pytest.mark.parametrize(
    ("value", "reading", "phase", "cause"),
    [
        # silence: nothing was read, or accounting did not answer, or the reading is too old
        (attempt(), None, Phase.PENDING, None),
        (attempt(), look(T0 + 10**9, accounting=False), Phase.PENDING, None),
        (attempt(started_ms=T0), look(T0 - 1), Phase.RUNNING, None),
        # not found within a minute of the submit means wait
        (attempt(), look(T0 + ACCOUNTING_LAG_MS), Phase.PENDING, None),
        (attempt(), look(T0 + ACCOUNTING_LAG_MS + 1), Phase.ENDED, Cause.VANISHED),
        # seen running, then gone from controller and accounting: looked into, not run again
        (attempt(started_ms=T0), look(), Phase.LOST, Cause.LOST),
        # an unanswered submit proves nothing
        (
            attempt(submit=Order("sent", was_sent=True, answered_ms=None), accepted_ms=None),
            look(T0 + 10**9),
            Phase.DISPATCHING,
            None,
        ),
        # refused
        (
            attempt(submit=Order("rejected", was_sent=True, answered_ms=T0), accepted_ms=None),
            look(),
            Phase.ENDED,
            Cause.REJECTED,
        ),
        # cancelled before it was ever sent
        (
            attempt(
                submit=Order("dropped", was_sent=False, answered_ms=T0),
                accepted_ms=None,
                stop_cause="cancelled",
            ),
            None,
            Phase.ENDED,
            Cause.CANCELLED,
        ),
        # sent, then cancelled: gone only when a reading begun long enough after the cancel says so
        (
            attempt(
                cancel=Order("done", was_sent=True, answered_ms=T0 + 50), stop_cause="cancelled"
            ),
            look(T0 + 50 + ACCOUNTING_LAG_MS),
            Phase.STOPPING,
            None,
        ),
        (
            attempt(
                cancel=Order("done", was_sent=True, answered_ms=T0 + 50), stop_cause="cancelled"
            ),
            look(T0 + 51 + ACCOUNTING_LAG_MS),
            Phase.ENDED,
            Cause.CANCELLED,
        ),
        (
            attempt(
                cancel=Order("waiting", was_sent=False, answered_ms=None), stop_cause="cancelled"
            ),
            look(T0 + 10**9),
            Phase.STOPPING,
            None,
        ),
    ],
)
def test_absence_proves_only_what_it_can(
    value: OpenAttempt, reading: Reading | None, phase: Phase, cause: Cause | None
) -> None:
    verdict = judge(value, [], reading, T0 + 10**9)
    assert (verdict.phase, verdict.cause) == (phase, cause)


def test_a_gang_that_never_starts_whole_is_aborted_after_its_start_timeout() -> None:
    pending = seen(GangState.PENDING, reason="ReqNodeNotAvail")
    assert judge(attempt(), [pending], look(), T0 + 300_000).abort is None
    verdict = judge(attempt(), [pending], look(), T0 + 300_001)
    assert verdict.abort is Cause.START_TIMEOUT
    assert verdict.words == "ReqNodeNotAvail"


def test_a_requeue_on_the_cluster_starts_the_start_timer_anew() -> None:
    requeued = seen(GangState.PENDING, runs=ran(T0 + 5, T0 + 400_000, GangState.PREEMPTED))
    assert judge(attempt(started_ms=T0 + 5), [requeued], look(), T0 + 600_000).abort is None
    assert judge(attempt(started_ms=T0 + 5), [requeued], look(), T0 + 700_001).abort is not None


def test_of_two_objects_the_running_one_counts_and_the_other_is_cancelled() -> None:
    duplicate = seen(GangState.HELD, number=3)
    for objects in ([RUNNING, duplicate], [duplicate, RUNNING]):
        verdict = judge(attempt(), objects, look(), T0 + 10)
        assert verdict.seen == RUNNING
        assert verdict.converge


def test_of_two_held_objects_the_lowest_number_counts() -> None:
    objects = [seen(GangState.PENDING, number=10), seen(GangState.PENDING, number=9)]
    found = judge(attempt(), objects, look(), T0 + 10).seen
    assert found is not None
    assert found.backend_id == "9"


def test_an_attempt_that_ran_counts_before_its_cancelled_duplicate() -> None:
    over = seen(GangState.SUCCEEDED, number=9, runs=ran(T0, T0 + 9, GangState.SUCCEEDED))
    verdict = judge(attempt(), [seen(GangState.CANCELLED, number=3), over], look(), T0 + 10)
    assert verdict.cause is Cause.SUCCEEDED
    assert not verdict.converge


def test_every_run_of_every_object_is_told_in_order() -> None:
    first = seen(GangState.CANCELLED, number=3, runs=ran(T0 + 1, T0 + 2, GangState.CANCELLED))
    verdict = judge(attempt(), [RUNNING, first], look(), T0 + 10)
    assert [run.start_ms for run in verdict.runs] == [T0 + 1, T0 + 5]


def test_a_lost_answer_is_found_in_what_runs() -> None:
    value = attempt(
        phase=Phase.DISPATCHING,
        submit=Order("sent", was_sent=True, answered_ms=None),
        accepted_ms=None,
    )
    verdict = judge(value, [RUNNING], look(), T0 + 10)
    assert (verdict.phase, verdict.accepted_ms) == (Phase.RUNNING, T0 + 10)
    held = judge(value, [seen(GangState.HELD)], look(), T0 + 10)
    assert (held.phase, held.accepted_ms) == (Phase.DISPATCHING, None)


def test_a_lost_attempt_that_shows_up_again_is_running_again() -> None:
    assert judge(attempt(phase=Phase.LOST, started_ms=T0), [RUNNING], look(), T0).phase is (
        Phase.RUNNING
    )
    assert judge(attempt(phase=Phase.LOST, started_ms=T0), [], None, T0).phase is Phase.LOST


NO_WISH = Wish(cancel=False, hold_by="", restarts_left=1)


@pytest.mark.parametrize(
    ("cause", "wish", "state"),
    [
        (Cause.SUCCEEDED, NO_WISH, JobState.SUCCEEDED),
        (Cause.SUCCEEDED, replace(NO_WISH, cancel=True), JobState.SUCCEEDED),
        (Cause.FAILED, NO_WISH, JobState.FAILED),
        (Cause.FAILED, replace(NO_WISH, cancel=True), JobState.FAILED),
        (Cause.TIME_LIMIT, NO_WISH, JobState.FAILED),
        (Cause.CANCELLED, replace(NO_WISH, cancel=True), JobState.CANCELLED),
        (Cause.CANCELLED_THERE, NO_WISH, JobState.CANCELLED),
        (Cause.HELD, replace(NO_WISH, hold_by="owner"), JobState.HELD),
        (Cause.HELD, replace(NO_WISH, hold_by="owner", cancel=True), JobState.CANCELLED),
        (Cause.HELD, NO_WISH, JobState.QUEUED),
        (Cause.NODE_FAILURE, NO_WISH, JobState.QUEUED),
        (Cause.NODE_FAILURE, replace(NO_WISH, restarts_left=0), JobState.FAILED),
        (Cause.NODE_FAILURE, replace(NO_WISH, cancel=True), JobState.CANCELLED),
        (Cause.NODE_FAILURE, replace(NO_WISH, hold_by="admin"), JobState.HELD),
        (Cause.START_TIMEOUT, NO_WISH, JobState.QUEUED),
        (Cause.START_TIMEOUT, replace(NO_WISH, restarts_left=0), JobState.FAILED),
        (Cause.REJECTED, NO_WISH, JobState.QUEUED),
        (Cause.REJECTED, replace(NO_WISH, restarts_left=0), JobState.FAILED),
        (Cause.PREEMPTED, replace(NO_WISH, restarts_left=0), JobState.QUEUED),
        (Cause.VANISHED, replace(NO_WISH, restarts_left=0), JobState.QUEUED),
    ],
)
def test_what_becomes_of_the_job(cause: Cause, wish: Wish, state: JobState) -> None:
    assert after_end(cause, wish).state is state


ORDERS = st.builds(
    Order,
    state=st.sampled_from(["waiting", "sent", "done", "rejected", "dropped"]),
    was_sent=st.booleans(),
    answered_ms=st.none() | st.integers(T0 - 100, T0 + 100),
)
STOPS = st.sampled_from(["", "cancelled", "held", "start_timeout"])
TIMES = st.none() | st.integers(T0 - 100, T0 + 100)
ATTEMPTS = st.builds(
    attempt,
    phase=st.sampled_from([p for p in Phase if p is not Phase.ENDED]),
    submit=ORDERS,
    cancel=st.none() | ORDERS,
    accepted_ms=TIMES,
    started_ms=TIMES,
    stop_cause=STOPS,
)
OBJECTS = st.lists(
    st.builds(
        seen,
        state=st.sampled_from(GangState),
        number=st.integers(1, 5),
        runs=st.sampled_from([(), ran(T0, None, GangState.RUNNING)]),
    ),
    max_size=3,
    unique_by=lambda found: found.backend_id,
)
READINGS = st.none() | st.builds(
    Reading, st.integers(T0 - 200, T0 + 200), accounting_answered=st.booleans()
)


@given(ATTEMPTS, OBJECTS, READINGS, st.randoms())
def test_the_order_of_what_was_seen_does_not_matter(
    value: OpenAttempt, objects: list[GangSeen], reading: Reading | None, random: object
) -> None:
    shuffled = list(objects)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert judge(value, shuffled, reading, T0) == judge(value, objects, reading, T0)


@given(ATTEMPTS, READINGS)
def test_nothing_ends_on_silence(value: OpenAttempt, reading: Reading | None) -> None:
    """Without an answer of accounting, only a refusal or an order never sent ends an attempt."""
    silent = reading and replace(reading, accounting_answered=False)
    verdict: Verdict = judge(value, [], silent, T0 + 10**9)
    never_there = (value.submit.state == "rejected" and value.accepted_ms is None) or (
        value.submit.state == "dropped" and not value.submit.was_sent
    )
    assert verdict.phase is not Phase.LOST or value.phase is Phase.LOST
    assert (verdict.phase is Phase.ENDED) == never_there


@given(ATTEMPTS, OBJECTS, READINGS)
def test_what_lives_on_the_cluster_never_ends_here(
    value: OpenAttempt, objects: list[GangSeen], reading: Reading | None
) -> None:
    verdict = judge(value, objects, reading, T0)
    holding = [found for found in objects if found.state.holds_nodes]
    if holding:
        assert verdict.phase is not Phase.ENDED
        assert verdict.seen in holding


def test_what_was_released_and_is_held_again_is_ordered_once_more() -> None:
    """A controller may come back with an older state; a reading from before the release may not."""
    held = seen(GangState.HELD)
    assert judge(attempt(), [held], look(T0 + 1), T0 + 10).converge
    assert not judge(attempt(), [held], look(T0), T0 + 10).converge
    stopping = attempt(phase=Phase.STOPPING, stop_cause="cancelled")
    assert not judge(stopping, [held], look(T0 + 1), T0 + 10).converge
    sent = attempt(submit=Order("sent", was_sent=True, answered_ms=None), accepted_ms=None)
    assert not judge(sent, [held], look(T0 + 1), T0 + 10).converge


def test_a_run_that_the_cluster_forgot_ends_where_it_began() -> None:
    told = [(T0 + 5, None, 16)]
    again = seen(GangState.RUNNING, runs=ran(T0 + 60, None, GangState.RUNNING))
    ended = seen(GangState.CANCELLED)
    for found in (again, ended):
        (run,) = forgotten_runs(told, judge(attempt(), [found], look(), T0 + 90))
        assert (run.start_ms, run.end_ms, run.gpus) == (T0 + 5, T0 + 5, 16)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([(T0 + 5, None, 16)], RUNNING),
        ([(T0 + 5, None, 16)], seen(GangState.PENDING)),
        ([(T0 + 5, T0 + 9, 16)], seen(GangState.CANCELLED)),
        ([], seen(GangState.CANCELLED)),
    ],
)
def test_nothing_else_is_forgotten(
    told: list[tuple[int, int | None, int]], found: GangSeen
) -> None:
    assert forgotten_runs(told, judge(attempt(), [found], look(), T0 + 90)) == ()

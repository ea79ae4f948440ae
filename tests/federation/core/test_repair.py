"""What people may do about a case: a table of answers, and what no answer may ever allow."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.core.observation import GangSeen, GangState
from federation.core.lifecycle import JobState
from federation.core.reconciliation import Cause, Order, Phase, Reading, Wish, after_end, judge
from federation.core.repair import (
    ORDERS,
    Action,
    Evidence,
    Kind,
    OurAttempt,
    OurOrder,
    Proposal,
    Refusal,
    Seen,
    Step,
    bill_end_ms,
    proposals,
    propose,
)
from tests.federation.core.test_reconciliation import FENCE, T0, attempt, seen

LOST = OurAttempt(Phase.LOST, "mia", open_run_ms=T0, lost_ms=T0 + 100)
FRESH = Seen(is_fresh=True, begun_ms=T0 + 200, accounting_answered=True)
CASE = Evidence(Kind.LOST, "alpine", FENCE, FRESH, LOST, submit_state="done")
RUNS = seen(GangState.RUNNING)


def case(kind: Kind = Kind.LOST, **changes: object) -> Evidence:
    return replace(CASE, kind=kind, **changes)  # type: ignore[arg-type]


def ours(phase: Phase = Phase.RUNNING, **changes: object) -> OurAttempt:
    return replace(OurAttempt(phase, "mia"), **changes)  # type: ignore[arg-type]


def steps(evidence: Evidence, action: Action) -> tuple[Step, ...]:
    answer = propose(evidence, action)
    assert isinstance(answer, Proposal), answer
    assert answer.does
    assert answer.safe
    return answer.steps


def why_not(evidence: Evidence, action: Action) -> str:
    answer = propose(evidence, action)
    assert isinstance(answer, Refusal), answer
    return answer.why


def test_a_lost_attempt_is_ended_before_its_job_is_queued() -> None:
    assert steps(CASE, Action.RESUBMIT) == (Step.CLOSE_BILL, Step.STOP_THEN_QUEUE)
    assert steps(CASE, Action.FORGET) == (Step.CLOSE_BILL, Step.END_ATTEMPT)
    assert steps(CASE, Action.CANCEL) == (Step.CANCEL_JOB,)
    assert "no such object" in why_not(CASE, Action.ADOPT)


@pytest.mark.parametrize("action", [Action.FORGET, Action.RESUBMIT])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seen": replace(FRESH, is_fresh=False)}, "does not answer now"),
        ({"seen": replace(FRESH, accounting_answered=False)}, "accounting of alpine"),
        ({"seen": replace(FRESH, begun_ms=T0 + 99)}, "not read since"),
        ({"objects": (RUNS,)}, "adopt it, or cancel it"),
        ({"attempt": ours()}, "not lost"),
    ],
)
def test_what_may_still_run_is_neither_forgotten_nor_started_again(
    action: Action, changes: dict[str, object], words: str
) -> None:
    assert words in why_not(case(**changes), action)


def test_a_node_that_does_not_answer_may_still_run_it() -> None:
    away = case(attempt=replace(LOST, away=tuple(f"n{n}" for n in range(12))))
    assert "n7 and 4 more" in why_not(away, Action.RESUBMIT)
    assert steps(away, Action.FORGET)[-1] is Step.END_ATTEMPT  # starts nothing


def test_what_turned_up_again_is_followed_if_it_is_ours() -> None:
    assert steps(case(objects=(RUNS,)), Action.ADOPT) == (Step.JUDGE,)
    stranger = replace(RUNS, account="otto")
    assert "runs as otto, the attempt as mia" in why_not(case(objects=(stranger,)), Action.ADOPT)


def test_of_two_one_is_kept() -> None:
    two = (RUNS, seen(GangState.HELD, 8))
    doubled = case(Kind.DUPLICATE, attempt=ours(), objects=two)
    assert steps(doubled, Action.ADOPT) == (Step.SUBMIT_AGAIN,)
    assert steps(replace(doubled, submit_state="waiting"), Action.ADOPT) == ()
    assert "over" in why_not(replace(doubled, submit_state="dropped"), Action.ADOPT)
    stopping = replace(doubled, attempt=ours(Phase.STOPPING, is_stopping=True))
    assert "being stopped" in why_not(stopping, Action.ADOPT)
    assert "Cancel it" in why_not(doubled, Action.FORGET)
    assert "not known to have ended" in why_not(doubled, Action.RESUBMIT)
    assert steps(doubled, Action.CANCEL) == (Step.CANCEL_JOB,)


@pytest.mark.parametrize(
    "owner", [None, ours(Phase.ENDED), ours(is_here=False)], ids=["unknown", "over", "elsewhere"]
)
def test_an_orphan_can_only_be_cancelled(owner: OurAttempt | None) -> None:
    orphan = case(Kind.ORPHAN, attempt=owner, objects=(RUNS,))
    assert steps(orphan, Action.CANCEL) == (Step.CANCEL_OBJECT,)
    assert steps(replace(orphan, cancel_is_out=True), Action.CANCEL) == ()
    for action in (Action.ADOPT, Action.FORGET, Action.RESUBMIT):
        assert "ancel it" in why_not(orphan, action)


@pytest.mark.parametrize("kind", [Kind.FOREIGN_NAME, Kind.SILENT])
def test_what_is_not_ours_is_not_touched(kind: Kind) -> None:
    for answer in proposals(case(kind, attempt=None, objects=(RUNS,))).values():
        assert isinstance(answer, Refusal)


@pytest.mark.parametrize("kind", [Kind.AMBIGUOUS, Kind.PARKED])
@pytest.mark.parametrize("order", ["submit", "cancel", "signal"])
def test_an_open_order_may_be_sent_again(kind: Kind, order: str) -> None:
    it = case(kind, attempt=ours(Phase.DISPATCHING), order=OurOrder(order, "sent"))
    assert steps(it, Action.RESUBMIT) == (Step.SEND_AGAIN,)
    assert "needs the answer" in why_not(it, Action.FORGET)
    assert steps(it, Action.CANCEL) == (Step.CANCEL_JOB,)


def test_a_refused_cancel_may_be_sent_again_and_a_refused_submit_not() -> None:
    it = case(Kind.REJECTED, attempt=ours(), order=OurOrder("cancel", "rejected"))
    assert steps(it, Action.RESUBMIT) == (Step.SEND_AGAIN,)
    it = replace(it, order=OurOrder("submit", "rejected"))
    assert "for good" in why_not(it, Action.RESUBMIT)


def test_an_order_that_nobody_needs_is_dropped() -> None:
    it = case(Kind.PARKED, attempt=ours(Phase.ENDED), order=OurOrder("cancel", "waiting"))
    assert steps(it, Action.FORGET) == (Step.DROP_ORDER,)
    assert "may still be" in why_not(replace(it, objects=(RUNS,)), Action.FORGET)
    assert "may still be" in why_not(
        replace(it, seen=replace(FRESH, accounting_answered=False)), Action.FORGET
    )
    assert "its attempt is over" in why_not(it, Action.CANCEL)


def test_cancelling_twice_is_once() -> None:
    assert steps(case(Kind.PARKED, attempt=ours(is_cancelled=True)), Action.CANCEL) == ()


@pytest.mark.parametrize(
    ("lost_ms", "end_ms"),
    [(500, 500), (50, 100), (9_000, 2_000), (None, 1_100)],
    ids=["when lost", "never before its start", "never later than now", "its time limit"],
)
def test_where_a_lost_run_ends_for_the_bill(lost_ms: int | None, end_ms: int) -> None:
    assert bill_end_ms(100, lost_ms, 1_000, 2_000) == end_ms


# Properties: over every case that can be put together.

MOMENTS = st.one_of(st.none(), st.integers(T0, T0 + 400))
ATTEMPTS = st.builds(
    OurAttempt,
    phase=st.sampled_from(Phase),
    account=st.sampled_from(["mia", "otto"]),
    is_here=st.booleans(),
    is_stopping=st.booleans(),
    is_cancelled=st.booleans(),
    open_run_ms=MOMENTS,
    lost_ms=MOMENTS,
    away=st.sampled_from([(), ("n1",)]),
)


@st.composite
def objects(draw: st.DrawFn) -> tuple[GangSeen, ...]:
    number = draw(st.integers(0, 3))
    return tuple(
        seen(
            draw(st.sampled_from(GangState)), 7 + at, account=draw(st.sampled_from(["mia", "otto"]))
        )
        for at in range(number)
    )


EVIDENCE = st.builds(
    Evidence,
    kind=st.sampled_from(Kind),
    cluster=st.just("alpine"),
    fence=st.just(FENCE),
    seen=st.builds(Seen, st.booleans(), st.integers(T0, T0 + 400), st.booleans()),
    attempt=st.none() | ATTEMPTS,
    objects=objects(),
    order=st.none()
    | st.builds(
        OurOrder,
        st.sampled_from(["submit", "cancel", "signal"]),
        st.sampled_from(["waiting", "sent", "rejected"]),
    ),
    submit_state=st.sampled_from(["", "waiting", "sent", "done", "rejected", "dropped"]),
    cancel_is_out=st.booleans(),
)
ACTIONS = st.sampled_from(Action)


@given(EVIDENCE, ACTIONS)
def test_a_job_is_started_again_only_when_nothing_of_it_can_be_running(
    it: Evidence, action: Action
) -> None:
    answer = propose(it, action)
    if not isinstance(answer, Proposal) or Step.STOP_THEN_QUEUE not in answer.steps:
        return
    assert it.attempt is not None
    assert it.attempt.phase is Phase.LOST
    assert it.attempt.away == ()
    assert it.living == ()
    assert it.seen.is_fresh
    assert it.seen.accounting_answered
    assert it.attempt.lost_ms is None or it.seen.begun_ms >= it.attempt.lost_ms


@given(EVIDENCE, ACTIONS)
def test_no_action_drops_the_bill_of_what_may_run(it: Evidence, action: Action) -> None:
    answer = propose(it, action)
    if not isinstance(answer, Proposal):
        return
    ends = {Step.END_ATTEMPT, Step.STOP_THEN_QUEUE} & set(answer.steps)
    if ends:
        assert it.attempt is not None
        assert not it.living
        assert (Step.CLOSE_BILL in answer.steps) == (it.attempt.open_run_ms is not None)
        assert answer.steps[-1] in ends  # first the bill, then the end
    else:
        assert Step.CLOSE_BILL not in answer.steps


@given(EVIDENCE, ACTIONS)
def test_adopted_is_only_what_is_there_and_ours(it: Evidence, action: Action) -> None:
    answer = propose(it, action)
    if not isinstance(answer, Proposal) or action is not Action.ADOPT:
        return
    assert it.attempt is not None
    assert it.attempt.is_here
    assert not it.attempt.is_over
    assert it.living
    assert {found.account for found in it.living} == {it.attempt.account}
    assert set(answer.steps) <= {Step.JUDGE, Step.SUBMIT_AGAIN}


@given(EVIDENCE)
def test_cancelling_is_offered_for_all_that_is_ours(it: Evidence) -> None:
    attempt = it.attempt
    is_open = attempt is not None and attempt.is_here and not attempt.is_over
    is_ours = it.kind not in {Kind.FOREIGN_NAME, Kind.SILENT} and (is_open or it.living)
    assert isinstance(propose(it, Action.CANCEL), Proposal) == bool(is_ours)


@given(EVIDENCE, ACTIONS)
def test_nothing_is_sent_about_what_is_not_ours(it: Evidence, action: Action) -> None:
    answer = propose(it, action)
    if it.kind in {Kind.FOREIGN_NAME, Kind.SILENT}:
        assert isinstance(answer, Refusal)
    if isinstance(answer, Proposal) and {Step.SEND_AGAIN, Step.DROP_ORDER} & set(answer.steps):
        assert it.kind in ORDERS


# What becomes of a resubmitted attempt is for reconciling to judge: the two rules together.

READINGS = st.none() | st.builds(Reading, st.integers(T0, T0 + 900), st.booleans())
CANCEL = st.builds(
    Order,
    st.sampled_from(["waiting", "sent", "done"]),
    st.just(True),
    st.none() | st.integers(T0 + 200, T0 + 600),
)


@given(objects(), READINGS, CANCEL, st.booleans())
def test_a_resubmitted_job_waits_until_its_cluster_has_confirmed_the_end(
    there: tuple[GangSeen, ...], reading: Reading | None, cancel: Order, wants_cancel: bool
) -> None:
    stopping = attempt(
        phase=Phase.STOPPING, started_ms=T0, cancel=cancel, stop_cause=Cause.RESUBMITTED.value
    )
    verdict = judge(stopping, there, reading, T0 + 1_000)
    if verdict.phase is not Phase.ENDED:
        return
    assert verdict.cause is not None
    after = after_end(verdict.cause, Wish(cancel=wants_cancel, hold_by="", restarts_left=0))
    if after.state is not JobState.QUEUED:
        return
    assert not wants_cancel
    assert all(found.state.is_final for found in there)
    if not there:
        assert cancel.answered_ms is not None
        assert reading is not None
        assert reading.accounting_answered
        assert reading.begun_ms > cancel.answered_ms

"""What should run against what was last seen: the verdict on one open attempt. Pure.

Level-triggered: the same facts give the same verdict, however often they are judged. Silence
changes nothing: an absence counts only in a reading begun after the order's answer, when the
member's accounting answered too, and of what may end by it only after a minute (accounting lags).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from clusters.core.observation import ACCOUNTING_LAG_MS, GangSeen, GangState, Run
from federation.core.lifecycle import JobState

ENDING_MS = 60_000  # what was cancelled and still ends by then is asked again


class Phase(StrEnum):
    """Where an attempt stands; the values of `federation.models.Attempt.State`."""

    DISPATCHING = "dispatching"
    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    LOST = "lost"


class Cause(StrEnum):
    """Why an attempt ended or is being stopped."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIME_LIMIT = "time_limit"
    NODE_FAILURE = "node_failure"
    PREEMPTED = "preempted_by_cluster"
    CANCELLED_THERE = "cancelled_on_cluster"
    CANCELLED = "cancelled"
    HELD = "held"
    START_TIMEOUT = "start_timeout"
    REJECTED = "rejected"
    VANISHED = "vanished"
    CUT_OFF = "cut_off"
    LOST = "lost"
    RESUBMITTED = "resubmitted"
    RECLAIMED = "reclaimed"
    OUTRANKED = "outranked"


_ENDS = {
    GangState.SUCCEEDED: Cause.SUCCEEDED,
    GangState.FAILED: Cause.FAILED,
    GangState.TIMED_OUT: Cause.TIME_LIMIT,
    GangState.NODE_FAILED: Cause.NODE_FAILURE,
    GangState.PREEMPTED: Cause.PREEMPTED,
    GangState.CANCELLED: Cause.CANCELLED_THERE,
}
# What another try can mend; it is the fault of the machine, not of the job.
_RESTARTS = {Cause.NODE_FAILURE, Cause.START_TIMEOUT, Cause.REJECTED}
# We told them to go: an owner took back what is its own, or a more urgent job of its tenant came.
EVICTED = frozenset({Cause.RECLAIMED, Cause.OUTRANKED})
_REQUEUES = {Cause.PREEMPTED, Cause.VANISHED, Cause.RESUBMITTED, Cause.CUT_OFF, *EVICTED}


@dataclass(frozen=True, slots=True)
class Order:
    """A command as far as it matters here. `state`: waiting, sent, done, rejected, dropped.

    `backend_id` is the number that the answer to a submit carried.
    """

    state: str
    was_sent: bool
    answered_ms: int | None
    words: str = ""
    backend_id: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it may still be carried out."""
        return self.state in {"waiting", "sent"}


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt that is not over. `stop_cause` is why we stop it; empty = we do not."""

    attempt_id: UUID
    fence: str
    phase: Phase
    submit: Order
    cancel: Order | None
    accepted_ms: int | None
    started_ms: int | None
    start_timeout_ms: int
    stop_cause: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest observation: when it was begun (our clock), whether accounting answered."""

    begun_ms: int
    accounting_answered: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an attempt is now. `seen` is the object that counts; `runs` every stay on nodes.

    Not `is_whole`: runs before those are still to be told, so what was told of them stands.
    `abort` asks for a cancel with that cause; `converge` for the submit order once more, which
    cancels duplicates there and releases what is held; `cancel_again` for the cancel once more.
    """

    phase: Phase
    accepted_ms: int | None
    seen: GangSeen | None
    runs: tuple[Run, ...] = ()
    cause: Cause | None = None
    abort: Cause | None = None
    converge: bool = False
    cancel_again: bool = False
    words: str = ""
    is_whole: bool = True

    @property
    def tells_runs(self) -> bool:
        """Whether `runs` take the place of what was told: they are all, and say anything or an end.

        A living attempt without a run says nothing of those that it had: its accounting is behind.
        """
        return self.is_whole and (bool(self.runs) or self.phase is Phase.ENDED)

    @property
    def lasting_ms(self) -> int | None:
        """The start of the run that lasts, where that is beyond doubt."""
        if self.seen is None or not self.seen.state.holds_nodes or not self.tells_runs:
            return None
        return next((run.start_ms for run in self.runs if run.end_ms is None), None)


def judge(
    attempt: OpenAttempt, objects: Sequence[GangSeen], reading: Reading | None, now_ms: int
) -> Verdict:
    """The verdict on one attempt, from the objects seen under its fence (any order)."""
    objects = _telling(objects, attempt.submit.backend_id)
    seen = _the_one(objects)
    accepted_ms = attempt.accepted_ms or _accepted(attempt, seen, now_ms)
    if attempt.submit.state == "rejected" and seen is None and attempt.accepted_ms is None:
        words = attempt.submit.words
        return Verdict(Phase.ENDED, accepted_ms, None, cause=Cause.REJECTED, words=words)
    if seen is None:
        return _absent(attempt, reading, accepted_ms)
    runs = _runs(objects)
    if not all(found.is_whole for found in objects):
        return _unwhole(attempt, seen, runs, accepted_ms)
    if seen.state.is_final:
        cause = _end(seen.state, attempt.stop_cause)
        return Verdict(Phase.ENDED, accepted_ms, seen, runs, cause=cause, words=seen.reason)
    if seen.state is GangState.UNKNOWN:
        return _left_open(attempt, seen, runs, reading, accepted_ms)
    doubled = sum(not found.state.is_final for found in objects) > 1
    unsettled = doubled or _is_held_again(attempt, seen, reading)
    verdict = _alive(attempt, seen, runs, accepted_ms, now_ms, unsettled=unsettled)
    outlives = _outlives_cancel(attempt, seen, reading)
    return replace(verdict, cancel_again=True) if outlives else verdict


def _end(state: GangState, stop: str) -> Cause:
    """Why it ended: as we stopped it, if we did. Where a node has died, the other ranks fail, too."""
    cause = _ENDS[state]
    follows = cause is Cause.FAILED and stop == Cause.NODE_FAILURE
    return Cause(stop) if stop and (follows or cause is Cause.CANCELLED_THERE) else cause


def _outlives_cancel(attempt: OpenAttempt, seen: GangSeen, reading: Reading | None) -> bool:
    """Whether it lives after its cancel was answered: a submit was late, or an older state is back.

    What still ends after a minute is asked again, too: a node that died may have to be gone over.
    """
    cancel = attempt.cancel
    if cancel is None or cancel.state != "done" or reading is None:
        return False
    patience_ms = ENDING_MS if seen.state is GangState.ENDING else 0
    read_later = reading.begun_ms > (cancel.answered_ms or 0) + patience_ms
    return read_later and bool(attempt.stop_cause)


def _is_held_again(attempt: OpenAttempt, seen: GangSeen, reading: Reading | None) -> bool:
    """Whether what we had released is held: a controller came back with an older state."""
    answered_ms = attempt.submit.answered_ms
    was_read_later = reading is None or answered_ms is None or reading.begun_ms > answered_ms
    return seen.state is GangState.HELD and was_read_later


def _telling(objects: Sequence[GangSeen], accepted: str) -> list[GangSeen]:
    """Without duplicates of the one that was `accepted` ("" = not told) that were over unrun.

    While that one is not seen, how they ended says nothing of it.
    """
    return [
        found
        for found in objects
        if not accepted or found.backend_id == accepted or found.runs or not found.state.is_final
    ]


def _number(found: GangSeen) -> tuple[int, str]:
    text = found.backend_id
    return (int(text) if text.isdigit() else 0, text)


def _the_one(objects: Sequence[GangSeen]) -> GangSeen | None:
    """Of several objects with one fence: the one that holds or held nodes, else the lowest."""

    def rank(found: GangSeen) -> tuple[int, tuple[int, str]]:
        if found.state.holds_nodes:
            return 0, _number(found)
        if found.runs:
            return 1, _number(found)
        lives = not found.state.is_final and found.state is not GangState.UNKNOWN
        return (2 if lives else 3), _number(found)

    return min(objects, key=rank, default=None)


def _runs(objects: Sequence[GangSeen]) -> tuple[Run, ...]:
    """Every stay on nodes of every object of the fence, in order of time: all of it is billed."""
    return tuple(sorted((run for found in objects for run in found.runs), key=lambda r: r.start_ms))


def _accepted(attempt: OpenAttempt, seen: GangSeen | None, now_ms: int) -> int | None:
    if attempt.submit.state == "done":
        return attempt.submit.answered_ms
    if seen is not None and seen.state is not GangState.HELD:
        return now_ms
    return None


def _absent(attempt: OpenAttempt, reading: Reading | None, accepted_ms: int | None) -> Verdict:
    """Nothing under the fence: it stays as it is until its absence proves something."""
    if attempt.submit.state == "dropped" and not attempt.submit.was_sent:
        return Verdict(Phase.ENDED, accepted_ms, None, cause=_stopped(attempt))
    proof = _proof(attempt, reading, accepted_ms)
    if proof is Cause.LOST:
        return Verdict(Phase.LOST, accepted_ms, None, cause=proof)
    if proof is not None:
        return Verdict(Phase.ENDED, accepted_ms, None, cause=proof)
    phase = _waiting_phase(attempt, accepted_ms)
    if attempt.phase is Phase.LOST or attempt.stop_cause:
        phase = attempt.phase if attempt.phase is Phase.LOST else Phase.STOPPING
    return Verdict(phase, accepted_ms, None)


def _unwhole(
    attempt: OpenAttempt, seen: GangSeen, runs: tuple[Run, ...], accepted_ms: int | None
) -> Verdict:
    """A requeued job whose earlier runs accounting has not told yet.

    It does not end before, for nobody would ask for them again; nor is it too late to start, for
    that counts from the end of the last run.
    """
    waits = seen.state in {GangState.PENDING, GangState.HELD}
    phase = Phase.PENDING if waits else Phase.RUNNING
    if attempt.stop_cause:
        phase = Phase.STOPPING
    return Verdict(phase, accepted_ms, seen, runs, words=seen.reason, is_whole=False)


def _left_open(
    attempt: OpenAttempt,
    seen: GangSeen,
    runs: tuple[Run, ...],
    reading: Reading | None,
    accepted_ms: int | None,
) -> Verdict:
    """A record that accounting left open of what the controller does not have: as absent as without.

    It neither waits nor will ever end. What it says to have run did run: it is not started again.
    """
    started_ms = attempt.started_ms or min((run.start_ms for run in runs), default=None)
    verdict = _absent(replace(attempt, started_ms=started_ms), reading, accepted_ms)
    told = () if verdict.phase is Phase.ENDED else runs
    return replace(verdict, seen=seen, runs=told, words=seen.reason)


def _proof(attempt: OpenAttempt, reading: Reading | None, accepted_ms: int | None) -> Cause | None:
    """What an absence in this reading proves; None = nothing."""
    if reading is None or not reading.accounting_answered:
        return None
    if attempt.cancel is not None:
        answered_ms = attempt.cancel.answered_ms
        gone = answered_ms is not None and reading.begun_ms > answered_ms + ACCOUNTING_LAG_MS
        return _stopped(attempt) if gone else None
    if accepted_ms is None or reading.begun_ms <= max(accepted_ms, attempt.submit.answered_ms or 0):
        return None
    if attempt.submit.is_open:  # given once more, to bring duplicates together
        return None
    if attempt.started_ms is not None:
        return Cause.LOST
    return Cause.VANISHED if reading.begun_ms > accepted_ms + ACCOUNTING_LAG_MS else None


def _stopped(attempt: OpenAttempt) -> Cause:
    return Cause(attempt.stop_cause) if attempt.stop_cause else Cause.CANCELLED


def _waiting_phase(attempt: OpenAttempt, accepted_ms: int | None) -> Phase:
    if attempt.started_ms is not None:
        return Phase.RUNNING
    return Phase.DISPATCHING if accepted_ms is None else Phase.PENDING


def _alive(
    attempt: OpenAttempt,
    seen: GangSeen,
    runs: tuple[Run, ...],
    accepted_ms: int | None,
    now_ms: int,
    *,
    unsettled: bool,
) -> Verdict:
    running = seen.state in {GangState.RUNNING, GangState.ENDING}
    phase = Phase.RUNNING if running else Phase.PENDING
    if accepted_ms is None:
        phase = Phase.DISPATCHING
    if attempt.stop_cause:
        phase = Phase.STOPPING
    due_ms = max(accepted_ms or 0, _last_end(runs)) + attempt.start_timeout_ms
    late = phase is Phase.PENDING and accepted_ms is not None and now_ms > due_ms
    lost = _ENDS[seen.broken] if seen.broken is not None and phase is Phase.RUNNING else None
    return Verdict(
        phase,
        accepted_ms,
        seen,
        runs,
        abort=Cause.START_TIMEOUT if late else lost,
        converge=unsettled and not attempt.stop_cause and attempt.submit.state == "done",
        words=seen.reason,
    )


def _last_end(runs: tuple[Run, ...]) -> int:
    """When the last stay ended (0 = none): a requeue there starts the start timer anew."""
    return max((run.end_ms for run in runs if run.end_ms is not None), default=0)


def forgotten_runs(
    told: Sequence[tuple[int, int | None, int]], verdict: Verdict
) -> tuple[Run, ...]:
    """Runs that were told as lasting and that the cluster no longer knows of. `told`: start, end, GPUs.

    Only where it says something else instead: another run, or that all is over. Bills go by its
    accounting, so they end where they began; should one turn up again, its real end counts.
    """
    if not verdict.tells_runs:
        return ()
    known = {run.start_ms for run in verdict.runs}
    return tuple(
        Run(start_ms, start_ms, gpus, (), GangState.UNKNOWN)
        for start_ms, end_ms, gpus in told
        if end_ms is None and start_ms not in known
    )


@dataclass(frozen=True, slots=True)
class Wish:
    """What people asked of the job meanwhile, and how often it may still be restarted."""

    cancel: bool
    hold_by: str
    restarts_left: int


@dataclass(frozen=True, slots=True)
class After:
    """What becomes of a job whose attempt ended. `restart` counts against `max_restarts`."""

    state: JobState
    held_by: str = ""
    restart: bool = False


def after_end(cause: Cause, wish: Wish) -> After:
    """The job's next state. What finished by itself finished, whatever was asked meanwhile."""
    if cause is Cause.SUCCEEDED:
        return After(JobState.SUCCEEDED)
    if cause in {Cause.FAILED, Cause.TIME_LIMIT}:
        return After(JobState.FAILED)
    if wish.cancel or cause in {Cause.CANCELLED, Cause.CANCELLED_THERE}:
        return After(JobState.CANCELLED)
    if wish.hold_by:
        return After(JobState.HELD, held_by=wish.hold_by)
    if cause in _REQUEUES or cause is Cause.HELD:
        return After(JobState.QUEUED)
    if cause in _RESTARTS and wish.restarts_left > 0:
        return After(JobState.QUEUED, restart=True)
    return After(JobState.FAILED)

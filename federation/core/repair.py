"""What a person may do about a case of the reconciler, and why it is safe. Pure.

A case is something that reconciling leaves to people, or that has not settled yet. No action may
lead to two runs of a job: what is started again is first ended for certain, and an order that is
sent again bears the same fence. No action may drop the bill of what runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from clusters.core.observation import GangSeen
from federation.core.reconciliation import Phase


class Kind(StrEnum):
    """What a case is about."""

    LOST = "lost"
    UNKNOWN = "unknown"
    ORPHAN = "orphan"
    DUPLICATE = "duplicate"
    FOREIGN_NAME = "foreign_name"
    AMBIGUOUS = "ambiguous"
    PARKED = "parked"
    REJECTED = "rejected"
    SILENT = "silent"


class Action(StrEnum):
    """What may be done about one."""

    ADOPT = "adopt"
    FORGET = "forget"
    RESUBMIT = "resubmit"
    CANCEL = "cancel"


class Step(StrEnum):
    """One change of our own rows; nothing here calls a cluster."""

    JUDGE = "judge"
    SUBMIT_AGAIN = "submit_again"
    SEND_AGAIN = "send_again"
    DROP_ORDER = "drop_order"
    CLOSE_BILL = "close_bill"
    END_ATTEMPT = "end_attempt"
    STOP_THEN_QUEUE = "stop_then_queue"
    CANCEL_JOB = "cancel_job"
    CANCEL_OBJECT = "cancel_object"


ORDERS = frozenset({Kind.AMBIGUOUS, Kind.PARKED, Kind.REJECTED})


@dataclass(frozen=True, slots=True)
class OurAttempt:
    """What our rows say of the attempt under the fence.

    `lost_ms` is when it was found lost (our clock), `open_run_ms` when the run that is billed and
    has no end began (the cluster's clock). `away` are those of its nodes that do not answer or are
    no longer listed. `is_here` is whether it is bound to the cluster of the case.
    """

    phase: Phase
    account: str
    is_here: bool = True
    is_stopping: bool = False
    is_cancelled: bool = False
    open_run_ms: int | None = None
    lost_ms: int | None = None
    away: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is expected of it."""
        return self.phase is Phase.ENDED


@dataclass(frozen=True, slots=True)
class OurOrder:
    """The order a case is about. `kind`: submit, cancel, signal; `state` as in the outbox."""

    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest reading of the cluster. `is_fresh`: it answers, and the reading is a late one."""

    is_fresh: bool
    begun_ms: int
    accounting_answered: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one case. `objects` bear the fence *and* the mark of this Muster.

    `submit_state` is where the attempt's order to submit stands; "" when there is none.
    `cancel_is_out` is whether an order to cancel under the fence waits for its answer.
    """

    kind: Kind
    cluster: str
    fence: str
    seen: Seen
    attempt: OurAttempt | None = None
    objects: tuple[GangSeen, ...] = ()
    order: OurOrder | None = None
    submit_state: str = ""
    cancel_is_out: bool = False

    @property
    def living(self) -> tuple[GangSeen, ...]:
        """Those objects that are not over."""
        return tuple(found for found in self.objects if not found.state.is_final)


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action that is safe: its changes in order, what they do, why nothing can be hurt.

    Without changes it is already under way.
    """

    steps: tuple[Step, ...]
    does: str
    safe: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action that is not offered, and what to do instead."""

    why: str


Answer = Proposal | Refusal


def propose(evidence: Evidence, action: Action) -> Answer:
    """What the action would do in this case, or why it is not offered."""
    return _RULES[action](evidence)


def proposals(evidence: Evidence) -> Mapping[Action, Answer]:
    """The answer to each action."""
    return {action: propose(evidence, action) for action in Action}


def _adopt(it: Evidence) -> Answer:
    if it.kind in _NOTHING_OF_OURS:
        return _NOTHING_OF_OURS[it.kind]
    if it.kind in ORDERS:
        return Refusal("The case is about an order; there is nothing to adopt.")
    if not it.living or it.kind is Kind.UNKNOWN:
        return Refusal(
            f"The controller of {it.cluster} has no such object. If it turns up again, it is"
            " followed again by itself."
        )
    if it.attempt is None:
        return Refusal(
            "Our records have no such attempt. After a restore, let the whole cluster be adopted;"
            " else cancel it."
        )
    if it.attempt.is_over or not it.attempt.is_here:
        return Refusal("Its attempt is over and billed, and the job may run elsewhere. Cancel it.")
    strangers = {found.account for found in it.living} - {it.attempt.account}
    if strangers:
        return Refusal(
            f"It runs as {', '.join(sorted(strangers))}, the attempt as {it.attempt.account}."
        )
    return _converge(it) if it.kind is Kind.DUPLICATE else _judge(it)


def _judge(it: Evidence) -> Answer:
    return Proposal(
        (Step.JUDGE,),
        "The attempt follows what was seen again.",
        "It bears our fence, our mark and the attempt's account; no order is sent.",
    )


def _converge(it: Evidence) -> Answer:
    if it.attempt is not None and it.attempt.is_stopping:
        return Refusal("The attempt is being stopped; that ends every object of its fence.")
    keeps = "The one that runs, or the lowest number, is kept; the others are cancelled."
    safe = "The order bears the same fence: it looks first, releases one and cancels the rest."
    if it.submit_state in {"waiting", "sent"}:
        return Proposal((), f"Nothing: the order is out already. {keeps}", safe)
    if it.submit_state != "done":
        return Refusal("Its order to submit is over; cancel the attempt.")
    return Proposal((Step.SUBMIT_AGAIN,), f"Sends its order to submit once more. {keeps}", safe)


def _forget(it: Evidence) -> Answer:
    if it.kind in _NOTHING_OF_OURS:
        return _NOTHING_OF_OURS[it.kind]
    if it.kind in ORDERS:
        return _forget_order(it)
    if it.kind is not Kind.LOST or it.attempt is None:
        return Refusal("It is there, and what is there is billed. Cancel it.")
    doubt = _doubt(it)
    if doubt:
        return Refusal(doubt)
    return Proposal(
        (*_closing(it.attempt), Step.END_ATTEMPT),
        f"Ends the attempt as lost and the job as failed. Nothing is sent to {it.cluster}. Its"
        " usage up to the moment it was lost stays billed.",
        "Nothing of it is there, and nothing is started. Should it turn up, it is cancelled.",
    )


def _forget_order(it: Evidence) -> Answer:
    if it.attempt is not None and not it.attempt.is_over:
        return Refusal("Its attempt still needs the answer. Send the order again.")
    if it.living or not _proves(it.seen):
        return Refusal(f"What it was meant for may still be on {it.cluster}.")
    return Proposal(
        (Step.DROP_ORDER,),
        "Takes the order out of the outbox.",
        "Its attempt is over, and the newest reading shows nothing under the fence.",
    )


def _resubmit(it: Evidence) -> Answer:
    if it.kind in _NOTHING_OF_OURS:
        return _NOTHING_OF_OURS[it.kind]
    if it.kind in ORDERS:
        return _send_again(it)
    if it.kind is not Kind.LOST or it.attempt is None:
        return Refusal("It is not known to have ended. Cancel it first.")
    doubt = _doubt(it)
    if doubt:
        return Refusal(doubt)
    if it.attempt.away:
        return Refusal(
            f"These of its nodes do not answer and may still run it: {_named(it.attempt.away)}."
            " Make sure they are off, or bring them back; or forget the attempt."
        )
    return Proposal(
        (*_closing(it.attempt), Step.STOP_THEN_QUEUE),
        f"Orders {it.cluster} to cancel the attempt. When that is answered and a later reading"
        " shows nothing of it, the job waits in the queue again. Its usage up to the moment it was"
        " lost stays billed.",
        "Cluster and accounting know nothing of it, all its nodes answer, and the job is queued"
        " only after the cluster confirmed the end.",
    )


def _send_again(it: Evidence) -> Answer:
    safe = "The order bears the same fence: before it acts it looks for what arrived earlier."
    if it.kind is not Kind.REJECTED:
        return Proposal((Step.SEND_AGAIN,), f"Makes the order due at {it.cluster} now.", safe)
    if it.order is not None and it.order.kind == "submit":
        return Refusal("Refused for good. The attempt ends with the cluster's words by itself.")
    return Proposal((Step.SEND_AGAIN,), f"Sends the order to {it.cluster} once more.", safe)


def _cancel(it: Evidence) -> Answer:
    if it.kind in _NOTHING_OF_OURS:
        return _NOTHING_OF_OURS[it.kind]
    attempt = it.attempt
    if attempt is None or attempt.is_over or not attempt.is_here:
        if not it.living:
            return Refusal("Nothing of it is there, and its attempt is over.")
        return Proposal(
            () if it.cancel_is_out else (Step.CANCEL_OBJECT,),
            f"Orders {it.cluster} to cancel everything under the fence.",
            "It bears our mark, and no open attempt of ours belongs to it.",
        )
    if attempt.is_cancelled:
        return Proposal((), "Nothing: the job is being cancelled already.", _CANCEL_IS_SAFE)
    return Proposal(
        (Step.CANCEL_JOB,),
        f"Cancels the job: {it.cluster} is ordered to end everything under the fence. What it"
        " computed since its last checkpoint is lost.",
        _CANCEL_IS_SAFE,
    )


_CANCEL_IS_SAFE = "Cancelling what is over or absent changes nothing; nothing is started."


def _proves(seen: Seen) -> bool:
    """Whether an absence in the reading says anything."""
    return seen.is_fresh and seen.accounting_answered


def _doubt(it: Evidence) -> str:
    """Why a lost attempt may still be running; "" when nothing speaks for it."""
    if it.attempt is None or it.attempt.phase is not Phase.LOST:
        return "The attempt is not lost."
    if not it.seen.is_fresh:
        return f"{it.cluster} does not answer now; wait until it was read again."
    if not it.seen.accounting_answered:
        return f"The accounting of {it.cluster} does not answer; an absence proves nothing."
    if it.attempt.lost_ms is not None and it.seen.begun_ms < it.attempt.lost_ms:
        return f"{it.cluster} was not read since; wait for the next reading."
    if it.living:
        return "It is there: adopt it, or cancel it."
    return ""


def _closing(attempt: OurAttempt) -> tuple[Step, ...]:
    return () if attempt.open_run_ms is None else (Step.CLOSE_BILL,)


def bill_end_ms(open_run_ms: int, lost_ms: int | None, time_limit_ms: int, now_ms: int) -> int:
    """When a lost run ends for the bill: when it was lost, and never before it began.

    All on the cluster's clock. Where that moment is not known any more, the time limit is the longest that it can have run.
    """
    end_ms = open_run_ms + time_limit_ms if lost_ms is None else lost_ms
    return max(open_run_ms, min(end_ms, now_ms))


def _named(names: tuple[str, ...], most: int = 8) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


_NOTHING_OF_OURS: Mapping[Kind, Refusal] = {
    Kind.FOREIGN_NAME: Refusal(
        "It has the shape of our names and not our mark: it belongs to others and is not touched."
    ),
    Kind.SILENT: Refusal(
        "Silence changes nothing: its jobs keep their states. Mend the connection, or cut the"
        " cluster off; each job can be cancelled by itself."
    ),
}
_RULES: Mapping[Action, Callable[[Evidence], Answer]] = {
    Action.ADOPT: _adopt,
    Action.FORGET: _forget,
    Action.RESUBMIT: _resubmit,
    Action.CANCEL: _cancel,
}

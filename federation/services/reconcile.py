"""Brings jobs and attempts of one cluster in step with what was seen there and answered."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from uuid import UUID

from django.db import connection, transaction

from accounting.core.runs import Told
from accounting.services.usage import confirm_runs, record_runs
from clusters.core.domains import shared_tier
from clusters.models import Command, Node
from clusters.services.orders import order_cancel
from federation.core.lifecycle import JobState
from federation.core.reconciliation import (
    After,
    Cause,
    Order,
    Phase,
    Verdict,
    Wish,
    after_end,
    forgotten_runs,
    judge,
)
from federation.models import Attempt, Job
from federation.selectors.attempts import (
    AnAttempt,
    AttemptFacts,
    LastReading,
    attempts_to_change,
    last_reading,
    node_facts,
    open_attempts,
    with_orders,
)
from federation.services.billing import run_facts
from federation.services.checkpoint import record_notes
from federation.services.rebuilt import note_rebuilt
from federation.services.strays import cancel_orphans, living_orphans
from kit import collector
from kit.bulk import among, update_rows
from kit.intervals import from_ms, to_ms
from quotas.core.mirror import HELD_BY_LIMIT
from tenancy.services.records import Change, ring, write_events

logger = logging.getLogger(__name__)
ATTEMPT_FIELDS = (
    "state",
    "backend_id",
    "backend_state",
    "backend_reason",
    "nodes_seen",
    "tier_seen",
    "accepted_at",
    "started_at",
    "ended_at",
    "end_cause",
    "exit_code",
    "runs",
)
JOB_FIELDS = (
    "state",
    "held_by",
    "hold_asked_by",
    "class_now",
    "started_at",
    "ended_at",
    "restarts",
    "avoid_nodes",
    "outcome",
    "version",
)
_STATES = {
    Phase.DISPATCHING: JobState.DISPATCHING,
    Phase.PENDING: JobState.PENDING,
    Phase.RUNNING: JobState.RUNNING,
    Phase.STOPPING: JobState.STOPPING,
    Phase.LOST: JobState.UNKNOWN,
}
_ENTRY_CAUSE = {
    Phase.DISPATCHING: "dispatched",
    Phase.PENDING: "accepted",
    Phase.RUNNING: "started",
    Phase.LOST: "lost",
}


@dataclass(slots=True)
class Step:
    """One attempt on its way from its row to its verdict."""

    attempt: Attempt
    verdict: Verdict
    submit: Order

    @property
    def job(self) -> Job:
        """The attempt's job."""
        return self.attempt.job


@collector.paused()
def reconcile_cluster(*, cluster_id: UUID, now: datetime) -> int:
    """Judges every open attempt of a cluster and writes what changed; how many changed.

    Reads first without locks; only what differs is locked, read again, judged again and written,
    in one transaction a call. Calls for one cluster follow one another.
    """
    last = last_reading(cluster_id)
    seen = chain.from_iterable(last.objects.values())
    record_notes(cluster_id=cluster_id, gangs=seen, now=now)
    judged = list(_judged(open_attempts(cluster_id), last, now))
    differing = [attempt.id for attempt, verdict, _ in judged if _differs(attempt, verdict)]
    orphans = living_orphans(cluster_id, last)
    steps = _change(cluster_id, differing, orphans, last, now) if differing or orphans else []
    if last.reading is not None:
        lasting = {
            attempt.id: verdict.lasting_ms
            for attempt, verdict, _ in judged
            if verdict.lasting_ms is not None
        }
        confirm_runs(cluster_id=cluster_id, lasting=lasting, read_ms=last.reading.begun_ms)
    if any(step.verdict.phase is Phase.LOST for step in steps):
        note_rebuilt(cluster_id=cluster_id, now=now)
    return len(steps)


def _change(
    cluster_id: UUID,
    differing: Sequence[UUID],
    orphans: Sequence[tuple[str, str]],
    last: LastReading,
    now: datetime,
) -> list[Step]:
    """Judges the attempts again under locks and writes what differs; each with its verdict."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [2, cluster_id.int % 2**31])
        job_ids = Attempt.objects.filter(id__in=among(differing)).values("job_id")
        list(Job.objects.filter(id__in=job_ids).order_by("id").select_for_update().values("id"))
        attempts = attempts_to_change(cluster_id, differing)
        steps = [Step(*one) for one in _judged(attempts, last, now) if _differs(*one[:2])]
        _apply(cluster_id, steps, now)
        cancel_orphans(cluster_id, orphans, now)
    return steps


def _judged(
    attempts: Sequence[AnAttempt], last: LastReading, now: datetime
) -> Iterator[tuple[AnAttempt, Verdict, Order]]:
    """Attempts, each with the verdict on it and with the order to submit."""
    now_ms = to_ms(now)
    for attempt, value in with_orders(attempts):
        verdict = judge(value, last.objects.get(attempt.fence, ()), last.reading, now_ms)
        yield attempt, verdict, value.submit


def _told_runs(verdict: Verdict) -> list[list[int | None]]:
    return [[run.start_ms, run.end_ms, run.gpus] for run in verdict.runs]


def _differs(attempt: AttemptFacts | Attempt, verdict: Verdict) -> bool:
    seen = verdict.seen
    return (
        attempt.state != verdict.phase
        or attempt.job.state != _STATES.get(verdict.phase)
        or verdict.abort is not None
        or verdict.converge
        or verdict.cancel_again
        or (verdict.accepted_ms is not None and attempt.accepted_at is None)
        or (
            seen is not None
            and (
                attempt.backend_state != seen.state
                or attempt.backend_reason != seen.reason
                or attempt.backend_id != seen.backend_id
                or (verdict.tells_runs and attempt.runs != _told_runs(verdict))
            )
        )
    )


def _apply(cluster_id: UUID, steps: Sequence[Step], now: datetime) -> None:
    if not steps:
        return
    _tell_accounting(steps, now)
    names = {name for step in steps for name in _nodes_of(step)}
    nodes = node_facts(cluster_id, names)
    changes: list[Change] = []
    for step in steps:
        _update_attempt(step, nodes, now)
        if step.verdict.abort is not None:
            _abort(step, nodes, now)
        changes.extend(_update_job(step, nodes, now))
    update_rows(Attempt, [vars(step.attempt) for step in steps], ATTEMPT_FIELDS)
    update_rows(Job, [vars(step.job) for step in steps], JOB_FIELDS)
    converging = [step.attempt.fence for step in steps if step.verdict.converge]
    if converging:
        _converge(converging, now)
    outlived = [f"cancel:{step.attempt.id}" for step in steps if step.verdict.cancel_again]
    if outlived:
        Command.objects.filter(key__in=outlived, state=Command.State.DONE).update(
            state=Command.State.WAITING, not_before=now
        )
    write_events(changes=changes, now=now)
    ring()


def _nodes_of(step: Step) -> Sequence[str]:
    seen = step.verdict.seen
    return seen.nodes if seen is not None and seen.nodes else step.attempt.nodes


def _tell_accounting(steps: Sequence[Step], now: datetime) -> None:
    """Tells every run; what accounting refuses is not marked as told, so it is told again.

    Where earlier runs are missing nothing is told: the next would overlap what still counts as open;
    what was told before stands, to be ended by what is told later.
    """
    facts = [
        fact
        for step in steps
        if step.verdict.tells_runs
        for fact in run_facts(
            step.job,
            step.attempt,
            (
                (run.start_ms, run.end_ms, run.gpus)
                for run in (*forgotten_runs(step.attempt.runs, step.verdict), *step.verdict.runs)
            ),
        )
    ]
    if not facts:
        return
    result = record_runs(facts=facts, now=now)
    refused = {
        fact.attempt_id
        for fact, told in zip(facts, result.told, strict=True)
        if told == Told.REFUSED
    }
    for step in steps:
        if step.attempt.id in refused:
            logger.error("usage of %s refused: %s", step.attempt.fence, result.why)
        elif step.verdict.tells_runs:
            step.attempt.runs = _told_runs(step.verdict)


def _update_attempt(step: Step, nodes: dict[str, Node], now: datetime) -> None:
    attempt, verdict, seen = step.attempt, step.verdict, step.verdict.seen
    if verdict.accepted_ms is not None and attempt.accepted_at is None:
        attempt.accepted_at = from_ms(verdict.accepted_ms)
    attempt.backend_id = attempt.backend_id or step.submit.backend_id
    if seen is not None:
        attempt.backend_id = seen.backend_id
        attempt.backend_state = seen.state
        attempt.backend_reason = seen.reason
        attempt.exit_code = seen.exit_code
        if verdict.runs and seen.nodes:
            attempt.nodes_seen = list(seen.nodes)
            attempt.tier_seen = _tier_seen(seen.nodes, nodes)
    if verdict.runs and attempt.started_at is None:
        attempt.started_at = from_ms(verdict.runs[0].start_ms)
    attempt.state = verdict.phase
    if verdict.phase is Phase.ENDED:
        assert verdict.cause is not None  # noqa: S101 - every end has a cause
        attempt.end_cause = verdict.cause
        ends = [run.end_ms for run in verdict.runs if run.end_ms is not None]
        attempt.ended_at = from_ms(max(ends)) if ends else now


def _tier_seen(names: Sequence[str], nodes: dict[str, Node]) -> str:
    """The lowest tier that the nodes it really got share; "" when one of them is not known."""
    if any(name not in nodes for name in names):
        return ""
    return shared_tier([[(tier, name) for tier, name in nodes[node].path] for node in names])


def _unfit(step: Step, nodes: dict[str, Node]) -> list[str]:
    """Which of the gang's nodes kept it from starting or ended it: not up, or taken by others."""
    return [
        name
        for name in step.attempt.nodes
        if name not in nodes or nodes[name].state != "up" or nodes[name].foreign_gpus
    ]


def _abort(step: Step, nodes: dict[str, Node], now: datetime) -> None:
    """Stops an attempt whole: the reason is kept, and the order to cancel is written."""
    assert step.verdict.abort is not None  # noqa: S101 - asked by the caller
    step.attempt.end_cause = step.verdict.abort
    step.attempt.state = Phase.STOPPING
    step.job.avoid_nodes = [f"{step.attempt.cluster.name}/{node}" for node in _unfit(step, nodes)]
    order_cancel(
        attempt_id=step.attempt.id,
        cluster_id=step.attempt.cluster_id,
        fence=step.attempt.fence,
        account=step.attempt.account,
        now=now,
    )


def _update_job(step: Step, nodes: dict[str, Node], now: datetime) -> list[Change]:
    """Moves the job with its attempt; the event of a change of state, if there is one."""
    job, attempt, verdict = step.job, step.attempt, step.verdict
    before = job.state
    if attempt.started_at is not None and job.started_at is None:
        job.started_at = attempt.started_at
    if verdict.phase is Phase.ENDED:
        assert verdict.cause is not None  # noqa: S101 - every end has a cause
        _end_attempt_of(step, verdict.cause, nodes, now)
        cause: str = verdict.cause
    else:
        job.state = _STATES[Phase(attempt.state)]
        cause = attempt.end_cause or _ENTRY_CAUSE.get(Phase(attempt.state), "stopping")
        if before == JobState.RUNNING and job.state == JobState.PENDING:
            cause = "requeued_on_cluster"
    if job.state == before and verdict.phase is not Phase.ENDED:
        return []
    job.version += 1
    data = {
        "attempt": attempt.number,
        "cluster": attempt.cluster.name,
        "nodes": list(_nodes_of(step)),
        "backend_id": attempt.backend_id,
        "words": verdict.words,
    }
    if verdict.abort is not None:
        data["avoided"] = job.avoid_nodes
    return [Change(f"job.{job.state}", str(job.uuid), job.tenant_id, cause, data)]


def _end_attempt_of(step: Step, cause: Cause, nodes: dict[str, Node], now: datetime) -> None:
    job = step.job
    wish = Wish(
        cancel=job.cancel_asked_at is not None,
        hold_by=job.hold_asked_by,
        restarts_left=job.max_restarts - job.restarts,
    )
    after: After = after_end(cause, wish)
    job.state, job.held_by = after.state, after.held_by
    job.hold_asked_by = ""
    job.restarts += after.restart
    if after.state.is_final:
        job.ended_at = step.attempt.ended_at
        job.outcome = _outcome(step, cause)
        return
    job.class_now = ""
    job.outcome = ""
    if cause is Cause.NODE_FAILURE:
        job.avoid_nodes = [f"{step.attempt.cluster.name}/{node}" for node in _unfit(step, nodes)]
    if cause is Cause.REJECTED:
        job.avoid_nodes = [f"{step.attempt.cluster.name}/*"]


_OUTCOMES: dict[Cause, str] = {
    Cause.SUCCEEDED: "Every rank ended with 0.",
    Cause.FAILED: "Ended with exit code {exit_code}.",
    Cause.TIME_LIMIT: "Ran into its time limit.",
    Cause.REJECTED: "{cluster} refused it: {words}",
    Cause.NODE_FAILURE: "A node failed, and no restart was left.",
    Cause.START_TIMEOUT: "Never started whole on {cluster}, and no restart was left.",
    Cause.CANCELLED_THERE: "Cancelled on {cluster} by somebody.",
    Cause.CANCELLED: "Cancelled.",
}


def _outcome(step: Step, cause: Cause) -> str:
    """One sentence on how the job ended."""
    words = step.verdict.words
    told = _OUTCOMES.get(cause, "Ended: {cause}.").format(
        cause=cause,
        cluster=step.attempt.cluster.name,
        exit_code=step.attempt.exit_code,
        words=words,
    )
    if cause is Cause.START_TIMEOUT and words in HELD_BY_LIMIT:
        told += f" A limit of its own accounts held it back there ({words})."
    return told


def _converge(fences: Sequence[str], now: datetime) -> None:
    """Orders the submit once more: it finds the one that counts and cancels its duplicates."""
    Command.objects.filter(
        fence__in=fences, kind=Command.Kind.SUBMIT, state=Command.State.DONE
    ).update(state=Command.State.WAITING, not_before=now)

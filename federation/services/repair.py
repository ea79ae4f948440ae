"""What an admin does about a case of the reconciler: proposed, shown, done once, written down."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from accounting.core.runs import Told
from accounting.services.usage import record_runs
from clusters.models import Command
from clusters.services.fleet import close_breaker
from clusters.services.orders import order_orphan_ends
from federation.core.lifecycle import JobState
from federation.core.reconciliation import Cause
from federation.core.repair import Action, Proposal, Refusal, Step, bill_end_ms
from federation.models import Attempt, Job
from federation.selectors.cases import Case, finding_of, with_evidence
from federation.services.billing import run_facts
from federation.services.change import cancel_job
from federation.services.reconcile import reconcile_cluster
from federation.services.stopping import stop_attempt
from kit.errors import ConflictError, MusterError, NotFoundError, StaleWriteError
from kit.intervals import to_ms
from tenancy.models import AuditEntry, User
from tenancy.services.records import Change, ring, write_audit, write_events

CASE = "case"  # the object type in the audit trail


class NotSafeError(MusterError):
    """The action could hurt as things are: it might start a second run, or lose a bill."""

    code, status, title = "not_safe", 409, "The action is not safe now"


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done or would be. `is_done` False: nothing was changed."""

    case_id: UUID
    action: Action
    steps: tuple[Step, ...]
    does: str
    safe: str
    is_done: bool
    case: Case | None = None


@dataclass(frozen=True, slots=True)
class _Act:
    """Who does it, why, when, to what."""

    user: User
    case: Case
    action: Action
    why: str
    now: datetime

    @property
    def attempt(self) -> Attempt:
        """The attempt of the case; the rules propose such steps only where there is one."""
        assert self.case.attempt is not None  # noqa: S101 - see above
        return self.case.attempt


def preview(*, case_id: UUID, action: Action, version: int | None, now: datetime) -> Repair:
    """What the action would do; changes nothing.

    Raises:
        NotFoundError: there is no such case (any more).
        StaleWriteError: the job's version is another one than `version`.
        NotSafeError: the action is not offered in this case.
    """
    case = _case(case_id, now)
    proposal = _proposal(case, action, version)
    return Repair(case_id, action, proposal.steps, proposal.does, proposal.safe, False, case)


@transaction.atomic
def repair(
    *, user: User, case_id: UUID, action: Action, version: int | None, why: str, now: datetime
) -> Repair:
    """Does the action in one transaction, in turn with reconciling and with the job's changes.

    Doing it twice is doing it once: what was done already is answered, and nothing is written.

    Raises:
        NotFoundError, StaleWriteError, NotSafeError: as `preview`.
    """
    found = finding_of(case_id, now)
    if found is None:
        return _done_before(case_id, action)
    with connection.cursor() as cursor:  # the lock under which this cluster is reconciled
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [2, found.cluster.pk.int % 2**31])
    jobs = Attempt.objects.filter(fence=found.fence).values("job_id")
    list(Job.objects.filter(id__in=jobs).select_for_update().values("id"))
    found = finding_of(case_id, now)
    if found is None:
        return _done_before(case_id, action)
    (case,) = with_evidence([found], now)
    proposal = _proposal(case, action, version)
    act = _Act(user, case, action, why, now)
    if proposal.steps:
        _write_down(act, proposal)
    for step in proposal.steps:
        _STEPS[step](act)
    return Repair(case_id, action, proposal.steps, proposal.does, proposal.safe, True, case)


def _case(case_id: UUID, now: datetime) -> Case:
    found = finding_of(case_id, now)
    if found is None:
        raise NotFoundError("There is no such case, or it is settled.")
    (case,) = with_evidence([found], now)
    return case


def _done_before(case_id: UUID, action: Action) -> Repair:
    """The answer to an action that was done and settled its case."""
    kept = (
        AuditEntry.objects.filter(object_type=CASE, object_id=str(case_id), action=action.value)
        .order_by("-id")
        .first()
    )
    if kept is None:
        raise NotFoundError("There is no such case, or it is settled.")
    return Repair(case_id, action, (), "Nothing: it was done already.", "", True)


def _proposal(case: Case, action: Action, version: int | None) -> Proposal:
    job = case.attempt.job if case.attempt is not None else None
    if version is not None and (job is None or job.version != version):
        now_is = f"The job's version is {job.version} by now" if job else "The case has no job"
        raise StaleWriteError(f"{now_is}; look at the case again.")
    answer = case.answers[action]
    if isinstance(answer, Refusal):
        raise NotSafeError(answer.why)
    return answer


def _write_down(act: _Act, proposal: Proposal) -> None:
    """The audit entry, and the event that says what was done about the cluster's case."""
    case, finding = act.case, act.case.finding
    steps = [step.value for step in proposal.steps]
    job = case.attempt.job if case.attempt is not None else None
    before: dict[str, object] = {
        "kind": finding.kind.value,
        "cluster": finding.cluster.name,
        "fence": finding.fence,
        "order": finding.order,
        "job": None if job is None else str(job.uuid),
        "job_state": None if job is None else job.state,
        "job_version": None if job is None else job.version,
    }
    write_audit(
        actor=act.user,
        action=act.action.value,
        object_type=CASE,
        object_id=finding.id,
        before=before,
        after={"steps": steps},
        why=act.why,
        now=act.now,
    )
    data = {**before, "action": act.action.value, "steps": steps, "user": act.user.username}
    write_events(
        changes=[Change("cluster.repaired", finding.cluster.name, None, act.action.value, data)],
        now=act.now,
    )
    ring()


def _judge(act: _Act) -> None:
    reconcile_cluster(cluster_id=act.case.cluster.pk, now=act.now)


def _submit_again(act: _Act) -> None:
    Command.objects.filter(key=f"submit:{act.attempt.pk}", state=Command.State.DONE).update(
        state=Command.State.WAITING, not_before=act.now
    )


def _send_again(act: _Act) -> None:
    """Due now, whatever the breaker says: somebody looked.

    A refused order is opened again; that it was sent stays known, so it looks first.
    """
    close_breaker(cluster_id=act.case.cluster.pk, now=act.now)
    order = Command.objects.filter(key=act.case.finding.order)
    order.filter(state__in=[Command.State.WAITING, Command.State.SENT]).update(not_before=act.now)
    order.filter(state=Command.State.REJECTED).update(
        state=Command.State.WAITING, not_before=act.now, answered_at=None, answer=None
    )


def _drop_order(act: _Act) -> None:
    Command.objects.filter(
        key=act.case.finding.order,
        state__in=[Command.State.WAITING, Command.State.SENT, Command.State.REJECTED],
    ).update(
        state=Command.State.DROPPED, answered_at=act.now, error=f"dropped by {act.user.username}"
    )


def _close_bill(act: _Act) -> None:
    """Ends the run that has no end where the attempt was lost: until then it held its GPUs.

    Raises:
        ConflictError: accounting refuses that end; nothing is changed.
    """
    attempt, job = act.attempt, act.attempt.job
    skew_ms = act.case.cluster.clock_skew_ms
    lost_ms = None if act.case.lost_at is None else to_ms(act.case.lost_at)
    ended = []
    for start_ms, end_ms, gpus in attempt.runs:
        close_ms = end_ms
        if close_ms is None:
            close_ms = bill_end_ms(
                start_ms,
                None if lost_ms is None else lost_ms + skew_ms,
                job.time_limit_ms,
                to_ms(act.now) + skew_ms,
            )
        ended.append((start_ms, close_ms, gpus))
    facts = list(run_facts(job, attempt, ended))
    told = record_runs(facts=facts, now=act.now)
    if Told.REFUSED in told.told:
        raise ConflictError(f"Its usage cannot be ended: {told.why[attempt.id]}.")
    attempt.runs = ended
    attempt.save(update_fields=["runs"])


def _end_attempt(act: _Act) -> None:
    """Over without a word to the cluster: the job failed, for its run cannot be known."""
    attempt, job = act.attempt, act.attempt.job
    attempt.state, attempt.ended_at = Attempt.State.ENDED, act.now
    attempt.end_cause = Cause.LOST.value
    attempt.save(update_fields=["state", "ended_at", "end_cause"])
    job.state, job.ended_at = JobState.FAILED, act.now
    job.outcome = f"Lost on {act.case.cluster.name}, and given up by {act.user.username}."
    job.hold_asked_by = ""
    _save_job(act, "given_up")


def _stop_then_queue(act: _Act) -> None:
    """Orders the end; reconciling queues the job when the cluster has confirmed it."""
    attempt = act.attempt
    stop_attempt(attempt=attempt, cause=Cause.RESUBMITTED, now=act.now)
    attempt.job.state = JobState.STOPPING
    _save_job(act, "resubmitted")


def _save_job(act: _Act, cause: str) -> None:
    job = act.attempt.job
    job.version += 1
    job.save(update_fields=["state", "ended_at", "outcome", "hold_asked_by", "version"])
    data: Mapping[str, object] = {
        "attempt": act.attempt.number,
        "cluster": act.case.cluster.name,
        "user": act.user.username,
        "why": act.why,
    }
    write_events(
        changes=[Change(f"job.{job.state}", str(job.uuid), job.tenant_id, cause, data)],
        now=act.now,
    )


def _cancel_job(act: _Act) -> None:
    cancel_job(user=act.user, job_id=act.attempt.job.uuid, now=act.now)


def _cancel_object(act: _Act) -> None:
    """Whoever it lives as, as reconciling orders it for orphans."""
    finding = act.case.finding
    order_orphan_ends(
        cluster_id=finding.cluster.pk,
        fence=finding.fence,
        accounts=[found.account for found in act.case.evidence.living],
        now=act.now,
    )


_STEPS: Mapping[Step, Callable[[_Act], None]] = {
    Step.JUDGE: _judge,
    Step.SUBMIT_AGAIN: _submit_again,
    Step.SEND_AGAIN: _send_again,
    Step.DROP_ORDER: _drop_order,
    Step.CLOSE_BILL: _close_bill,
    Step.END_ATTEMPT: _end_attempt,
    Step.STOP_THEN_QUEUE: _stop_then_queue,
    Step.CANCEL_JOB: _cancel_job,
    Step.CANCEL_OBJECT: _cancel_object,
}

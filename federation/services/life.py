"""A cluster that is cut off or leaves: what becomes of the attempts there, as its row says.

Level-triggered: `tend_cluster` looks at the row and at the attempts that are not over, and does what
is due, however often it is called. The arbiter calls it every cycle, the interface at once.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounting.services.usage import record_runs
from clusters.models import Cluster, Command, Node, Observation
from clusters.selectors.fleet import locked_member
from federation.core.lifecycle import JobState
from federation.core.rebuilt import forgotten
from federation.core.reconciliation import Cause, Wish, after_end
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.selectors.life import last_moment_ms, living
from federation.services.billing import run_facts
from federation.services.stopping import stop_attempt
from kit.errors import FieldProblem, InvalidContentError, MusterError
from tenancy.models import User
from tenancy.services.records import Change, ring, write_audit, write_events

MOST_NAMED = 10
MOST_A_TURN = 500
PLANS = tuple(plan.value for plan in Cluster.LeavePlan)
CANCELLED = "Cancelled; its cluster left before it said that the job is over there."


class ClusterInUseError(MusterError):
    """Attempts live on the cluster; say what shall become of them."""

    code, status, title = "cluster_in_use", 409, "Attempts live on the cluster"


@transaction.atomic
def leave_cluster(
    *, actor: User | None, cluster: Cluster, plan: str | None = None, why: str = "", now: datetime
) -> Cluster:
    """Takes a cluster out of the federation; the cluster, `gone` when nothing lives there.

    Without a plan it must be empty. `cancel` stops every attempt there first and sends the jobs
    back to the queue; it is gone when the cluster has answered for the last of them. `forget` ends
    them now, unseen: the jobs are held for their owners, for they may run on.

    Raises:
        InvalidContentError: no such plan, or a plan without a why.
        ClusterInUseError: attempts live there and no plan is given.
    """
    _refuse_plan(plan, why)
    held = locked_member(cluster)
    alive = living(held.id)
    if alive and plan is None:
        raise _in_use(held, alive)
    before = {"state": held.state, "leave_plan": held.leave_plan}
    held.state, held.leave_plan, held.leave_why = Cluster.State.CUT_OFF, plan or "cancel", why
    held.revision += 1
    held.save(update_fields=["state", "leave_plan", "leave_why", "revision"])
    after = {"state": held.state, "leave_plan": held.leave_plan, "attempts": len(alive)}
    write_audit(
        actor=actor,
        action="leave",
        object_type="cluster",
        object_id=held.name,
        before=before,
        after=after,
        why=why,
        now=now,
    )
    data = {"plan": held.leave_plan, "attempts": len(alive), "why": why}
    write_events(changes=[Change("cluster.leaving", held.name, None, "leave", data)], now=now)
    ring()
    tend_cluster(cluster_id=held.id, now=now)
    held.refresh_from_db()
    return held


def _refuse_plan(plan: str | None, why: str) -> None:
    if plan is not None and plan not in PLANS:
        words = f"Give one of {', '.join(PLANS)}, or leave it out for an empty cluster."
        raise InvalidContentError("There is no such plan.", errors=[_wrong("/plan", words)])
    if plan is not None and not why.strip():
        words = "Say why: it is kept, and the owners of the jobs read it."
        raise InvalidContentError("A plan needs a reason.", errors=[_wrong("/why", words)])


def _wrong(pointer: str, words: str) -> FieldProblem:
    return FieldProblem(pointer, "invalid_plan", words)


def _in_use(cluster: Cluster, alive: Sequence[Attempt]) -> ClusterInUseError:
    count = f"{len(alive)} attempt{'' if len(alive) == 1 else 's'}"
    errors = [
        FieldProblem("", "attempt", f"{attempt.fence}: {attempt.state}, job {attempt.job.uuid}")
        for attempt in alive[:MOST_NAMED]
    ]
    return ClusterInUseError(
        f"{count} not over on {cluster.name}. Drain it and wait, or give a plan: cancel or forget.",
        errors=errors,
    )


def tend_clusters(*, now: datetime) -> int:
    """Tends every cluster that is cut off; how many attempts were touched. One query when none is."""
    due = Cluster.objects.filter(state=Cluster.State.CUT_OFF).order_by("id")
    return sum(tend_cluster(cluster_id=key, now=now) for key in due.values_list("id", flat=True))


@transaction.atomic
def tend_cluster(*, cluster_id: UUID, now: datetime) -> int:
    """Does what the row of a cut-off cluster asks for; how many attempts were touched.

    What has not reached the cluster goes back to the queue. If it is leaving, its plan is carried
    out, and when nothing lives there any more it is gone.
    """
    # Not FOR UPDATE: orders that others write meanwhile refer to this row.
    cluster = Cluster.objects.select_for_update(no_key=True).filter(pk=cluster_id).first()
    if cluster is None or cluster.state != Cluster.State.CUT_OFF:
        return 0
    attempts = _due(cluster)[:MOST_A_TURN]
    changes: list[Change] = []
    for attempt in attempts:
        if _take_back(attempt, now) or cluster.leave_plan == Cluster.LeavePlan.FORGET:
            changes.append(_end(cluster, attempt, now))
        else:
            changes.append(_stop(cluster, attempt, now))
    write_events(changes=changes, now=now)
    if cluster.leave_plan and not OPEN_ATTEMPTS.filter(cluster=cluster).exists():
        _let_go(cluster, now)
    if changes:
        ring()
    return len(attempts)


def _due(cluster: Cluster) -> list[Attempt]:
    """The attempts that something is to be done about, their jobs locked (in one order)."""
    jobs = (
        Job.objects.filter(attempts__in=_wanted(cluster))
        .select_related("user")
        .select_for_update(of=("self",), no_key=True)
        .order_by("pk")
    )
    locked = {job.pk: job for job in jobs}
    due, wanted = [], _wanted(cluster)  # as it is, now that nobody else moves them
    for attempt in living(cluster.id):
        if attempt.job_id in locked and attempt.id in wanted:
            attempt.job = locked[attempt.job_id]
            due.append(attempt)
    return due


def _wanted(cluster: Cluster) -> set[UUID]:
    """Which attempts the row of the cluster asks to be ended.

    Cut off: those whose order to submit waits. One that is being sent just now will be there in a
    moment, and stays.
    """
    rows = OPEN_ATTEMPTS.filter(cluster=cluster)
    if cluster.leave_plan == Cluster.LeavePlan.FORGET:
        return set(rows.values_list("id", flat=True))
    rows = rows.filter(end_cause="")
    if not cluster.leave_plan:
        waiting = Command.objects.filter(
            cluster=cluster, kind=Command.Kind.SUBMIT, state=Command.State.WAITING
        )
        rows = rows.filter(state=Attempt.State.DISPATCHING, fence__in=waiting.values("fence"))
    return set(rows.values_list("id", flat=True))


def _take_back(attempt: Attempt, now: datetime) -> bool:
    """Drops an order to submit that was never sent: then no object of it can exist anywhere."""
    return bool(
        Command.objects.filter(
            key=f"submit:{attempt.id}", state=Command.State.WAITING, sent_at=None
        ).update(state=Command.State.DROPPED, answered_at=now, error=Cause.CUT_OFF)
    )


def _stop(cluster: Cluster, attempt: Attempt, now: datetime) -> Change:
    """Orders an attempt to be cancelled; reconciliation moves its job when it is proven over.

    A lost one's job is held then, not queued: nobody knows what it did.
    """
    job = attempt.job
    if attempt.state == Attempt.State.LOST and job.cancel_asked_at is None:
        job.hold_asked_by = job.hold_asked_by or "owner"
    stop_attempt(attempt=attempt, cause=Cause.CUT_OFF, now=now)
    job.state = JobState.STOPPING
    job.version += 1
    job.save(update_fields=["state", "hold_asked_by", "version"])
    return _change(cluster, attempt, "")


def _end(cluster: Cluster, attempt: Attempt, now: datetime) -> Change:
    """Ends an attempt here and now: it never reached the cluster, or it is forgotten."""
    job, words = attempt.job, ""
    was_sent = not Command.objects.filter(
        key=f"submit:{attempt.id}", state=Command.State.DROPPED, sent_at=None
    ).exists()
    hold_by = job.hold_asked_by
    cause = Cause(attempt.end_cause) if attempt.end_cause else Cause.CUT_OFF
    if was_sent:
        cause, hold_by = Cause.LOST, hold_by or "owner"
        words = forgotten(cluster.name)
        _bill_to_last_moment(cluster, attempt, now)
        attempt.backend_reason = words
    attempt.state, attempt.end_cause, attempt.ended_at = Attempt.State.ENDED, cause, now
    attempt.save(update_fields=["state", "end_cause", "ended_at", "backend_reason", "runs"])
    wish = Wish(cancel=job.cancel_asked_at is not None, hold_by=hold_by, restarts_left=0)
    after = after_end(Cause.CUT_OFF, wish)
    job.state, job.held_by, job.hold_asked_by, job.class_now = after.state, after.held_by, "", ""
    if after.state.is_final:
        job.ended_at, job.outcome = now, CANCELLED if was_sent else "Cancelled."
    job.version += 1
    job.save(
        update_fields=[
            "state", "held_by", "hold_asked_by", "class_now", "ended_at", "outcome", "version",
        ]
    )  # fmt: skip
    return _change(cluster, attempt, words)


def _bill_to_last_moment(cluster: Cluster, attempt: Attempt, now: datetime) -> None:
    """Ends the runs that were told as lasting where the attempt was last seen."""
    job, last_ms = attempt.job, last_moment_ms(cluster, attempt)
    ended = [
        (start_ms, max(start_ms, last_ms) if end_ms is None else end_ms, gpus)
        for start_ms, end_ms, gpus in attempt.runs
    ]
    record_runs(facts=list(run_facts(job, attempt, ended)), now=now)
    attempt.runs = ended


def _let_go(cluster: Cluster, now: datetime) -> None:
    """The cluster is gone: no orders to it, no secret of it; its row stays for the books."""
    Command.objects.filter(
        cluster=cluster, state__in=(Command.State.WAITING, Command.State.SENT)
    ).update(state=Command.State.DROPPED, answered_at=now, error="the cluster left")
    Node.objects.filter(cluster=cluster).delete()
    Observation.objects.filter(cluster=cluster).delete()
    cluster.state, cluster.left_at, cluster.secret = Cluster.State.GONE, now, b""
    cluster.revision += 1
    cluster.save(update_fields=["state", "left_at", "secret", "revision"])
    write_audit(
        actor=None,
        action="gone",
        object_type="cluster",
        object_id=cluster.name,
        after={"plan": cluster.leave_plan},
        why=cluster.leave_why,
        now=now,
    )
    data = {"plan": cluster.leave_plan, "why": cluster.leave_why}
    write_events(changes=[Change("cluster.gone", cluster.name, None, "left", data)], now=now)
    ring()


def _change(cluster: Cluster, attempt: Attempt, words: str) -> Change:
    job = attempt.job
    data = {
        "attempt": attempt.number,
        "cluster": cluster.name,
        "words": words,
        "why": cluster.leave_why,
    }
    cause = "forgotten" if words else Cause.CUT_OFF.value
    return Change(f"job.{job.state}", str(job.uuid), job.tenant_id, cause, data)

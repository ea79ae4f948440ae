"""What people do to jobs that are in: cancel, hold, release, change, have saved.

Each locks the job's row, so that it and the arbiter's compare-and-set follow one another; each
raises `Job.version`, writes its event and audit entry, and rings the arbiter. A bound job is not
touched itself: its attempt is told to stop, and reconciliation moves the job when it has.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from clusters.models import Command
from federation.core.lifecycle import JobState
from federation.core.spec import JobSpec, change_spec
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from federation.selectors.jobs import may_change, visible_job
from federation.selectors.standing import standing_fleet
from federation.services.checkpoint import ask_checkpoint
from federation.services.limits import Newcomer, time_problems
from federation.services.stopping import stop_attempt
from federation.services.submit import columns, fleet_problems, refuse
from kit.errors import (
    ConflictError,
    FieldProblem,
    InvalidContentError,
    MusterError,
    PermissionDeniedError,
    StaleWriteError,
)
from tenancy.models import User
from tenancy.services.records import Change, ring, write_audit, write_events

WAITING = frozenset({JobState.QUEUED, JobState.HELD})
OWNER, ADMIN = "owner", "admin"


class AlreadyFinalError(MusterError):
    """The job is over; nothing more will happen to it."""

    code, status, title = "already_final", 409, "The job is over"


class NotChangeableNowError(MusterError):
    """The job's state does not allow the change of this field any more."""

    code, status, title = "not_changeable_now", 409, "The field cannot be changed in this state"


@transaction.atomic
def cancel_job(*, user: User, job_id: UUID, now: datetime) -> Job:
    """Ends a job: at once while it waits; else its attempt is stopped first (`stopping`).

    Cancelling twice is cancelling once.

    Raises:
        NotFoundError, PermissionDeniedError: the user may not see or not change the job.
        AlreadyFinalError: it ended otherwise.
    """
    job = _locked(user, job_id)
    if job.state == JobState.CANCELLED or job.cancel_asked_at is not None:
        return job
    _refuse_final(job)
    before = job.state
    job.cancel_asked_at = now
    if JobState(job.state) in WAITING or _stop(job, "cancelled", now):
        job.state, job.held_by, job.hold_asked_by = JobState.CANCELLED, "", ""
        job.ended_at, job.outcome = now, f"Cancelled by {user.username}."
    else:
        job.state = JobState.STOPPING
    _save(job, user, before, "cancelled", "cancel", now)
    return job


@transaction.atomic
def hold_job(*, user: User, job_id: UUID, now: datetime) -> Job:
    """Keeps a job from starting. A bound one is stopped and held then; holding twice is once.

    Raises:
        NotFoundError, PermissionDeniedError: the user may not see or not change the job.
        AlreadyFinalError: it is over.
        ConflictError: it is being cancelled.
    """
    job = _locked(user, job_id)
    _refuse_final(job)
    if job.cancel_asked_at is not None:
        raise ConflictError("The job is being cancelled.")
    holder = ADMIN if user.is_superuser and job.user_id != user.pk else OWNER
    if ADMIN in (job.held_by, job.hold_asked_by) or holder in (job.held_by, job.hold_asked_by):
        return job
    before = job.state
    if JobState(job.state) in WAITING or _stop(job, "held", now):
        job.state, job.held_by, job.hold_asked_by, job.class_now = JobState.HELD, holder, "", ""
    else:
        job.state, job.hold_asked_by = JobState.STOPPING, holder
    _save(job, user, before, f"held_by_{holder}", "hold", now)
    return job


@transaction.atomic
def release_job(*, user: User, job_id: UUID, now: datetime) -> Job:
    """Lets a held job wait in the queue again, also one whose attempt still stops for a hold.

    Raises:
        NotFoundError, PermissionDeniedError: the user may not see or not change the job, or an
            admin holds it.
        AlreadyFinalError: it is over.
        ConflictError: it is not held.
    """
    job = _locked(user, job_id)
    _refuse_final(job)
    holder = job.held_by or job.hold_asked_by
    if not holder or job.cancel_asked_at is not None:
        raise ConflictError("The job is not held.")
    if holder == ADMIN and not user.is_superuser:
        raise PermissionDeniedError("An admin holds the job; only an admin may release it.")
    before = job.state
    if job.state == JobState.HELD:
        job.state, job.queued_at = JobState.QUEUED, now
    job.held_by = job.hold_asked_by = ""
    _save(job, user, before, "released", "release", now)
    return job


@transaction.atomic
def checkpoint_job(*, user: User, job_id: UUID, now: datetime) -> Job:
    """Asks a running job to save a checkpoint now: its own signal is sent to it.

    Its version stays: nothing of the job is changed. What it saved then it says itself.

    Raises:
        NotFoundError, PermissionDeniedError: the user may not see or not change the job.
        AlreadyFinalError: it is over.
        ConflictError: it has no `checkpoint`, or does not run.
    """
    job = _locked(user, job_id)
    _refuse_final(job)
    if not job.spec.get("checkpoint"):
        raise ConflictError("The job has no `checkpoint`: nobody knows how to ask it to save.")
    if job.state != JobState.RUNNING or job.cancel_asked_at is not None or job.hold_asked_by:
        raise ConflictError(f"The job is {job.state}; only a running one can save.")
    attempts = OPEN_ATTEMPTS.filter(job=job).values_list("id", flat=True)
    told = {"user": user.username}
    if not ask_checkpoint(attempts=list(attempts), cause="asked", now=now, told=told):
        raise ConflictError("The job's attempt does not run now.")
    _audit(job, user, "checkpoint", {"state": job.state}, {"state": job.state}, now)
    return job


@transaction.atomic
def change_job(
    *, user: User, job_id: UUID, body: object, expected_version: int | None, now: datetime
) -> Job:
    """Changes priority, labels, flavors, class or time limit as a PATCH body says.

    While the job waits everything may change, later only labels. `expected_version` None = any.

    Raises:
        NotFoundError, PermissionDeniedError: the user may not see or not change the job.
        StaleWriteError: the job's version is another one by now.
        InvalidContentError: names every field that is wrong.
        NotChangeableNowError: names the fields that the job's state does not allow to change.
    """
    job = _locked(user, job_id)
    if expected_version is not None and job.version != expected_version:
        raise StaleWriteError(f"The job's version is {job.version} by now; read it again.")
    spec = JobSpec.from_json(job.spec)
    changed = change_spec(spec, body)
    if isinstance(changed, tuple):
        raise InvalidContentError("The job cannot be changed so.", errors=changed)
    before, after = spec.to_json(), changed.to_json()
    names = [name for name in after if after[name] != before[name]]
    _refuse_late(job, names)
    if not names:
        return job
    for column, value in columns(changed).items():
        setattr(job, column, value)
    if names != ["labels"]:
        refuse(fleet_problems(standing_fleet(job.user_id), [("", changed, job)]))
    if "time_limit" in names or "labels" in names:
        refuse(time_problems([Newcomer("", changed, job.tenant, job.user_id)]))
    job.version += 1
    job.save(update_fields=[*columns(changed), "version"])
    kept = [{name: side[name] for name in names} for side in (before, after)]
    _tell(job, "job.changed", "changed", {"fields": names, "user": user.username}, now)
    _audit(job, user, "change", kept[0], kept[1], now)
    return job


def _locked(user: User, job_id: UUID) -> Job:
    """The job, its row locked, if the user may change it."""
    job = visible_job(user, job_id)
    if not may_change(user, job):
        raise PermissionDeniedError("Only the job's user, an owner of its tenant or an admin may.")
    locked = Job.objects.select_for_update(of=("self",)).select_related("tenant", "user", "telling")
    return locked.get(pk=job.pk)


def _refuse_final(job: Job) -> None:
    if JobState(job.state).is_final:
        raise AlreadyFinalError(f"The job is {job.state}.")


def _refuse_late(job: Job, names: list[str]) -> None:
    late = [] if JobState(job.state) in WAITING else [name for name in names if name != "labels"]
    if late:
        problems = [
            FieldProblem(f"/{name}", "not_changeable_now", "Only while the job waits.")
            for name in late
        ]
        raise NotChangeableNowError(
            f"The job is {job.state}; {', '.join(late)} cannot change any more.", errors=problems
        )


def _stop(job: Job, cause: str, now: datetime) -> bool:
    """Stops the job's open attempt; True when that needed nothing of the cluster.

    An order to submit that was never sent is dropped: no object can exist, so the attempt is over.
    Otherwise an order to cancel is written, once.
    """
    attempt = OPEN_ATTEMPTS.get(job=job)
    dropped = Command.objects.filter(
        key=f"submit:{attempt.id}", state=Command.State.WAITING, sent_at=None
    ).update(state=Command.State.DROPPED, answered_at=now, error=cause)
    if dropped:
        attempt.end_cause, attempt.state, attempt.ended_at = cause, Attempt.State.ENDED, now
        attempt.save(update_fields=["state", "end_cause", "ended_at"])
    else:
        stop_attempt(attempt=attempt, cause=cause, now=now)
    return bool(dropped)


def _save(job: Job, user: User, before: str, cause: str, action: str, now: datetime) -> None:
    """Writes the job, its event and the audit entry of a person's act."""
    job.version += 1
    job.save(
        update_fields=[
            "state",
            "held_by",
            "hold_asked_by",
            "cancel_asked_at",
            "class_now",
            "queued_at",
            "ended_at",
            "outcome",
            "version",
        ]
    )
    _tell(job, f"job.{job.state}", cause, {"user": user.username}, now)
    _audit(job, user, action, {"state": before}, {"state": job.state}, now)


def _tell(job: Job, kind: str, cause: str, data: Mapping[str, object], now: datetime) -> None:
    write_events(changes=[Change(kind, str(job.uuid), job.tenant_id, cause, data)], now=now)
    ring()


def _audit(
    job: Job,
    user: User,
    action: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    now: datetime,
) -> None:
    write_audit(
        actor=user,
        action=action,
        object_type="job",
        object_id=job.uuid,
        before=before,
        after=after,
        now=now,
    )


ACTIONS: Mapping[str, Callable[..., Job]] = {
    "cancel": cancel_job,
    "hold": hold_job,
    "release": release_job,
    "checkpoint": checkpoint_job,
}

"""The checkpoint contract: a job is asked to save, and proves what it has saved.

A proof is written at its attempt and its job, and is an event of its own. Within one attempt steps
only rise; what a later attempt proves is newer whatever its step, as it may have gone back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from clusters.core.observation import GangSeen
from clusters.services.orders import Signal, order_signals
from federation.models import Attempt, Job
from federation.selectors.fleet import OPEN_ATTEMPTS
from kit.bulk import Statement, as_json, run
from kit.errors import MusterError, NotFoundError
from tenancy.services.records import Change, ring, write_events

FROM_JOB, FROM_COMMENT = "job", "comment"

_PROVE = """
WITH proven AS (
    UPDATE federation_attempt AS attempt
    SET saved_step = given.step, saved_at = %s, saved_path = given.path
    FROM jsonb_to_recordset(%s::jsonb) AS given(
        attempt_id uuid, step bigint, path text, source text)
    WHERE attempt.id = given.attempt_id AND attempt.state <> 'ended'
        AND (attempt.saved_step IS NULL OR attempt.saved_step < given.step
            OR (attempt.saved_step = given.step AND attempt.saved_at < attempt.signal_asked_at
                AND given.source = 'job'))
    RETURNING attempt.job_id, attempt.number, given.step, given.path, given.source)
UPDATE federation_job AS job SET saved_step = proven.step, saved_at = %s
FROM proven WHERE job.id = proven.job_id
RETURNING job.uuid, job.tenant_id, proven.number, proven.step, proven.path, proven.source
"""
_ASK = """
UPDATE federation_attempt AS attempt SET signal_asked_at = %s
FROM federation_job AS job
WHERE attempt.id = ANY(%s) AND attempt.state = 'running' AND job.id = attempt.job_id
    AND job.spec #>> '{checkpoint,signal}' IS NOT NULL
RETURNING attempt.id, attempt.cluster_id, attempt.fence, attempt.account,
    job.spec #>> '{checkpoint,signal}', coalesce(attempt.started_at, attempt.signal_asked_at),
    attempt.number, job.uuid, job.tenant_id
"""


class AttemptOverError(MusterError):
    """The attempt whose token this is has ended; it proves nothing any more."""

    code, status, title = "attempt_over", 409, "The attempt is over"


@dataclass(frozen=True, slots=True)
class Proof:
    """That an attempt has saved a step. `path` "" = not said; `source`: it told us, or its comment."""

    attempt_id: UUID
    step: int
    path: str
    source: str


@transaction.atomic
def prove_checkpoint(*, job_id: UUID, fence: str, step: int, path: str, now: datetime) -> Attempt:
    """What an attempt of the job says itself; the attempt with what stands proven then.

    A step that is not beyond the proven one changes nothing, so that saying it twice is saying it once;
    except that a job that was asked to save may answer that the proven step is its newest still.

    Raises:
        NotFoundError: the fence is none of this job.
        AttemptOverError: the attempt has ended.
    """
    mine = Job.objects.filter(uuid=job_id, attempts__fence=fence).order_by()
    if mine.select_for_update(of=("self",), no_key=True).values_list("id").first() is None:
        raise NotFoundError("There is no such job, or the token is another's.")
    attempt = Attempt.objects.get(fence=fence)
    if attempt.state == Attempt.State.ENDED:
        raise AttemptOverError(f"Attempt {attempt.number} is over: {attempt.end_cause or 'ended'}.")
    if _is_news(attempt, step):
        _record([Proof(attempt.id, step, path, FROM_JOB)], now)
        attempt.saved_step, attempt.saved_at, attempt.saved_path = step, now, path
    return attempt


def _is_news(attempt: Attempt, step: int) -> bool:
    if attempt.saved_step is None or attempt.saved_at is None or step > attempt.saved_step:
        return True
    asked_at = attempt.signal_asked_at
    return step == attempt.saved_step and asked_at is not None and attempt.saved_at < asked_at


@transaction.atomic
def record_proofs(*, proofs: Sequence[Proof], now: datetime) -> int:
    """Writes what open attempts have proven, at most one proof each; how many were news."""
    jobs = Job.objects.filter(attempts__in=[proof.attempt_id for proof in proofs])
    list(jobs.order_by("id").select_for_update(of=("self",), no_key=True).values_list("id"))
    return _record(proofs, now)


def _record(proofs: Sequence[Proof], now: datetime) -> int:
    """`record_proofs`, the jobs' rows being locked: a proof and an end follow one another."""
    rows = [
        {"attempt_id": one.attempt_id, "step": one.step, "path": one.path, "source": one.source}
        for one in proofs
    ]
    (proven,) = run(Statement(_PROVE, (now, as_json(rows), now)))
    changes = [
        Change(
            "job.checkpointed",
            str(job),
            tenant,
            source,
            {"step": step, "path": path, "source": source, "attempt": number},
        )
        for job, tenant, number, step, path, source in proven
    ]
    write_events(changes=changes, now=now)
    if changes:
        ring()
    return len(changes)


def record_notes(*, cluster_id: UUID, gangs: Iterable[GangSeen], now: datetime) -> int:
    """Records what jobs say in their comments on a cluster (see `clusters.core.checkpoint_note`).

    Reads without locks first: nearly always nothing is new. How many were news.
    """
    noted: dict[tuple[str, str], int] = {}
    for gang in gangs:
        if (step := gang.checkpoint_step) is not None:
            key = gang.fence, gang.account
            noted[key] = max(step, noted.get(key, step))
    if not noted:
        return 0
    fences = [fence for fence, _ in noted]
    rows = OPEN_ATTEMPTS.filter(cluster_id=cluster_id, fence__in=fences).order_by()
    proofs = [
        Proof(attempt_id, noted[fence, account], "", FROM_COMMENT)
        for attempt_id, fence, account, saved in rows.values_list(
            "id", "fence", "account", "saved_step"
        )
        if (fence, account) in noted and (saved is None or saved < noted[fence, account])
    ]
    return record_proofs(proofs=proofs, now=now) if proofs else 0


@transaction.atomic
def ask_checkpoint(
    *,
    attempts: Collection[UUID],
    cause: str,
    now: datetime,
    told: Mapping[str, object] | None = None,
) -> list[UUID]:
    """Asks running attempts to save now: notes when, orders the signal; those that were asked.

    Attempts that do not run, and those of jobs without `checkpoint`, are left alone. The caller
    holds the locks of their jobs. `told` goes into each event. 3 statements, whatever their number.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ASK, [now, list(attempts)])
        asked = cursor.fetchall()
    if not asked:
        return []
    signals = [Signal(*row[:6]) for row in asked]
    order_signals(signals=signals, now=now)
    changes = [
        Change(
            "job.checkpoint_asked",
            str(job),
            tenant,
            cause,
            {**(told or {}), "signal": name, "attempt": number},
        )
        for *_, name, _, number, job, tenant in asked
    ]
    write_events(changes=changes, now=now)
    ring()
    return [signal.attempt_id for signal in signals]

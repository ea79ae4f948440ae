"""Delivers the outbox of one cluster: lease, mark sent, commit, call, record.

Nothing here holds a transaction open during a call. An order that was sent and not answered is
sent again, which is safe because every backend call converges (see `clusters.core.backend`).

Orders are claimed, called and recorded in windows of several times the calls at once: a statement
a window instead of one an order, and one list of the cluster's jobs serves the submits of a window.
How hard a cluster is called is bounded where the calls are made (`kit.gate`).
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction

from clusters.backends import connect
from clusters.core.backend import (
    NOT_RUNNING,
    Backend,
    BackendAmbiguousError,
    BackendError,
    BackendRejectedError,
    BackendUnavailableError,
)
from clusters.core.gang import Gang
from clusters.models import Cluster, Command, Lease
from clusters.selectors.connection import connection_of
from clusters.selectors.traffic import OPEN, due_commands
from clusters.services import lease
from clusters.services.results import Result, record
from kit.gate import Gate
from kit.job_token import job_token

logger = logging.getLogger(__name__)
RETRY_FIRST = timedelta(seconds=1)
RETRY_CAP = timedelta(seconds=30)
WINDOW = 4  # orders in hand for each call at once


@dataclass(frozen=True, slots=True)
class Delivery:
    """One round: who delivers, under which epoch, with which limits. `clock` is the edge's."""

    cluster: Cluster
    backend: Backend
    gate: Gate
    epoch: int
    life: timedelta
    window: int
    clock: Callable[[], datetime]


@dataclass(slots=True)
class Trouble:
    """That a cluster did not answer, and how long it said to wait, if it did."""

    retry_after: timedelta | None = None


def call(backend: Backend, command: Command) -> dict[str, object]:
    """Makes the one backend call of a command; its answer as JSON.

    Raises:
        BackendError: as the protocol says.
    """
    payload = command.payload
    match command.kind:
        case Command.Kind.SUBMIT:
            was_sent = command.sent_at is not None
            gang = furnished(Gang.from_json(payload), settings.ENVIRONMENT.public_url)
            known_as = str((command.answer or {}).get("backend_id", ""))
            answer = backend.submit(gang, is_repeat=was_sent, known_as=known_as)
            return {"backend_id": answer.backend_id, "duplicates": answer.duplicates_cancelled}
        case Command.Kind.CANCEL:
            backend.cancel(command.fence, payload["account"])
        case Command.Kind.SIGNAL:
            backend.signal(command.fence, payload["account"], payload["name"])
    return {}


def furnished(gang: Gang, url: str) -> Gang:
    """The gang with what is not to lie in our database: its token, and our address if it is set."""
    own = {"MUSTER_JOB_TOKEN": job_token(gang.fence), **({"MUSTER_URL": url} if url else {})}
    return replace(gang, environment={**gang.environment, **own})


def deliver(
    *,
    cluster_id: UUID,
    holder: str,
    life: timedelta,
    calls_at_once: int,
    longest: timedelta,
    clock: Callable[[], datetime],
) -> int:
    """Delivers what is due to one cluster, at most for `longest`; the number of calls made.

    `calls_at_once` holds unless the cluster has a limit of its own. Returns 0 at once when somebody
    else holds the lease, or when the cluster has left. A cluster that does not answer ends the
    round and trips the breaker
    (`clusters.services.lease.back_off`); one that asks for patience ends the round for so long.
    """
    kind = Lease.Kind.DISPATCH
    started = clock()
    epoch = lease.take(cluster_id=cluster_id, kind=kind, holder=holder, life=life, now=started)
    if epoch is None:
        return 0
    cluster = Cluster.objects.filter(id=cluster_id).first()
    if cluster is None:  # it left just now
        return 0
    at_once = cluster.calls_at_once or calls_at_once
    gate = Gate(at_once, cluster.calls_per_s)
    window = at_once * WINDOW if at_once > 1 else 1
    with (
        closing(connect(cluster.backend, connection_of(cluster, gate=gate))) as backend,
        ThreadPoolExecutor(window) as pool,
    ):
        round_ = Delivery(cluster, backend, gate, epoch, life, window, clock)
        return _deliver_due(round_, pool, started + longest)


def _deliver_due(round_: Delivery, pool: ThreadPoolExecutor, until: datetime) -> int:
    """Claims and calls until nothing is due, the time is over or the cluster is away."""
    cluster_id, epoch, kind = round_.cluster.id, round_.epoch, Lease.Kind.DISPATCH
    made = 0
    while round_.clock() < until:
        commands = _claim(round_)
        if commands is None:
            return made
        if not commands:
            break
        made += len(commands)
        trouble = _call_all(round_, pool, commands)
        if trouble is None:
            continue
        now = round_.clock()
        if trouble.retry_after is None:
            lease.back_off(cluster_id=cluster_id, kind=kind, epoch=epoch, now=now)
        else:
            until = now + trouble.retry_after
            lease.rest(cluster_id=cluster_id, kind=kind, epoch=epoch, until=until)
        return made
    lease.give_back(cluster_id=cluster_id, kind=kind, epoch=epoch, now=round_.clock())
    return made


@transaction.atomic
def _claim(round_: Delivery) -> list[Command] | None:
    """Marks the next orders sent, in one transaction with the renewal; None = lease lost."""
    now = round_.clock()
    if not lease.renew(
        cluster_id=round_.cluster.id,
        kind=Lease.Kind.DISPATCH,
        epoch=round_.epoch,
        until=now + round_.life,
    ):
        return None
    commands = due_commands(round_.cluster.id, now, round_.window)
    cancelled = {command.fence for command in commands if command.kind == Command.Kind.CANCEL}
    _drop_others(round_.cluster.id, cancelled, now)
    chosen = [
        command
        for command in commands
        if command.kind == Command.Kind.CANCEL or command.fence not in cancelled
    ]
    if chosen:
        Command.objects.filter(id__in=[command.id for command in chosen], state__in=OPEN).update(
            state=Command.State.SENT, sent_at=now, lease_epoch=round_.epoch
        )
    return chosen


def _drop_others(cluster_id: UUID, fences: set[str], now: datetime) -> None:
    """An order to cancel ends those to submit and to signal: they are never sent (again)."""
    if fences:
        others = Command.objects.exclude(kind=Command.Kind.CANCEL)
        others.filter(cluster_id=cluster_id, fence__in=fences, state__in=OPEN).update(
            state=Command.State.DROPPED, answered_at=now, error="cancelled"
        )


def _call_all(
    round_: Delivery, pool: ThreadPoolExecutor, commands: Sequence[Command]
) -> Trouble | None:
    """Calls side by side, keeping the lease alive; the trouble when the cluster does not answer.

    The threads touch no database: results are recorded here, all that came in one statement. The
    first call without an answer shuts the gate, so that those who wait do not wait for it in turn.
    """
    waiting: dict[Future[dict[str, object]], Command] = {
        pool.submit(_call, round_, command): command for command in commands
    }
    trouble: Trouble | None = None
    while waiting:
        done, _ = wait(waiting, timeout=round_.life.total_seconds() / 3)
        results = [_result(round_, waiting.pop(future), future) for future in done]
        if results:
            record(epoch=round_.epoch, results=results)
        if any(result.is_away for result in results):
            waits = [result.retry_after for result in results if result.retry_after is not None]
            trouble = Trouble(max(waits, default=trouble.retry_after if trouble else None))
        if waiting:
            lease.renew(
                cluster_id=round_.cluster.id,
                kind=Lease.Kind.DISPATCH,
                epoch=round_.epoch,
                until=round_.clock() + round_.life,
            )
    return trouble


def _call(round_: Delivery, command: Command) -> dict[str, object]:
    try:
        return call(round_.backend, command)
    except (BackendUnavailableError, BackendAmbiguousError):
        round_.gate.shut()
        raise


def _result(round_: Delivery, command: Command, future: Future[dict[str, object]]) -> Result:
    """What came of one call. Only orders that were called count a try."""
    now = round_.clock()
    name, tries = round_.cluster.name, command.tries + 1
    later = now + min(RETRY_FIRST * 2 ** min(command.tries, 10), RETRY_CAP)
    try:
        answer = future.result()
    except BackendRejectedError as error:
        logger.warning("%s refused %s: %s", name, command.key, error.words)
        is_late = command.kind == Command.Kind.SIGNAL and error.code == NOT_RUNNING
        state = Command.State.DROPPED if is_late else Command.State.REJECTED
        return Result(command.id, state, tries, now, error.words, {"code": error.code})
    except BackendUnavailableError as error:
        return _away(command, error, now=now, later=later, name=name)
    except BackendAmbiguousError as error:
        logger.warning("%s: %s is ambiguous: %s", name, command.key, error.words)
        return Result(
            command.id, Command.State.SENT, tries, None, error.words, not_before=later, is_away=True
        )
    except BackendError as error:
        raise AssertionError("the protocol knows three errors") from error
    return Result(command.id, Command.State.DONE, tries, now, "", answer)


def _away(
    command: Command, error: BackendUnavailableError, *, now: datetime, later: datetime, name: str
) -> Result:
    """Held back by another call's failure: due at once again. Else when the cluster or we say."""
    is_held_back = error.code == "held_back"
    retry_after = lease.patience(error)
    if not is_held_back:
        logger.warning("%s is away (%s): %s", name, command.key, error.words)
    return Result(
        command.id,
        Command.State.WAITING,
        command.tries + (not is_held_back),
        None,
        error.words,
        not_before=now if is_held_back else now + retry_after if retry_after else later,
        is_away=not is_held_back,
        retry_after=retry_after,
    )

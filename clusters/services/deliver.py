"""Delivers the outbox of one cluster: lease, mark sent, commit, call, record.

Nothing here holds a transaction open during a call. An order that was sent and not answered is
sent again, which is safe because every backend call converges (see `clusters.core.backend`).
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from clusters.backends import connect
from clusters.core.backend import (
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

logger = logging.getLogger(__name__)
RETRY_FIRST = timedelta(seconds=1)
RETRY_CAP = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One round: who delivers, under which epoch, with which limits. `clock` is the edge's."""

    cluster: Cluster
    backend: Backend
    epoch: int
    life: timedelta
    calls_at_once: int
    clock: Callable[[], datetime]


def call(backend: Backend, command: Command) -> dict[str, object]:
    """Makes the one backend call of a command; its answer as JSON.

    Raises:
        BackendError: as the protocol says.
    """
    payload = command.payload
    match command.kind:
        case Command.Kind.SUBMIT:
            was_sent = command.sent_at is not None
            answer = backend.submit(Gang.from_json(payload), is_repeat=was_sent)
            return {"backend_id": answer.backend_id, "duplicates": answer.duplicates_cancelled}
        case Command.Kind.CANCEL:
            backend.cancel(command.fence, payload["account"])
        case Command.Kind.SIGNAL:
            backend.signal(command.fence, payload["account"], payload["name"])
    return {}


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

    Returns 0 at once when somebody else holds the lease. A cluster that does not answer ends the
    round and trips the breaker (`clusters.services.lease.back_off`).
    """
    kind = Lease.Kind.DISPATCH
    started = clock()
    epoch = lease.take(cluster_id=cluster_id, kind=kind, holder=holder, life=life, now=started)
    if epoch is None:
        return 0
    cluster = Cluster.objects.get(id=cluster_id)
    with closing(connect(cluster.backend, connection_of(cluster))) as backend:
        round_ = Delivery(cluster, backend, epoch, life, calls_at_once, clock)
        return _deliver_due(round_, started + longest)


def _deliver_due(round_: Delivery, until: datetime) -> int:
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
        if not _call_all(round_, commands):
            lease.back_off(cluster_id=cluster_id, kind=kind, epoch=epoch, now=round_.clock())
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
    commands = due_commands(round_.cluster.id, now, round_.calls_at_once)
    cancelled = {command.fence for command in commands if command.kind == Command.Kind.CANCEL}
    _drop_submits(round_.cluster.id, cancelled, now)
    chosen = [
        command
        for command in commands
        if command.kind != Command.Kind.SUBMIT or command.fence not in cancelled
    ]
    Command.objects.filter(id__in=[command.id for command in chosen], state__in=OPEN).update(
        state=Command.State.SENT, sent_at=now, lease_epoch=round_.epoch
    )
    return chosen


def _drop_submits(cluster_id: UUID, fences: set[str], now: datetime) -> None:
    """An order to cancel ends the order to submit: it is never sent (again)."""
    if fences:
        Command.objects.filter(
            cluster_id=cluster_id, kind=Command.Kind.SUBMIT, fence__in=fences, state__in=OPEN
        ).update(state=Command.State.DROPPED, answered_at=now, error="cancelled")


def _call_all(round_: Delivery, commands: Sequence[Command]) -> bool:
    """Calls side by side, keeping the lease alive; False when the cluster does not answer.

    The threads touch no database: results are recorded here.
    """
    reachable = True
    with ThreadPoolExecutor(round_.calls_at_once) as pool:
        waiting: dict[Future[dict[str, object]], Command] = {
            pool.submit(call, round_.backend, command): command for command in commands
        }
        while waiting:
            done, _ = wait(waiting, timeout=round_.life.total_seconds() / 3)
            for future in done:
                reachable &= _record(round_, waiting.pop(future), future)
            if waiting:
                lease.renew(
                    cluster_id=round_.cluster.id,
                    kind=Lease.Kind.DISPATCH,
                    epoch=round_.epoch,
                    until=round_.clock() + round_.life,
                )
    return reachable


def _record(round_: Delivery, command: Command, future: Future[dict[str, object]]) -> bool:
    """Writes the result of one call while the epoch is still mine; False when unreachable."""
    now = round_.clock()
    mine = Command.objects.filter(id=command.id, state=Command.State.SENT, lease_epoch=round_.epoch)
    later = now + min(RETRY_FIRST * 2 ** min(command.tries, 10), RETRY_CAP)
    tries = command.tries + 1
    try:
        answer = future.result()
    except BackendRejectedError as error:
        logger.warning("%s refused %s: %s", round_.cluster.name, command.key, error.words)
        mine.update(
            state=Command.State.REJECTED,
            answered_at=now,
            tries=tries,
            error=error.words,
            answer={"code": error.code},
        )
        return True
    except BackendUnavailableError as error:
        mine.update(state=Command.State.WAITING, not_before=later, tries=tries, error=error.words)
        logger.warning("%s is away (%s): %s", round_.cluster.name, command.key, error.words)
        return False
    except BackendAmbiguousError as error:
        mine.update(not_before=later, tries=tries, error=error.words)
        logger.warning("%s: %s is ambiguous: %s", round_.cluster.name, command.key, error.words)
        return False
    except BackendError as error:
        raise AssertionError("the protocol knows three errors") from error
    mine.update(state=Command.State.DONE, answered_at=now, tries=tries, error="", answer=answer)
    return True

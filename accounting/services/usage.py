"""Being told what ran: runs start, change class and end. Telling twice is telling once.

Times are milliseconds on the cluster's own clock unless a name says `ours`; `now` is our clock.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F

from accounting.core.runs import Known, NewEnd, Settlement, Told, interval_id, settle
from accounting.models import UsageInterval
from accounting.selectors.costs import UNPOSTED
from accounting.services.cuts import after_cut, cut_at
from clusters.models import Cluster
from kit.bulk import among, insert_rows
from kit.errors import ConflictError, MusterError
from kit.intervals import DAY_MS, from_ms

SETTLE_MS = 600_000  # the end of a run that ended before a midnight is told within so long
_KNOWN = [column.name for column in fields(Known)]


class AlreadyPostedError(MusterError):
    """What is posted is not changed; a correction is a counter-transfer."""

    code, status, title = "already_posted", 409, "This usage is posted already"


class UsageRefusedError(ConflictError):
    """A told run contradicts what is known of its attempt."""

    code, status, title = "usage_refused", 409, "The run contradicts what is known"


@dataclass(frozen=True, slots=True)
class RunFact:
    """One run as the backend reports it, with whose it is as plain values.

    `job_id` is the job's public id. [run_start_ms, run_end_ms) is on the cluster's clock, None
    while it lasts. `service_class` is the class at the run's start.
    """

    attempt_id: UUID
    job_id: UUID
    job_name: str
    tenant_id: UUID
    user_id: UUID
    user_name: str
    flavor: str
    cluster_id: UUID
    service_class: str
    gpus: int
    run_start_ms: int
    run_end_ms: int | None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunsTold:
    """What became of each told run, in the order given; `why` by attempt for what did not hold."""

    told: tuple[Told, ...]
    why: Mapping[UUID, str]


def start_usage(
    *,
    attempt_id: UUID,
    job_id: UUID,
    job_name: str,
    tenant_id: UUID,
    user_id: UUID,
    user_name: str,
    labels: Mapping[str, str],
    flavor: str,
    cluster_id: UUID,
    service_class: str,
    gpus: int,
    run_start_ms: int,
    now: datetime,
) -> bool:
    """Opens the first interval of a run; False when it is known already.

    Raises:
        UsageRefusedError: another run of the attempt is open.
    """
    fact = RunFact(
        attempt_id=attempt_id,
        job_id=job_id,
        job_name=job_name,
        tenant_id=tenant_id,
        user_id=user_id,
        user_name=user_name,
        labels=labels,
        flavor=flavor,
        cluster_id=cluster_id,
        service_class=service_class,
        gpus=gpus,
        run_start_ms=run_start_ms,
        run_end_ms=None,
    )
    return record_run(fact=fact, now=now) == Told.STARTED


@transaction.atomic
def stop_usage(*, attempt_id: UUID, run_start_ms: int, run_end_ms: int, now: datetime) -> bool:
    """Ends a run, or corrects its end where nothing beyond is posted; False when nothing changed.

    Raises:
        UsageRefusedError: the run is not known, or ends before it starts.
        AlreadyPostedError: usage beyond this end is posted. Nothing is changed; `record_runs`
            instead keeps the report, closes the run where it is posted to and goes on.
    """
    known = _known([attempt_id], lock=True)[attempt_id]
    if not any(piece.run_start_ms == run_start_ms for piece in known):
        raise UsageRefusedError("No such run of the attempt is known; tell its start first.")
    settlement = settle(known, run_start_ms, run_end_ms)
    if settlement.told == Told.REFUSED:
        raise UsageRefusedError(f"The run's end is refused: {settlement.why}.")
    if settlement.told == Told.CORRECTION_DUE:
        raise AlreadyPostedError(f"The run's end is not changed: {settlement.why}.")
    _write_ends(settlement.ends, now)
    return settlement.told == Told.CHANGED


@transaction.atomic
def forget_open(*, attempt_ids: Collection[UUID], now: datetime) -> int:
    """Ends runs whose end nobody can tell: where they are posted to, else where they began."""
    open_ = UsageInterval.objects.filter(attempt_id__in=attempt_ids, ended_ms=None)
    return open_.update(ended_ms=F("metered_ms"), reported_end_ms=F("metered_ms"), ended_at=now)


def record_run(*, fact: RunFact, now: datetime) -> Told:
    """Tells one run, whatever is known of it: open, ended, or seen only after its end.

    Raises:
        UsageRefusedError: see `start_usage`.
    """
    result = record_runs(facts=[fact], now=now)
    if result.told[0] == Told.REFUSED:
        raise UsageRefusedError(f"The run is refused: {result.why[fact.attempt_id]}.")
    return result.told[0]


@transaction.atomic
def record_runs(*, facts: Sequence[RunFact], now: datetime) -> RunsTold:
    """Tells many runs in a constant number of statements; one when nothing is new.

    A run that contradicts what is known is refused by itself (`Told.REFUSED`) and does not hold up
    the others; the next report tells it again. A run that ended before what is posted of it is
    closed there, its reported end is kept, and it is `Told.CORRECTION_DUE`.
    """
    settled, _ = _settle_all(facts, _known({fact.attempt_id for fact in facts}, lock=False))
    changing = {
        fact.attempt_id
        for fact, settlement in zip(facts, settled, strict=True)
        if settlement.ends or settlement.told == Told.STARTED
    }
    if changing:
        _write([fact for fact in facts if fact.attempt_id in changing], now)
    return RunsTold(
        tuple(settlement.told for settlement in settled),
        {
            fact.attempt_id: settlement.why
            for fact, settlement in zip(facts, settled, strict=True)
            if settlement.why
        },
    )


def confirm_runs(*, cluster_id: UUID, lasting: Mapping[UUID, int], read_ms: int) -> int:
    """Notes that runs lasted when their cluster was read (our clock); of how many intervals.

    `lasting` gives by attempt the start of the run; one that is in doubt is not among them. They may
    be posted up to the last midnight that is settled then: what ended before it was told by now. One
    look where no run crosses a midnight.
    """
    skew_ms = Cluster.objects.values_list("clock_skew_ms", flat=True).get(id=cluster_id)
    midnight_ms = (read_ms + skew_ms - SETTLE_MS) // DAY_MS * DAY_MS
    crossing = UsageInterval.objects.filter(
        UNPOSTED,
        cluster_id=cluster_id,
        reported_end_ms=None,
        metered_ms__lt=midnight_ms,
        confirmed_ms__lt=midnight_ms,
    )
    found = [
        key
        for key, attempt_id, start_ms in crossing.values_list("id", "attempt_id", "run_start_ms")
        if lasting.get(attempt_id) == start_ms
    ]
    if not found:
        return 0
    return crossing.filter(id__in=among(found)).update(confirmed_ms=midnight_ms)


def _write(facts: Sequence[RunFact], now: datetime) -> None:
    """Settles the facts anew on locked rows (they may have changed since) and writes."""
    settled, after = _settle_all(facts, _known({fact.attempt_id for fact in facts}, lock=True))
    # Ends first: an attempt has one open interval at a time.
    _write_ends([end for settlement in settled for end in settlement.ends], now)
    starting = [
        fact
        for fact, settlement in zip(facts, settled, strict=True)
        if settlement.told == Told.STARTED
    ]
    skews = dict(
        Cluster.objects.filter(id__in={fact.cluster_id for fact in starting}).values_list(
            "id", "clock_skew_ms"
        )
    )
    # Two workers may tell the same new runs at once: the first one's rows stand. In one order, so
    # that neither waits for the other.
    intervals = [
        _first_interval(fact, piece, skews[fact.cluster_id], now)
        for fact in starting
        for piece in after[fact.attempt_id]
        if piece.run_start_ms == fact.run_start_ms  # the one piece of a run that starts now
    ]
    intervals.sort(key=lambda interval: interval["id"])
    insert_rows(UsageInterval, intervals, {"started_at": now}, ignore_conflicts=True)


def _settle_all(
    facts: Iterable[RunFact], known: Mapping[UUID, Sequence[Known]]
) -> tuple[list[Settlement], dict[UUID, list[Known]]]:
    """One settlement a fact, and every attempt's intervals as they are after all of them.

    What earlier facts of the same call change counts for later ones; of an attempt, runs that are
    known count as earlier than new ones, which may be beside them until they end.
    """
    after = {attempt: list(pieces) for attempt, pieces in known.items()}

    def is_new(fact: RunFact) -> bool:
        return all(piece.run_start_ms != fact.run_start_ms for piece in known[fact.attempt_id])

    settled: dict[int, Settlement] = {}
    for place, fact in sorted(enumerate(facts), key=lambda one: is_new(one[1])):
        pieces = after[fact.attempt_id]
        settlement = settled[place] = _settle(pieces, fact)
        if settlement.told == Told.STARTED:
            pieces.append(_start(fact))
        if settlement.ends:
            ends = {end.id: end for end in settlement.ends}
            pieces[:] = [_with_end(piece, ends.get(piece.id)) for piece in pieces]
    return [settled[place] for place in sorted(settled)], after


def _settle(pieces: Sequence[Known], fact: RunFact) -> Settlement:
    """A run without GPUs is not metered: it never held any, or the report is not to be trusted."""
    if fact.gpus > 0:
        return settle(pieces, fact.run_start_ms, fact.run_end_ms)
    if fact.run_end_ms == fact.run_start_ms:
        return Settlement(Told.UNCHANGED)
    return Settlement(Told.REFUSED, why="it held no GPUs")


def _start(fact: RunFact) -> Known:
    """The first interval of a run, as it is when nothing was known of the run."""
    return Known(
        id=interval_id(fact.attempt_id, fact.run_start_ms, fact.run_start_ms),
        run_start_ms=fact.run_start_ms,
        started_ms=fact.run_start_ms,
        ended_ms=fact.run_end_ms,
        metered_ms=fact.run_start_ms,
        reported_end_ms=fact.run_end_ms,
    )


def _with_end(piece: Known, end: NewEnd | None) -> Known:
    if end is None:
        return piece
    return replace(piece, ended_ms=end.ended_ms, reported_end_ms=end.reported_end_ms)


def _known(attempt_ids: Collection[UUID], *, lock: bool) -> dict[UUID, list[Known]]:
    """Every interval of the attempts, oldest first; locked in one order, so nobody deadlocks."""
    rows = UsageInterval.objects.filter(attempt_id__in=among(attempt_ids)).order_by("id")
    if lock:
        rows = rows.select_for_update()
    found: dict[UUID, list[Known]] = {attempt_id: [] for attempt_id in attempt_ids}
    for attempt_id, *values in rows.values_list("attempt_id", *_KNOWN):
        found[attempt_id].append(Known(*values))
    for pieces in found.values():
        pieces.sort(key=lambda piece: piece.started_ms)
    return found


def _write_ends(ends: Sequence[NewEnd], now: datetime) -> None:
    """Writes every end in one statement (its cost grows with the rows, not with their square)."""
    if not ends:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE accounting_usageinterval AS kept"
            " SET ended_ms = told.ended, reported_end_ms = told.reported, ended_at = %s"
            " FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) AS told(id, ended, reported)"
            " WHERE kept.id = told.id",
            [
                now,
                [end.id for end in ends],
                [end.ended_ms for end in ends],
                [end.reported_end_ms for end in ends],
            ],
        )


def _first_interval(fact: RunFact, start: Known, skew_ms: int, now: datetime) -> dict[str, Any]:
    return {
        "id": start.id,
        "attempt_id": fact.attempt_id,
        "job_id": fact.job_id,
        "job_name": fact.job_name,
        "tenant_id": fact.tenant_id,
        "user_id": fact.user_id,
        "user_name": fact.user_name,
        "labels": dict(fact.labels),
        "flavor_id": fact.flavor,
        "cluster_id": fact.cluster_id,
        "service_class": fact.service_class,
        "gpus": fact.gpus,
        "run_start_ms": start.run_start_ms,
        "started_ms": start.started_ms,
        "ended_ms": start.ended_ms,
        "reported_end_ms": start.reported_end_ms,
        "metered_ms": start.metered_ms,
        "skew_ms": skew_ms,
        "ended_at": None if start.ended_ms is None else now,
    }


@transaction.atomic
def change_class(
    *, attempt_ids: Collection[UUID], service_class: str, at_ms: int, now: datetime
) -> set[UUID]:
    """Changes the class of what the attempts use from `at_ms` (our clock) on; those changed.

    Their open interval is cut there. The moment is mapped onto the cluster's clock by the measured
    skew and clamped into the run, and behind what is posted of it: what is posted is not changed.
    Left alone is an attempt that uses nothing now, or has the class already. Four statements.
    """
    open_ = (
        UsageInterval.objects.select_for_update()
        .filter(attempt_id__in=attempt_ids, ended_ms=None)
        .exclude(service_class=service_class)
        .order_by("id")
    )
    whole, cut = [], []
    for interval in open_:
        cut_ms = cut_at(interval, at_ms)
        if cut_ms == interval.started_ms:
            interval.service_class, interval.price_missing = service_class, False
            whole.append(interval)
        else:
            cut.append((interval, cut_ms))
    UsageInterval.objects.bulk_update(whole, ["service_class", "price_missing"])
    after = [after_cut(interval, cut_ms, service_class, from_ms(at_ms)) for interval, cut_ms in cut]
    for interval, cut_ms in cut:
        interval.ended_ms, interval.ended_at = cut_ms, now
    UsageInterval.objects.bulk_update([one for one, _ in cut], ["ended_ms", "ended_at"])
    UsageInterval.objects.bulk_create(after)
    return {interval.attempt_id for interval in (*whole, *after)}

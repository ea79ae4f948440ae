"""Working off simulations: taken under a lease, replayed on the real core, written under a fence.

Whoever is killed is followed by another when the lease has run out; after MOST_TRIES it has failed.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from federation.core.plan import Plan
from federation.core.replay import PastJob, Setting, replay
from federation.core.replay.told import as_json
from federation.models import Simulation
from federation.selectors.history import jobs_between, past_jobs, setting_at_rest
from federation.selectors.simulations import due, gone, is_simulation_due
from federation.services.simulations import lock_simulations, policy_rows, tell, within
from kit.errors import MusterError

logger = logging.getLogger(__name__)
State = Simulation.State
LEASE = timedelta(seconds=60)
RENEWED_EACH = timedelta(seconds=2)
LONGEST = timedelta(hours=1)
MOST_TRIES = 3
MOST_JOBS = 200_000
MOST_FAULTS = 5
TOLD_EACH = 5  # per cent
Clock = Callable[[], datetime]


class StoppedError(Exception):
    """It is not ours any more, or we are to end."""


class TooLongError(Exception):
    """It took longer than one may."""


def take_simulation(*, now: datetime, life: timedelta = LEASE) -> Simulation | None:
    """Takes the oldest that waits, or whose worker is gone. None: there is none, or another works.

    One that MOST_TRIES workers did not survive has failed.
    """
    with transaction.atomic():
        lock_simulations()
        for it in gone(now).filter(tries__gte=MOST_TRIES):
            _end(it, now, State.FAILED, failure=f"Its worker ended {it.tries} times before it did.")
        if not is_simulation_due(now):
            return None
        found = due(now)[0]
        found.state, found.progress = State.RUNNING, 0
        found.epoch, found.tries = found.epoch + 1, found.tries + 1
        found.started_at, found.lease_until = found.started_at or now, now + life
        found.save()
        tell(found, now)
        return found


def work_off(*, clock: Clock, goes_on: Callable[[], bool] = lambda: True) -> int:
    """Works until nothing is due, or `goes_on` says no; how many simulations ended."""
    count = 0
    while goes_on():
        it = take_simulation(now=clock())
        if it is None:
            break
        count += _worked(it, clock, goes_on)
    return count


def _worked(it: Simulation, clock: Clock, goes_on: Callable[[], bool]) -> bool:
    """Whether it came to an end; given back otherwise, or left to who took it."""
    try:
        result = _Run(it, clock, goes_on).result()
    except StoppedError:
        _give_back(it)
        return False
    except (MusterError, TooLongError) as error:
        _end(it, clock(), State.FAILED, failure=_words(error))
    except Exception:
        logger.exception("simulation %s", it.pk)
        _end(it, clock(), State.FAILED, failure="A fault of ours; the worker's log says which.")
        raise
    else:
        _end(it, clock(), State.DONE, result=result, progress=100)
    return True


class _Run:
    """One simulation as it goes: its replays one after the other."""

    def __init__(self, it: Simulation, clock: Clock, goes_on: Callable[[], bool]) -> None:
        self._it, self._clock, self._goes_on = it, clock, goes_on
        self._began = self._renewed = clock()
        self._told = 0

    def result(self) -> dict[str, Any]:
        """What came of it, as the API shows it.

        Raises:
            StoppedError: it was cancelled, taken over, or we are to end.
            TooLongError: it is too large.
            MusterError: a table does not fit the federation any more.
        """
        it, now = self._it, self._clock()
        if jobs_between(it.from_at, it.until_at).count() > MOST_JOBS:
            raise TooLongError(f"It has more than {MOST_JOBS} jobs; ask for fewer weeks.")
        history = past_jobs(it.from_at, it.until_at, now)
        tables = {name: text for name in ("quotas", "against") if (text := getattr(it, name))}
        settings = {name: _setting(name, text, now) for name, text in tables.items()}
        outcomes = []
        for number, (name, setting) in enumerate(settings.items()):
            watch = self._watch(history.jobs, number, len(tables))
            outcomes.append({"quotas": name, **as_json(replay(history.jobs, setting, watch=watch))})
        return {
            "v": 1,
            "jobs": len(history.jobs),
            "left_out": dict(history.left_out),
            "gpus": _gpus(next(iter(settings.values()))),
            "outcomes": outcomes,
        }

    def _watch(self, jobs: Sequence[PastJob], number: int, runs: int) -> Callable[[Plan], None]:
        """Says how far the arrivals have come, and stops what is to stop."""
        moments = [job.arrival_ms for job in jobs]
        first_ms = min(moments, default=0)
        span_ms = max(1, max(moments, default=0) - first_ms)

        def watch(plan: Plan) -> None:
            now = self._clock()
            if now - self._renewed < RENEWED_EACH:
                return
            if now - self._began > LONGEST:
                raise TooLongError("It took longer than an hour; ask for fewer weeks.")
            part = min(1, (plan.basis.now_ms - first_ms) / span_ms)
            self._renew(int(100 * (number + part) / runs), now)

        return watch

    def _renew(self, progress: int, now: datetime) -> None:
        it, self._renewed = self._it, now
        if not self._goes_on():
            raise StoppedError
        it.progress, it.lease_until = min(progress, 99), now + LEASE
        with transaction.atomic():
            if not _mine(it).update(progress=it.progress, lease_until=it.lease_until):
                raise StoppedError
            if it.progress >= self._told + TOLD_EACH:
                self._told = it.progress
                tell(it, now)


def _words(error: MusterError | TooLongError) -> str:
    """Why it failed, with the rows and fields that are wrong."""
    told = [
        f"{', '.join(one.pointer[1:].replace('/rows/', '/row ').split('/'))}: {one.detail}"
        for one in getattr(error, "errors", ())[:MOST_FAULTS]
    ]
    return " ".join(told) or str(error)


def _setting(field: str, text: str, now: datetime) -> Setting:
    with within(field):
        return setting_at_rest(policy_rows(text, now), now)


def _gpus(setting: Setting) -> dict[str, int]:
    """GPUs of the fleet by flavor."""
    sums: dict[str, int] = {}
    for cluster in setting.clusters:
        for flavor in cluster.flavors:
            gpus = sum(node.total.gpus for node in flavor.nodes)
            sums[flavor.name] = sums.get(flavor.name, 0) + gpus
    return sums


def _mine(it: Simulation) -> Any:
    """The row, if nobody took it over, stopped or deleted it."""
    return Simulation.objects.filter(pk=it.pk, epoch=it.epoch, state=State.RUNNING)


def _end(it: Simulation, now: datetime, state: State, **fields: Any) -> None:
    with transaction.atomic():
        if _mine(it).update(state=state, ended_at=now, lease_until=None, **fields):
            it.state, it.progress = state, fields.get("progress", it.progress)
            tell(it, now)


def _give_back(it: Simulation) -> None:
    """It waits again; that a worker was told to end is not held against it."""
    _mine(it).update(state=State.QUEUED, lease_until=None, tries=F("tries") - 1, progress=0)

"""Orders, jobs and simulations that are over go when they are old enough. The ledger never does.

Tables are walked in slabs by id, oldest first, each slab a transaction: what is young is not read,
and who is killed in the middle goes on with the next call. What is open, still shown by a cluster
or not wholly in the ledger stays, however old it is.
"""

import logging
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from accounting.selectors.ledger import unsettled_jobs
from clusters.models import Command
from clusters.selectors.traffic import OPEN
from federation.core.lifecycle import FINAL
from federation.models import Attempt, Job, Simulation, Telling
from kit.intervals import DAY_MS

logger = logging.getLogger(__name__)
SLAB = 1_000
SIMULATIONS_KEPT_DAYS = 90
_SHOWN = "SELECT DISTINCT jsonb_path_query(gangs, '$[*].fence') #>> '{}' FROM clusters_observation"


def prune_orders(*, keep_days: int, now: datetime) -> int:
    """Deletes orders that were answered so many days ago; their number. 0 days = for ever.

    An order stays while its attempt is open, or while the cluster shows something under its fence:
    both are judged by what was ordered.
    """
    if not keep_days:
        return 0
    cutoff = now - timedelta(milliseconds=keep_days * DAY_MS)
    shown = _shown_fences()
    count = 0
    for ids in _slabs(Command.objects.all(), "created_at", cutoff):
        over = Command.objects.filter(id__in=ids, answered_at__lt=cutoff).exclude(state__in=OPEN)
        fences = set(over.values_list("fence", flat=True))
        alive = Attempt.objects.filter(fence__in=fences).exclude(state=Attempt.State.ENDED)
        kept = shown | set(alive.values_list("fence", flat=True))
        count += over.filter(fence__in=fences - kept).delete()[0]
    return _said(count, "orders", keep_days)


def prune_jobs(*, keep_days: int, now: datetime) -> int:
    """Deletes jobs that ended so many days ago, with attempts and orders; how many jobs. 0 = none.

    A job stays while usage of it is not in the ledger as it was reported, and as `prune_orders`
    says. Usage and ledger name jobs by plain values: they stay, and add up as before.
    """
    if not keep_days:
        return 0
    cutoff = now - timedelta(milliseconds=keep_days * DAY_MS)
    shown = _shown_fences()
    count = sum(
        _drop_jobs(ids, cutoff, shown) for ids in _slabs(Job.objects.all(), "submitted_at", cutoff)
    )
    return _said(count, "jobs", keep_days)


def prune_simulations(*, now: datetime) -> int:
    """Deletes simulations that ended SIMULATIONS_KEPT_DAYS ago; their number."""
    cutoff = now - timedelta(milliseconds=SIMULATIONS_KEPT_DAYS * DAY_MS)
    count, _ = Simulation.objects.filter(ended_at__lt=cutoff).delete()
    return _said(count, "simulations", SIMULATIONS_KEPT_DAYS)


@transaction.atomic
def _drop_jobs(ids: Collection[int], cutoff: datetime, shown: Collection[str]) -> int:
    over = dict(
        Job.objects.select_for_update(skip_locked=True)
        .filter(id__in=ids, state__in=[state.value for state in FINAL], ended_at__lt=cutoff)
        .values_list("id", "uuid")
    )
    fences = dict(Attempt.objects.filter(job__in=over).values_list("fence", "job"))
    alive = Attempt.objects.filter(job__in=over).exclude(state=Attempt.State.ENDED)
    ordered = Command.objects.filter(fence__in=fences, state__in=OPEN)
    kept = set(alive.values_list("job", flat=True))
    kept |= {fences[fence] for fence in ordered.values_list("fence", flat=True)}
    kept |= {fences[fence] for fence in fences.keys() & shown}
    unsettled = unsettled_jobs(over.values())
    gone = [key for key, uuid in over.items() if key not in kept and uuid not in unsettled]
    of_gone = [fence for fence, job in fences.items() if job in set(gone)]
    Command.objects.filter(fence__in=of_gone).delete()
    Attempt.objects.filter(job__in=gone).delete()
    Telling.objects.filter(job__in=gone).delete()
    Job.objects.filter(id__in=gone).delete()
    return len(gone)


def _slabs(rows: QuerySet[Any], moment: str, cutoff: datetime) -> Iterator[list[int]]:
    """Ids of rows made before the cutoff, oldest first. Ids grow with time: it ends where none is."""
    last = 0
    while True:
        slab = list(
            rows.filter(id__gt=last).order_by("id").values_list("id", moment)[:SLAB],
        )
        old = [key for key, at in slab if at < cutoff]
        if not old:
            return
        yield old
        last = slab[-1][0]


def _shown_fences() -> set[str]:
    """Every fence of ours under which a cluster shows something in its newest reading."""
    with connection.cursor() as cursor:
        cursor.execute(_SHOWN)
        return {fence for (fence,) in cursor.fetchall()}


def _said(count: int, what: str, days: int) -> int:
    if count:
        logger.info("deleted %d %s older than %d days", count, what, days)
    return count

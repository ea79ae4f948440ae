"""What limits ask of jobs: read only where there are limits of people or labels."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import Q

from federation.core.snapshot import Holding
from federation.models import Job
from federation.models.jobs import ACTIVE, WAITING
from kit.bulk import among
from quotas.core.limits import Limited, LimitRow, Pair, Scope
from quotas.selectors import limit_rows


def limited(held: Iterable[Holding]) -> Limited:
    """All limits, and what they ask of waiting jobs and of those that hold GPUs.

    One query without limits, or with limits of tenants alone; one more for people, one for labels.
    """
    return limited_by(limit_rows(), held)


def limited_by(rows: tuple[LimitRow, ...], held: Iterable[Holding]) -> Limited:
    """These limits, and what they ask of waiting jobs and of those that hold GPUs."""
    scopes = {row.scope for row in rows}
    people = _people(held) if Scope.USER in scopes else {}
    labels = _labels(rows, held) if Scope.LABEL in scopes else {}
    return Limited(rows, people, labels)


def _people(held: Iterable[Holding]) -> Mapping[int, UUID]:
    """Whose the jobs are that hold GPUs."""
    jobs = among((one.job for one in held), "bigint")
    return dict(Job.objects.filter(id__in=jobs).order_by().values_list("id", "user_id"))


def _labels(rows: Iterable[LimitRow], held: Iterable[Holding]) -> Mapping[int, frozenset[Pair]]:
    """The labels of which limits speak, by job that bears any."""
    named = {(row.name, row.text) for row in rows if row.scope is Scope.LABEL}
    counted = WAITING | ACTIVE | Q(id__in=among((one.job for one in held), "bigint"))
    found = Job.objects.filter(counted, labels__has_any_keys=sorted({name for name, _ in named}))
    sets: dict[frozenset[Pair], frozenset[Pair]] = {}  # most are the same
    labels = {}
    for job, borne in found.order_by().values_list("id", "labels"):
        pairs = named.intersection(borne.items())
        if pairs:
            known = frozenset(pairs)
            labels[job] = sets.setdefault(known, known)
    return labels

"""Notes that a cluster looks rebuilt, and says so to those whose attempts were lost with it."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from clusters.models import Cluster
from federation.core.rebuilt import Numbered, evidence, explanation, number_of
from federation.models import Attempt
from federation.selectors.attempts import last_reading
from federation.selectors.fleet import OPEN_ATTEMPTS
from kit.intervals import to_ms
from tenancy.services.records import Change, ring, write_events


def note_rebuilt(*, cluster_id: UUID, now: datetime) -> str:
    """Looks whether the lost attempts of a cluster mean that it was rebuilt; the words, or "".

    Nothing is ended and nothing is started: the jobs stay `unknown` until somebody acts. Called
    after reconciling, when something was lost.
    """
    objects = last_reading(cluster_id).objects
    lost, known = [], []
    rows = OPEN_ATTEMPTS.filter(cluster_id=cluster_id, accepted_at__isnull=False)
    for attempt in rows.select_related("cluster"):
        found = objects.get(attempt.fence, ())
        if attempt.state == Attempt.State.LOST:
            lost.append(attempt)
        elif found:
            numbers = [number_of(seen.backend_id) for seen in found]
            known.append(Numbered(to_ms(attempt.bound_at), max(numbers)))
    why = evidence([_numbered(attempt) for attempt in lost], known)
    return _write(lost, why, now) if why else ""


def _numbered(attempt: Attempt) -> Numbered:
    return Numbered(to_ms(attempt.bound_at), number_of(attempt.backend_id))


@transaction.atomic
def _write(lost: list[Attempt], why: str, now: datetime) -> str:
    cluster = lost[0].cluster
    words = explanation(cluster.name, why)
    told = OPEN_ATTEMPTS.filter(id__in=[one.id for one in lost], state=Attempt.State.LOST)
    if not told.exclude(backend_reason=words).update(backend_reason=words):
        return ""
    Cluster.everything.filter(pk=cluster.pk).update(rebuilt_at=now)
    data = {"words": words, "attempts": len(lost)}
    write_events(changes=[Change("cluster.rebuilt", cluster.name, None, "lost", data)], now=now)
    ring()
    return words

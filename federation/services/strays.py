"""Living objects of attempts that are over with us: found in what was seen, and cancelled."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from clusters.models import Command
from clusters.services.orders import order_orphan_ends, orphan_key
from federation.selectors.attempts import LastReading, ended_attempts
from kit.intervals import to_ms


def living_orphans(cluster_id: UUID, last: LastReading) -> list[tuple[str, str]]:
    """(fence, account) of living objects whose attempt is over with us: they must not run.

    A fence that we do not know at all is somebody else's, or an older database's: untouched.
    """
    alive = {
        (fence, seen.account)
        for fence, objects in last.objects.items()
        for seen in objects
        if not seen.state.is_final
    }
    if not alive:
        return []
    over = ended_attempts({fence for fence, _ in alive})
    keys = {
        orphan_key(cluster_id, fence, account): (fence, account)
        for fence, account in sorted(alive)
        if fence in over and over[fence].cluster_id == cluster_id
    }
    known = dict(Command.objects.filter(key__in=keys).values_list("key", "answered_at"))
    return [
        orphan
        for key, orphan in keys.items()
        if key not in known or _cancelled_before(known[key], last)
    ]


def _cancelled_before(answered_at: datetime | None, last: LastReading) -> bool:
    """Whether the object lives on in a reading begun after its cancel was answered."""
    reading = last.reading
    return answered_at is not None and reading is not None and reading.begun_ms > to_ms(answered_at)


def cancel_orphans(cluster_id: UUID, orphans: Sequence[tuple[str, str]], now: datetime) -> None:
    """Orders that they end."""
    for fence, account in orphans:
        order_orphan_ends(cluster_id=cluster_id, fence=fence, accounts=[account], now=now)

"""Leases: one holder a cluster and kind. Time limits the holder, the epoch fences its results."""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from clusters.models import Lease

BACKOFF_FIRST = timedelta(seconds=1)
BACKOFF_CAP = timedelta(seconds=60)
REST_CAP = timedelta(minutes=5)

_TAKE = """
INSERT INTO clusters_lease (cluster_id, kind, holder, epoch, expires_at, failures)
SELECT id, %(kind)s, %(holder)s, 1, %(until)s, 0
FROM clusters_cluster WHERE id = %(cluster)s AND state <> 'gone'
ON CONFLICT (cluster_id, kind) DO UPDATE
SET holder = excluded.holder, epoch = clusters_lease.epoch + 1, expires_at = excluded.expires_at
WHERE clusters_lease.expires_at <= %(now)s
RETURNING epoch
"""


def take(
    *, cluster_id: UUID, kind: Lease.Kind, holder: str, life: timedelta, now: datetime
) -> int | None:
    """Takes the lease when it is free; its new epoch, or None when somebody holds it.

    None, too, when the cluster is no member any more.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _TAKE,
            {
                "cluster": cluster_id,
                "kind": kind.value,
                "holder": holder,
                "until": now + life,
                "now": now,
            },
        )
        row = cursor.fetchone()
    return row[0] if row else None


def renew(*, cluster_id: UUID, kind: Lease.Kind, epoch: int, until: datetime) -> bool:
    """Moves the end of a lease that is still mine; False when it was taken over."""
    return bool(
        Lease.objects.filter(cluster_id=cluster_id, kind=kind, epoch=epoch).update(expires_at=until)
    )


def give_back(*, cluster_id: UUID, kind: Lease.Kind, epoch: int, now: datetime) -> None:
    """Frees the lease after success; the failures are forgotten."""
    Lease.objects.filter(cluster_id=cluster_id, kind=kind, epoch=epoch).update(
        expires_at=now, failures=0
    )


def patience(error: Exception) -> timedelta | None:
    """How long the cluster asked to be left alone, within reason; None = it did not."""
    asked_s = getattr(error, "retry_after_s", None)
    if asked_s is None:
        return None
    longest_s = REST_CAP.total_seconds()  # compared as numbers: no timedelta holds 400 digits
    return max(BACKOFF_FIRST, timedelta(seconds=min(asked_s, longest_s)))


def rest(*, cluster_id: UUID, kind: Lease.Kind, epoch: int, until: datetime) -> None:
    """Keeps the lease taken for as long as the cluster asked to be left alone.

    It is no failure: the cluster answers.
    """
    Lease.objects.filter(cluster_id=cluster_id, kind=kind, epoch=epoch).update(
        expires_at=until, failures=0
    )


def back_off(*, cluster_id: UUID, kind: Lease.Kind, epoch: int, now: datetime) -> None:
    """Keeps the lease taken for the back-off (x2 up to a cap): the breaker of the cluster.

    The jitter is the epoch's: deterministic, and different from cluster to cluster and try to try.
    """
    row = Lease.objects.filter(cluster_id=cluster_id, kind=kind, epoch=epoch).first()
    if row is None:
        return
    wait = min(BACKOFF_FIRST * 2 ** min(row.failures, 10), BACKOFF_CAP)
    jitter = wait * ((epoch * 7919 + cluster_id.int) % 100) / 400
    Lease.objects.filter(id=row.id, epoch=epoch).update(
        expires_at=now + wait - jitter, failures=row.failures + 1
    )

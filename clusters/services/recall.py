"""After a restore: no traffic until every cluster was asked what became of what we forgot.

Recovery holds both leases of every cluster, so no worker observes or delivers; and a cluster that
was not seen takes nothing new. Both are rules that hold anyway, so nothing else needs to know.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import connection, transaction

from clusters.backends import connect
from clusters.core.backend import BackendError
from clusters.core.observation import Observation as Seen
from clusters.models import Cluster, Command, Lease, Observation
from clusters.selectors.connection import connection_of
from clusters.selectors.traffic import OPEN
from clusters.services.observe import store
from kit.crypto import UndecryptableError
from kit.intervals import to_ms

HOLDER = "recovery since "
FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)
# Clocks and lags: what ended a little before the last reading may not have been in it.
MARGIN = timedelta(hours=1)
LONGEST = timedelta(days=60)
LEFT = "it left meanwhile; run this again"

_HOLD = """
INSERT INTO clusters_lease (cluster_id, kind, holder, epoch, expires_at, failures)
VALUES (%(cluster)s, %(kind)s, %(holder)s, 1, %(until)s, 0)
ON CONFLICT (cluster_id, kind) DO UPDATE
SET holder = excluded.holder, epoch = clusters_lease.epoch + 1, expires_at = excluded.expires_at
WHERE NOT starts_with(clusters_lease.holder, %(mark)s)
"""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a cluster answered: `words` say what is wrong, empty = it told all."""

    cluster_id: UUID
    name: str
    words: str


@transaction.atomic
def hold_traffic(*, since: datetime | None, now: datetime) -> list[UUID]:
    """Stops all traffic with every cluster until `free_traffic`; the clusters, by name.

    Orders to submit that wait may have been sent in the time we forgot: they are marked so, and
    looked for before they are sent again. Holding twice is holding once: the moment since which a
    cluster is to be asked stays that of the first time.
    """
    clusters = list(Cluster.objects.order_by("name").values_list("id", flat=True))
    begun = dict(Observation.objects.values_list("cluster_id", "begun_at"))
    for cluster_id in clusters:
        from_ = since or begun.get(cluster_id, now - LONGEST) - MARGIN
        for kind in Lease.Kind.values:
            _hold(cluster_id, kind, f"{HOLDER}{to_ms(from_)}")
    Cluster.objects.filter(id__in=clusters).update(last_seen_at=None)
    Command.objects.filter(kind=Command.Kind.SUBMIT, state__in=OPEN, sent_at=None).update(
        state=Command.State.SENT, sent_at=now
    )
    return clusters


def _hold(cluster_id: UUID, kind: str, holder: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _HOLD,
            {
                "cluster": cluster_id,
                "kind": kind,
                "holder": holder,
                "until": FOR_EVER,
                "mark": HOLDER,
            },
        )


def recall(*, cluster_id: UUID, clock: Callable[[], datetime]) -> Recalled:
    """Asks a held cluster for all that is ours since the moment we remember, and stores it.

    It stays unseen to the arbiter: nothing may be bound before all clusters were asked.
    """
    cluster = Cluster.everything.get(id=cluster_id)
    if cluster.state == Cluster.State.GONE:
        return Recalled(cluster_id, cluster.name, LEFT)
    since_ms = _since_ms(cluster_id)
    begun = clock()
    try:
        with closing(connect(cluster.backend, connection_of(cluster))) as backend:
            seen = backend.observe(to_ms(begun), [], since_ms)
    except (BackendError, UndecryptableError) as error:
        return Recalled(cluster_id, cluster.name, str(error))
    with transaction.atomic():
        if not store(cluster_id=cluster_id, seen=_with_pinned(seen), now=clock()):
            return Recalled(cluster_id, cluster.name, LEFT)
        Cluster.objects.filter(id=cluster_id).update(last_seen_at=None)
    missing = "" if seen.accounting_answered else "its accounting does not answer"
    return Recalled(cluster_id, cluster.name, missing)


def _since_ms(cluster_id: UUID) -> int:
    lease = Lease.objects.get(cluster_id=cluster_id, kind=Lease.Kind.OBSERVE)
    return int(lease.holder.removeprefix(HOLDER))


def _with_pinned(seen: Seen) -> Seen:
    """What waits for exact nodes is known by them: no row of ours says which they are."""
    gangs = (replace(gang, nodes=gang.nodes or gang.pinned) for gang in seen.gangs)
    return replace(seen, gangs=tuple(gangs))


def free_traffic(*, now: datetime) -> int:
    """Gives the leases back; the workers read every cluster anew. How many clusters were held."""
    held = Lease.objects.filter(holder__startswith=HOLDER)
    return held.update(holder="", expires_at=now, failures=0) // len(Lease.Kind.values)


def is_held() -> bool:
    """Whether a recovery is under way."""
    return Lease.objects.filter(holder__startswith=HOLDER).exists()


def closed_secrets() -> list[str]:
    """The clusters, by name, whose stored secret none of the configured keys opens."""
    closed = []
    for cluster in Cluster.objects.order_by("name"):
        try:
            connection_of(cluster)
        except UndecryptableError:
            closed.append(cluster.name)
    return closed

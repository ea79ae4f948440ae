"""How each cluster stands with the reconciler, in numbers: for the page, the API and the metrics."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Case, Count, F, Min, Q, When

from clusters.models import Cluster, Command, Lease
from clusters.selectors.traffic import OPEN
from federation.core.repair import Kind
from federation.selectors.findings import Finding, find, members, silent_since
from kit.intervals import to_ms

DAY = timedelta(hours=24)
# Orders are numbered in order of time; this many of the newest are looked through for duplicates.
_NEWEST_ORDERS = 100_000
_DUPLICATES = """
SELECT cluster_id, sum((answer->>'duplicates')::bigint)
FROM clusters_command
WHERE id > (SELECT coalesce(max(id), 0) FROM clusters_command) - %s
  AND kind = 'submit' AND state = 'done' AND answered_at > %s AND answer->>'duplicates' <> '0'
GROUP BY cluster_id
"""


@dataclass(frozen=True, slots=True)
class Breaker:
    """Whether a cluster is called at all: after `failures` in a row not before `until`."""

    is_open: bool
    failures: int
    until: datetime | None


CLOSED = Breaker(is_open=False, failures=0, until=None)


@dataclass(frozen=True, slots=True)
class Outbox:
    """Orders that are open. `oldest_at` is when the one that is open longest became due."""

    waiting: int = 0
    sent: int = 0
    oldest_at: datetime | None = None

    @property
    def depth(self) -> int:
        """All that are not answered."""
        return self.waiting + self.sent


@dataclass(frozen=True, slots=True)
class Standing:
    """One cluster. `age_ms` is that of its last reading, None before the first.

    `duplicates_cancelled` counts the last 24 hours; `counts` the cases by kind.
    """

    cluster: Cluster
    is_reachable: bool
    age_ms: int | None
    breakers: Mapping[str, Breaker]
    outbox: Outbox
    lag_ms: int
    duplicates_cancelled: int
    counts: Mapping[Kind, int]

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return sum(self.counts.values())

    @property
    def word(self) -> str:
        """One word for people: `never seen`, `silent`, or what its configuration says."""
        if self.age_ms is None:
            return "never seen"
        if not self.is_reachable:
            return "silent"
        is_open = self.cluster.state == Cluster.State.ACTIVE
        return "open" if is_open else self.cluster.state.replace("_", " ")

    @property
    def found(self) -> list[tuple[str, int]]:
        """The kinds of which there are cases, with their numbers."""
        return [(kind.value, count) for kind, count in self.counts.items() if count]


def standings(now: datetime) -> list[Standing]:
    """Every member cluster, in the order of their names. 8 queries whatever their number."""
    clusters = members()
    return standings_of(clusters, find(clusters, now), now)


def standings_of(
    clusters: Collection[Cluster], findings: Collection[Finding], now: datetime
) -> list[Standing]:
    """The same for findings that are known already. 3 queries."""
    breakers = _breakers(now)
    outboxes = _outboxes()
    duplicates = _duplicates(now - DAY)
    counts: dict[UUID, Counter[Kind]] = {cluster.pk: Counter() for cluster in clusters}
    for finding in findings:
        counts[finding.cluster.pk][finding.kind] += 1
    return [
        Standing(
            cluster=cluster,
            is_reachable=cluster.failing_since is None and not cluster.is_silent(silent_since(now)),
            age_ms=_since(cluster.last_seen_at, now),
            breakers={
                kind.value: breakers.get((cluster.pk, kind.value), CLOSED) for kind in Lease.Kind
            },
            outbox=(outbox := outboxes.get(cluster.pk, Outbox())),
            lag_ms=_since(outbox.oldest_at, now) or 0,
            duplicates_cancelled=duplicates.get(cluster.pk, 0),
            counts={kind: counts[cluster.pk][kind] for kind in Kind},
        )
        for cluster in clusters
    ]


def _since(moment: datetime | None, now: datetime) -> int | None:
    return None if moment is None else max(0, to_ms(now) - to_ms(moment))


def _breakers(now: datetime) -> dict[tuple[UUID, str], Breaker]:
    """A lease that failed last time stays taken for the back-off: that is the breaker."""
    return {
        (lease.cluster_id, lease.kind): Breaker(
            lease.expires_at > now, lease.failures, lease.expires_at
        )
        for lease in Lease.objects.filter(failures__gt=0)
    }


def _outboxes() -> dict[UUID, Outbox]:
    """By cluster. An order that was answered and is open again counts from when it was reopened."""
    due_at: Any = Case(When(answered_at=None, then=F("created_at")), default=F("not_before"))
    rows = (
        Command.objects.filter(state__in=OPEN)
        .order_by()
        .values("cluster_id")
        .annotate(
            waiting=Count("id", filter=Q(state=Command.State.WAITING)),
            sent=Count("id", filter=Q(state=Command.State.SENT)),
            oldest_at=Min(due_at),
        )
    )
    return {
        row["cluster_id"]: Outbox(row["waiting"], row["sent"], row["oldest_at"]) for row in rows
    }


def _duplicates(since: datetime) -> dict[UUID, int]:
    with connection.cursor() as cursor:
        cursor.execute(_DUPLICATES, [_NEWEST_ORDERS, since])
        return {cluster_id: int(count) for cluster_id, count in cursor.fetchall()}

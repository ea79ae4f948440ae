"""What does not agree, or has not settled: one finding a case, found in a constant number of queries.

A finding names a case and nothing more; `federation.selectors.cases` adds the evidence.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef, Q

from clusters.core.observation import GangState
from clusters.models import Cluster, Command, Observation
from clusters.selectors.traffic import gangs_from_json
from federation.core.repair import Kind
from federation.models import Attempt
from federation.selectors.fleet import OPEN_ATTEMPTS
from kit.ids import fact_id
from kit.intervals import from_ms

# What is under way this long is a case; what is younger is every day's traffic.
SETTLE = timedelta(seconds=60)
_FINAL = [state.value for state in GangState if state.is_final]
# Objects that live where no open attempt of ours says so, twice, or in doubt; by fence.
_SEEN = """
SELECT seen.cluster_id, seen.fence, seen.is_doubtful, seen.submitted_ms,
       attempt.id IS NULL OR attempt.state = 'ended' OR attempt.cluster_id <> seen.cluster_id
FROM (
  SELECT o.cluster_id, gang->>'fence' AS fence, count(*) AS living,
         bool_or(gang->>'state' = 'unknown') AS is_doubtful,
         max((gang->>'submitted_ms')::bigint) AS submitted_ms
  FROM clusters_observation o, jsonb_array_elements(o.gangs) gang
  WHERE NOT gang->>'state' = ANY(%(final)s)
  GROUP BY 1, 2
) seen
LEFT JOIN federation_attempt attempt ON attempt.fence = seen.fence
WHERE seen.living > 1 OR seen.is_doubtful OR attempt.id IS NULL OR attempt.state = 'ended'
   OR attempt.cluster_id <> seen.cluster_id
"""
_RANKS = {kind: f"{rank:02}" for rank, kind in enumerate(Kind)}
_KIND_OF = {"sent": Kind.AMBIGUOUS, "waiting": Kind.PARKED, "rejected": Kind.REJECTED}
Row = tuple[Kind, UUID, str, datetime | None, str]  # kind, cluster, fence, since, order


@dataclass(frozen=True, slots=True)
class Finding:
    """One case: its kind, where, under which fence ("" = the cluster itself), since when.

    `order` is the key of the order that a case of an order is about (for a namesake its number).
    """

    kind: Kind
    cluster: Cluster
    fence: str
    since: datetime | None
    order: str = ""

    @property
    def id(self) -> UUID:
        """The same case has the same id, however often it is found."""
        return fact_id("case", self.kind.value, self.cluster.pk, self.order or self.fence)

    @property
    def key(self) -> str:
        """Its place in the list: by cluster, kind, fence, order."""
        return f"{self.cluster.name} {_RANKS[self.kind]} {self.fence} {self.order}"


def members() -> list[Cluster]:
    """The member clusters in the order of their names. One query."""
    return list(Cluster.objects.order_by("name"))


def find(
    clusters: Collection[Cluster], now: datetime, kinds: Collection[Kind] = frozenset(Kind)
) -> list[Finding]:
    """Every finding of these kinds at these clusters, in the order of their keys.

    At most 4 queries, whatever the number of clusters and findings.
    """
    by_id = {cluster.pk: cluster for cluster in clusters}
    found = [
        Finding(kind, by_id[cluster_id], fence, since, order)
        for kind, cluster_id, fence, since, order in _rows(kinds, now)
        if cluster_id in by_id
    ]
    found += _silent(clusters, now)
    return sorted((it for it in found if it.kind in kinds), key=lambda it: it.key)


def _rows(kinds: Collection[Kind], now: datetime) -> Iterator[Row]:
    """What is to be found in the tables."""
    yield from _objects(kinds)
    yield from _namesakes(kinds)
    yield from _lost(kinds)
    yield from _orders(kinds, now)


def silent_since(now: datetime) -> datetime:
    """What was not read since is silent."""
    return now - timedelta(milliseconds=settings.ENVIRONMENT.silent_after_ms)


def _silent(clusters: Collection[Cluster], now: datetime) -> list[Finding]:
    return [
        Finding(Kind.SILENT, cluster, "", cluster.failing_since or cluster.last_seen_at)
        for cluster in clusters
        if cluster.is_silent(silent_since(now))
    ]


def _objects(kinds: Collection[Kind]) -> Iterator[Row]:
    """Living objects that our open attempts do not account for."""
    if not {Kind.ORPHAN, Kind.DUPLICATE, Kind.UNKNOWN} & set(kinds):
        return
    with connection.cursor() as cursor:
        cursor.execute(_SEEN, {"final": _FINAL})
        rows = cursor.fetchall()
    for cluster_id, fence, is_doubtful, submitted_ms, is_nobodys in rows:
        kind = Kind.ORPHAN if is_nobodys else Kind.UNKNOWN if is_doubtful else Kind.DUPLICATE
        since = None if submitted_ms is None else from_ms(submitted_ms)
        yield kind, cluster_id, fence, since, ""


def _namesakes(kinds: Collection[Kind]) -> Iterator[Row]:
    """What is named like ours and bears no mark."""
    if Kind.FOREIGN_NAME not in kinds:
        return
    rows = Observation.objects.exclude(namesakes=[])
    for cluster_id, found in rows.values_list("cluster_id", "namesakes"):
        for gang in gangs_from_json(found):
            since = None if gang.submitted_ms is None else from_ms(gang.submitted_ms)
            yield Kind.FOREIGN_NAME, cluster_id, gang.fence, since, f"number:{gang.backend_id}"


def _lost(kinds: Collection[Kind]) -> Iterator[Row]:
    if Kind.LOST not in kinds:
        return
    rows = OPEN_ATTEMPTS.filter(state=Attempt.State.LOST)
    for cluster_id, fence, started_at in rows.values_list("cluster_id", "fence", "started_at"):
        yield Kind.LOST, cluster_id, fence, started_at, ""


def _orders(kinds: Collection[Kind], now: datetime) -> Iterator[Row]:
    """Open orders that take long, and refused ones whose attempt is still open."""
    if not {Kind.AMBIGUOUS, Kind.PARKED, Kind.REJECTED} & set(kinds):
        return
    late = now - SETTLE
    failed = Q(tries__gt=0, answered_at=None, created_at__lte=late)
    needed = Exists(OPEN_ATTEMPTS.filter(fence=OuterRef("fence")))
    rows = Command.objects.filter(
        (Q(state=Command.State.SENT) & (Q(sent_at__lte=late) | failed))
        | (Q(state=Command.State.WAITING) & failed)
        | (Q(state=Command.State.REJECTED, answered_at__lte=late) & needed)
    )
    for cluster_id, fence, key, state, created_at, answered_at in rows.values_list(
        "cluster_id", "fence", "key", "state", "created_at", "answered_at"
    ):
        yield _KIND_OF[state], cluster_id, fence, answered_at or created_at, key

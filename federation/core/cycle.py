"""One cycle of the arbiter: a snapshot in, a plan out. Pure, deterministic, order-free."""

from dataclasses import replace
from operator import attrgetter

from federation.core import (
    arbitration,
    aside,
    explain,
    ordering,
    preemption,
    promotion,
    reclaim,
    reservations,
)
from federation.core.departures import may_stay
from federation.core.draft import Draft
from federation.core.lines import by_tenant
from federation.core.plan import Plan
from federation.core.snapshot import ClusterView, Snapshot


def decide(snapshot: Snapshot) -> Plan:
    """What to bind, why the rest waits, and in which order it waits.

    The same facts give the same plan, whatever the order of rows; deciding again on the state
    after the plan changes nothing that the plan did.
    """
    snapshot = _in_order(snapshot)
    draft = Draft.of(snapshot)
    lines = by_tenant(snapshot.jobs, snapshot.policy, snapshot.now_ms)
    draft = aside.extend(snapshot, draft, lines)
    draft = reservations.owners(snapshot, draft)
    draft = arbitration.owners(snapshot, draft)
    if not may_stay(draft):  # the next cycle knows who goes
        draft = reclaim.extend(snapshot, draft)
    draft = reservations.borrowers(snapshot, draft)
    draft = arbitration.borrowers(snapshot, draft)
    if not may_stay(draft):
        draft = preemption.extend(snapshot, draft)
    draft = promotion.extend(snapshot, draft)
    return draft.plan(explain.reasons(snapshot, draft), ordering.ranking(draft))


def _in_order(snapshot: Snapshot) -> Snapshot:
    """The snapshot with its rows in a fixed order; that of jobs is `by_tenant`'s."""
    return replace(
        snapshot,
        clusters=tuple(sorted(map(_flavors_in_order, snapshot.clusters), key=attrgetter("name"))),
    )


def _flavors_in_order(cluster: ClusterView) -> ClusterView:
    return replace(cluster, flavors=tuple(sorted(cluster.flavors, key=attrgetter("name"))))

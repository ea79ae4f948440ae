"""Reads one cluster in bulk and stores what changed. Silence is stored as silence only."""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from clusters.backends import connect
from clusters.core.backend import BackendError
from clusters.core.observation import NodeSeen, clock_skew_ms
from clusters.core.observation import Observation as Seen
from clusters.models import Cluster, Lease, Node, Observation
from clusters.selectors.connection import connection_of
from clusters.selectors.traffic import gang_to_json
from clusters.services import lease
from kit import collector
from kit.bulk import insert_rows, update_rows
from kit.crypto import UndecryptableError
from kit.intervals import from_ms, to_ms
from tenancy.services.records import Change, ring, write_events

logger = logging.getLogger(__name__)
NODE_FACTS = (
    "state",
    "reason",
    "device",
    "gpus",
    "cpus",
    "memory_mib",
    "path",
    "queues",
    "foreign_gpus",
    "foreign_cpus",
    "foreign_memory_mib",
)


@collector.paused()
def observe(
    *,
    cluster_id: UUID,
    fences: Sequence[str],
    holder: str,
    life: timedelta,
    clock: Callable[[], datetime],
) -> bool:
    """One reading of a cluster; whether there is one. False when another worker reads it, or when
    the cluster left.

    A cluster that does not answer changes nothing but `failing_since`, and the breaker opens.
    """
    kind = Lease.Kind.OBSERVE
    begun = clock()
    epoch = lease.take(cluster_id=cluster_id, kind=kind, holder=holder, life=life, now=begun)
    if epoch is None:
        return False
    cluster = Cluster.objects.filter(id=cluster_id).first()
    if cluster is None:  # it left just now
        return False
    try:
        with closing(connect(cluster.backend, connection_of(cluster))) as backend:
            seen = backend.observe(to_ms(begun), fences)
    except (BackendError, UndecryptableError) as error:
        now = clock()
        _store_failure(cluster=cluster, words=str(error), now=now)
        pause = lease.patience(error)
        if pause is None:
            lease.back_off(cluster_id=cluster_id, kind=kind, epoch=epoch, now=now)
        else:
            lease.rest(cluster_id=cluster_id, kind=kind, epoch=epoch, until=now + pause)
        return False
    now = clock()
    is_stored = store(cluster_id=cluster_id, seen=seen, now=now)
    lease.give_back(cluster_id=cluster_id, kind=kind, epoch=epoch, now=now)
    return is_stored


@transaction.atomic
def _store_failure(*, cluster: Cluster, words: str, now: datetime) -> None:
    first = Cluster.objects.filter(id=cluster.id, failing_since=None).update(failing_since=now)
    Cluster.objects.filter(id=cluster.id).update(failure=words[:2000])
    if first:
        logger.warning("%s does not answer: %s", cluster.name, words)
        write_events(
            changes=[Change("cluster.silent", cluster.name, None, "no_answer", {"words": words})],
            now=now,
        )


@transaction.atomic
def store(*, cluster_id: UUID, seen: Seen, now: datetime) -> bool:
    """Stores a reading unless a newer one is there; only rows that changed are written.

    False when the cluster left meanwhile: nothing is kept of it.

    `Cluster.revision` rises only when capacity changed, so that a plan made on the reading before
    stays good when nothing of it moved.
    """
    cluster = Cluster.objects.select_for_update(no_key=True).filter(id=cluster_id).first()
    if cluster is None:
        return False
    stored = Observation.objects.filter(cluster=cluster).first()
    if stored and to_ms(stored.begun_at) >= seen.begun_ms:
        return True
    changed = _store_nodes(cluster, seen)
    reservations = [
        [r.name, list(r.nodes), r.start_ms, r.end_ms, r.is_maintenance] for r in seen.reservations
    ]
    if stored is None or stored.reservations != reservations:
        changed = True
    _store_reading(cluster, stored, seen, reservations, now)
    was_silent = cluster.failing_since is not None
    Cluster.objects.filter(id=cluster_id).update(
        last_seen_at=now,
        clock_skew_ms=clock_skew_ms(seen.cluster_ms, seen.begun_ms),
        failing_since=None,
        failure="",
        revision=F("revision") + (1 if changed or was_silent else 0),
    )
    if was_silent:
        write_events(changes=[Change("cluster.answers", cluster.name, None, "seen")], now=now)
    if changed or was_silent:
        ring()
    return True


def _facts(node: NodeSeen, seen: Seen) -> dict[str, Any]:
    foreign = seen.foreign
    return {
        "state": node.state.value,
        "reason": node.reason,
        "device": node.device,
        "gpus": node.gpus,
        "cpus": node.cpus,
        "memory_mib": node.memory_mib,
        "path": [list(step) for step in node.path],
        "queues": list(node.queues),
        "foreign_gpus": foreign.gpus.get(node.name, 0),
        "foreign_cpus": foreign.cpus.get(node.name, 0),
        "foreign_memory_mib": foreign.memory_mib.get(node.name, 0),
    }


def _store_nodes(cluster: Cluster, seen: Seen) -> bool:
    """Inserts, updates and deletes node rows; whether anything differed."""
    known = {row["name"]: row for row in cluster.nodes.values("id", "name", *NODE_FACTS)}
    new: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    for node in seen.nodes:
        facts = _facts(node, seen)
        row = known.pop(node.name, None)
        if row is None:
            new.append({"cluster_id": cluster.id, "name": node.name, **facts})
        elif any(row[name] != value for name, value in facts.items()):
            changed.append({"id": row["id"], **facts})
    insert_rows(Node, new)
    update_rows(Node, changed, NODE_FACTS)
    if known:
        Node.objects.filter(id__in=[row["id"] for row in known.values()]).delete()
    return bool(new or changed or known)


def _store_reading(
    cluster: Cluster,
    stored: Observation | None,
    seen: Seen,
    reservations: list[Any],
    now: datetime,
) -> None:
    """When it was read, and of the rest what differs: thousands of gangs are half a megabyte."""
    values: dict[str, Any] = {
        "accounting_answered": seen.accounting_answered,
        "gangs": [gang_to_json(gang) for gang in seen.gangs],
        "namesakes": [gang_to_json(gang) for gang in seen.namesakes],
        "queues": [[q.name, q.is_open, q.nodes, q.max_time_s] for q in seen.queues],
        "reservations": reservations,
        "foreign_running": seen.foreign.running,
        "foreign_pending": seen.foreign.pending,
        "foreign_pending_gpus": seen.foreign.pending_gpus,
    }
    when = {"begun_at": from_ms(seen.begun_ms), "ended_at": now}
    if stored is None:
        Observation.objects.create(cluster=cluster, **when, **values)
        return
    changed = {name: value for name, value in values.items() if getattr(stored, name) != value}
    Observation.objects.filter(pk=stored.pk).update(**when, **changed)

"""Our own past as something to replay: the jobs of some weeks, and the federation at rest."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import F, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Greatest, JSONArray

from accounting.selectors.prices import whole_book
from clusters.core.resources import NOTHING_TAKEN
from federation.core.replay import SOMEBODY, PastJob, Setting
from federation.core.replay.history import SAVES_EACH_MS, PastRun, runs_of, work_ms
from federation.core.snapshot import Ask, ClusterState, ClusterView, FlavorView, TenantView
from federation.models import Attempt, Job
from federation.selectors.fleet import cluster_views
from federation.selectors.snapshot import ASK, read_ask
from kit.bulk import milliseconds
from kit.intervals import to_ms
from quotas.core.cohort import QuotaRow
from quotas.selectors import quota_policy
from tenancy.models import Tenant

NEVER_RAN = "that never ran"
CHUNK = 2_000
_CHECKPOINT = KeyTransform("checkpoint", "spec")
_JOB = (
    "id",
    "tenant_id",
    "wanted_class",
    "priority",
    "arrived_at",
    "grace_s",
    "interval_s",
    "ask",
    "tried",
)


@dataclass(frozen=True)
class History:
    """Jobs to replay; `left_out` counts the others by why."""

    jobs: Sequence[PastJob]
    left_out: Mapping[str, int]


def jobs_between(start: datetime, end: datetime) -> QuerySet[Job]:
    """Jobs that waited or ran in [start, end)."""
    return Job.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=start), submitted_at__lt=end
    ).order_by("id")


def past_jobs(start: datetime, end: datetime, now: datetime) -> History:
    """The jobs of [start, end) as they came, and how long each would run by itself. One query.

    One that came before `start` comes at `start`, with what it had not done by then. One that
    still runs ran until now. Left out are those that never ran: nobody knows for how long they
    would.
    """
    since_ms, now_ms = to_ms(start), to_ms(now)
    asks: dict[str, Ask] = {}
    jobs: list[PastJob] = []
    left_out: Counter[str] = Counter()
    with transaction.atomic():  # one statement, read in pieces
        for row in _rows(start, end).iterator(chunk_size=CHUNK):
            key, tenant, wanted, priority, arrived_at, grace_s, interval_s, text, tried = row
            run_ms = work_ms(list(_runs(tried, now_ms)), since_ms)
            if not run_ms:
                left_out[NEVER_RAN] += 1
                continue
            ask = asks.get(text)
            if ask is None:
                ask = asks[text] = _as_it_was(read_ask(*json.loads(text), ""))
            jobs.append(
                PastJob(
                    id=key,
                    arrival_ms=to_ms(arrived_at),
                    tenant=tenant,
                    ask=ask,
                    run_ms=run_ms,
                    wanted_class=wanted,
                    priority=priority,
                    interval_ms=_interval_ms(grace_s, interval_s),
                    grace_ms=int(grace_s or 0) * 1000,
                )
            )
    return History(jobs, dict(left_out))


def _rows(start: datetime, end: datetime) -> QuerySet[Job, tuple[Any, ...]]:
    attempts = Attempt.objects.filter(job=OuterRef("pk")).order_by("number")
    return (
        jobs_between(start, end)
        .annotate(
            ask=Cast(JSONArray(*ASK), TextField()),
            arrived_at=Greatest("submitted_at", F("not_before"), Value(start)),
            grace_s=KeyTextTransform("grace", _CHECKPOINT),
            interval_s=KeyTextTransform("interval", _CHECKPOINT),
            tried=ArraySubquery(
                attempts.values_list(
                    Cast(
                        JSONArray("runs", milliseconds("saved_at"), milliseconds("ended_at")),
                        TextField(),
                    )
                )
            ),
        )
        .values_list(*_JOB)
    )


def _runs(tried: Iterable[str], now_ms: int) -> Iterator[PastRun]:
    for text in tried:
        stays, saved_ms, ended_ms = json.loads(text)
        yield from runs_of(stays, saved_ms, ended_ms or now_ms)


def _interval_ms(grace_s: str | None, interval_s: str | None) -> int | None:
    if grace_s is None:
        return None
    return SAVES_EACH_MS if interval_s is None else int(interval_s) * 1000


def _as_it_was(ask: Ask) -> Ask:
    """Without what came of trying: nodes to avoid."""
    return replace(ask, avoid_nodes=())


def setting_at_rest(quotas: Iterable[QuotaRow], now: datetime) -> Setting:
    """Our federation under other quotas, with nothing on its nodes. The same queries always.

    Every member takes work, every node is up and free of foreign load; who submitted may go
    anywhere, tenants that were closed since are open. Prices are those of each moment.
    """
    tenants = Tenant.objects.order_by("id").values_list("id", "path", "lineage")
    return Setting(
        clusters=tuple(map(_at_rest, cluster_views(now, (), ()))),
        tenants=tuple(TenantView(key, path, tuple(lineage)) for key, path, lineage in tenants),
        quotas=tuple(quotas),
        prices=whole_book(),
        policy=quota_policy(),
    )


def _at_rest(view: ClusterView) -> ClusterView:
    return replace(
        view,
        state=ClusterState.OPEN,
        flavors=tuple(map(_whole, view.flavors)),
        reserved=(),
        people=frozenset({SOMEBODY}),
    )


def _whole(flavor: FlavorView) -> FlavorView:
    nodes = tuple(
        replace(node, free=node.total, usable=True, foreign=NOTHING_TAKEN) for node in flavor.nodes
    )
    return replace(flavor, nodes=nodes, queue_is_open=True)

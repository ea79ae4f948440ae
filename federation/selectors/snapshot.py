"""Builds the core's snapshot: set-based, the same number of queries whatever the queue."""

import json
from bisect import insort
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Case, QuerySet, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, JSONArray

from accounting.selectors.prices import price_book
from accounting.selectors.spot_use import decayed_spot_use
from clusters.core.capabilities import SIGNAL
from clusters.core.resources import GangShape, NodeShape
from clusters.models import Cluster
from federation.core.lifecycle import JobState
from federation.core.lines import BY_AGE, Jobs, trait
from federation.core.snapshot import Ask, Holding, Option, Snapshot, TenantView, WaitingJob
from federation.models import Job
from federation.selectors.fleet import cluster_views
from federation.selectors.holdings import holdings, reservations
from federation.selectors.limited import limited
from kit.bulk import among, milliseconds
from kit.intervals import to_ms
from kit.reads import Fixed, plain_rows
from quotas.core.cohort import Use
from quotas.selectors import quota_policy, quota_rows
from tenancy.models import Tenant

WAITING = Job.objects.filter(state=JobState.QUEUED, cancel_asked_at=None)
# The waiting jobs' number, and the rows that were written since a moment, with their versions.
# A moment is the oldest transaction that was not over then: whatever is seen now and was not seen
# then was written by that one or a later one. `age` compares as PostgreSQL does, round its wrap.
_WRITTEN = """
SELECT count(*),
       coalesce(string_agg(id || ':' || xmin, ' ') FILTER (WHERE age(xmin) <= age(%s::xid)), ''),
       pg_snapshot_xmin(pg_current_snapshot())::xid::text
  FROM federation_job WHERE state = 'queued' AND cancel_asked_at IS NULL"""
_ALL = """
SELECT coalesce(string_agg(id::text, ' '), '')
  FROM federation_job WHERE state = 'queued' AND cancel_asked_at IS NULL"""
_EVER = "0"  # no transaction's number: whatever its age is, is older
_TENANTS = Fixed(
    Tenant.objects.order_by("id").values_list("id", "path", "lineage", "is_open", "revision")
)
_UNABLE_TO_SIGNAL = Fixed(
    Cluster.objects.filter(**{f"capabilities__{SIGNAL}": False}).order_by().values_list("id")
)
ASK = (
    "options",
    "exclusive",
    "time_limit_ms",
    "required_tier",
    "preferred_tier",
    "prefer",
    "stores",
    "only_clusters",
    "avoid_clusters",
    "avoid_nodes",
    "forms",
)
_ASKED = attrgetter(*ASK)
# Read from the large `spec` only of jobs that have a checkpoint to resume from.
_SAVED_IN = Case(
    When(
        saved_step__isnull=False, then=KeyTextTransform("store", KeyTransform("checkpoint", "spec"))
    ),
    default=Value(None, TextField()),
    output_field=TextField(),
)
# Read from the large `spec` only while a cluster cannot pass a signal.
_SIGNALLED = KeyTextTransform("signal", KeyTransform("checkpoint", "spec"))
_JOB = (  # in the order of the fields of a `WaitingJob`
    "id",
    "version",
    "tenant_text",
    "user_text",
    "wanted_class",
    "priority",
    "queued_ms",
    "attempts_made",
    "ask",
    "not_before_ms",
)


def take_snapshot(now: datetime, waiting: "Waiting | None" = None) -> Snapshot:
    """What the next cycle decides on: waiting and active rows, in one view of the database.

    Inside a transaction of the caller, its view is used as it is. `waiting` is what is known of the
    jobs by one who takes snapshots over and over, outside of transactions.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        held = tuple(holdings(now))
        policy = quota_policy()
        if waiting is None or not is_outermost:
            waiting = Waiting()
        return Snapshot(
            now_ms=to_ms(now),
            jobs=waiting.read(),
            clusters=cluster_views(now, WAITING.order_by().values("user"), held),
            tenants=tuple(
                TenantView(key, path, tuple(lineage), is_open, revision)
                for key, path, lineage, is_open, revision in _TENANTS.rows()
            ),
            quotas=quota_rows(now),
            uses=tuple(_uses(held)),
            prices=price_book(to_ms(now)),
            spot_use=decayed_spot_use(now_ms=to_ms(now), half_life_ms=policy.half_life_ms),
            holdings=held,
            reservations=tuple(reservations()),
            policy=policy,
            limited=limited(held),
        )


class Waiting:
    """The waiting jobs as last read: reading again fetches only the rows that changed since.

    A row's version is its `xmin`, the transaction that wrote it: whoever writes whatever of the row
    leaves another one, so that no writer has to do anything for this to hold. Within a transaction
    that itself writes it does not, nor when the database may be another one (a restored backup):
    whoever lost the connection begins anew.
    """

    def __init__(self) -> None:
        self._asks: dict[str, Ask] = {}
        self._known = cache(UUID)
        self._is_signal_read = False
        self._forget()

    def _forget(self) -> None:
        self._since = _EVER
        self._jobs: dict[int, WaitingJob] = {}
        self._versions: dict[int, str] = {}  # by job "id:xmin"
        self._kinds: dict[Hashable, list[WaitingJob]] = {}

    def read(self) -> Jobs:
        """All waiting jobs, in any order; 2 queries, one more if any left, one for what changed."""
        is_signal_read = bool(_UNABLE_TO_SIGNAL.rows())
        if is_signal_read != self._is_signal_read:
            self._is_signal_read = is_signal_read
            self._forget()
        if len(self._asks) > 2 * len(self._jobs):
            self._asks = {}  # most of them nobody asks any more
        with connection.cursor() as cursor:
            cursor.execute(_WRITTEN, [self._since])
            count, written, self._since = cursor.fetchone()
        seen = {int(version.partition(":")[0]): version for version in written.split()}
        known = self._versions
        changed = {key: version for key, version in seen.items() if known.get(key) != version}
        gone: set[int] = set()
        if len(known) + sum(key not in known for key in changed) > count:
            with connection.cursor() as cursor:
                cursor.execute(_ALL)
                (ids,) = cursor.fetchone()
            gone = self._versions.keys() - set(map(int, ids.split()))
        if gone or changed:
            self._change(gone, changed)
        jobs = Jobs(self._jobs.values())
        jobs.kinds = tuple(self._kinds.values())
        return jobs

    def leave(self, jobs: Iterable[int]) -> None:
        """Know that these wait no more, as one who wrote it knows: that saves looking who left."""
        self._change(self._versions.keys() & set(jobs), {})

    def _change(self, gone: Iterable[int], changed: Mapping[int, str]) -> None:
        """Know the jobs as they are now; kinds that were given to others stay as they were."""
        touched: dict[Hashable, list[WaitingJob]] = {}
        for key in {*gone, *(changed.keys() & self._versions.keys())}:
            touched[trait(self._jobs.pop(key))] = []
            del self._versions[key]
        rows = WAITING.order_by("id")
        if self._versions:
            rows = rows.filter(id__in=among(changed, "bigint"))
        for job in self._jobs_of(rows) if changed else ():
            touched.setdefault(trait(job), []).append(job)
            self._jobs[job.id], self._versions[job.id] = job, changed[job.id]
        for which, new in touched.items():
            kind = [job for job in self._kinds.pop(which, ()) if self._jobs.get(job.id) is job]
            if kind or new:
                self._kinds[which] = _joined(kind, new)

    def _jobs_of(self, rows: "QuerySet[Job]") -> Iterator[WaitingJob]:
        """What many share (ask, tenant, user) is read as text, parsed once a text."""
        asked = (*ASK, _SAVED_IN, *([_SIGNALLED] if self._is_signal_read else []))
        query = rows.annotate(
            ask=Cast(JSONArray(*asked), TextField()),
            tenant_text=Cast("tenant_id", TextField()),
            user_text=Cast("user_id", TextField()),
            queued_ms=milliseconds("queued_at"),
            not_before_ms=milliseconds("not_before"),
        ).values_list(*_JOB)
        asks, known = self._asks, self._known
        for key, version, tenant, user, *same, text, start in plain_rows(query):
            ask = asks.get(text)
            if ask is None:
                ask = asks[text] = read_ask(*json.loads(text))
            yield WaitingJob._make((key, version, known(tenant), known(user), *same, ask, start))


def _joined(kind: list[WaitingJob], new: list[WaitingJob]) -> list[WaitingJob]:
    """A kind with what came to it, the oldest first."""
    if not kind:
        return sorted(new, key=BY_AGE) if len(new) > 1 else new
    for job in new:
        insort(kind, job, key=BY_AGE)
    return kind


def read_ask(options: list[dict[str, Any]], exclusive: bool, limit_ms: int, *rest: Any) -> Ask:  # noqa: FBT001
    """The ask of a job's columns, in the order of `ASK`, where it saved, and perhaps its signal."""
    required, preferred, prefer, stores, only, avoid, avoid_nodes, forms, *late = rest
    saved_in, *signal = late
    return Ask(
        options=tuple(_option(option, exclusive) for option in options),
        time_limit_ms=limit_ms,
        required_tier=required,
        preferred_tier=preferred,
        prefer=prefer,
        stores=tuple(stores),
        only_clusters=tuple(only),
        avoid_clusters=tuple(avoid),
        avoid_nodes=tuple(sorted(avoid_nodes)),
        forms=tuple(forms),
        signalled=bool(signal and signal[0]),
        saved_in=saved_in or "",
    )


def _option(stored: dict[str, Any], exclusive: bool) -> Option:  # noqa: FBT001
    per_node = NodeShape(
        stored["gpus_per_node"], stored["cpus_per_node"], stored["memory_mib_per_node"]
    )
    return Option(stored["flavor"], GangShape(stored["nodes"], per_node, exclusive))


def _uses(held: Iterable[Holding]) -> Iterator[Use]:
    """GPUs of open attempts, summed by tenant, flavor, cluster and class."""
    gpus: Counter[tuple[Any, ...]] = Counter()
    for one in held:
        gpus[one.tenant, one.flavor, one.cluster, one.service_class] += one.gpus
    for (tenant, flavor, cluster, service_class), total in sorted(gpus.items()):
        yield Use(tenant, flavor, cluster, service_class, total)


def asked_of(job: Job) -> tuple[Any, ...]:
    """The columns of a job that make its ask, where it saved, and its signal, for `read_ask`."""
    checkpoint = job.spec.get("checkpoint") or {}
    saved_in = checkpoint.get("store") if job.saved_step is not None else None
    return (*_ASKED(job), saved_in, checkpoint.get("signal"))


def waiting_job(job: Job) -> WaitingJob:
    """One job (saved or not) as the core sees it."""
    return WaitingJob(
        id=job.id or 0,
        version=job.version,
        tenant=job.tenant_id,
        user=job.user_id,
        wanted_class=job.wanted_class,
        priority=job.priority,
        queued_ms=to_ms(job.queued_at),
        attempts_made=job.attempts_made,
        ask=read_ask(*asked_of(job)),
        not_before_ms=None if job.not_before is None else to_ms(job.not_before),
    )

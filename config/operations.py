"""For operators: is it alive, is it ready, what are the numbers. Read from SQL at each scrape."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from accounting.selectors.ledger import backlog
from clusters.models import Cluster
from clusters.selectors.traffic import outbox_depths
from federation.core.lifecycle import JobState
from federation.models import ArbiterTerm, Job
from federation.models.jobs import ACTIVE, WAITING


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Whether this process answers; asks nobody else."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether requests can be served: the database answers and is migrated. 503 if not."""
    try:
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        words = f"the database does not answer: {type(error).__name__}"
        return JsonResponse({"status": "unavailable", "why": words}, status=503)
    if pending:
        words = f"{len(pending)} migrations are not applied"
        return JsonResponse({"status": "unavailable", "why": words}, status=503)
    return JsonResponse({"status": "ok"})


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format. Counts of the whole federation, no names of tenants or people."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scrape(timezone.now()))  # noqa: TID251 - the edge
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class _Scrape(Collector):
    """One reading of the tables."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        yield from self._jobs()
        yield from self._arbiter()
        yield from self._clusters()
        yield from self._outbox()
        yield from self._ledger()

    def _age(self, moment: datetime | None) -> float:
        return -1.0 if moment is None else max(0.0, (self._now - moment).total_seconds())

    def _jobs(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily(
            "muster_jobs", "Jobs that are not over, by state.", labels=["state"]
        )
        rows = (
            Job.objects.filter(WAITING | ACTIVE)
            .order_by()
            .values_list("state")
            .annotate(count=Count("id"))
        )
        counts = dict(rows)
        for state in JobState:
            if not state.is_final and state is not JobState.HELD:
                jobs.add_metric([state.value], counts.get(state.value, 0))
        jobs.add_metric(["held"], Job.objects.filter(state=JobState.HELD).count())
        yield jobs

    def _arbiter(self) -> Iterator[Metric]:
        term = ArbiterTerm.objects.filter(id=1).first()
        yield GaugeMetricFamily(
            "muster_arbiter_epoch", "The arbiter's term.", value=term.epoch if term else 0
        )
        yield GaugeMetricFamily(
            "muster_arbiter_cycle_age_seconds",
            "Time since the last cycle ended; -1 = none yet.",
            value=self._age(term.cycled_at if term else None),
        )

    def _clusters(self) -> Iterator[Metric]:
        silent = GaugeMetricFamily(
            "muster_cluster_reading_age_seconds",
            "Time since a cluster was last read; -1 = never.",
            labels=["cluster"],
        )
        failing = GaugeMetricFamily(
            "muster_cluster_failing", "1 while a cluster does not answer.", labels=["cluster"]
        )
        rows = Cluster.objects.values_list("name", "last_seen_at", "failing_since")
        for name, seen_at, failing_since in rows:
            silent.add_metric([name], self._age(seen_at))
            failing.add_metric([name], int(failing_since is not None))
        yield silent
        yield failing

    def _outbox(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(
            "muster_outbox_commands", "Orders not answered yet.", labels=["cluster"]
        )
        ambiguous = GaugeMetricFamily(
            "muster_outbox_ambiguous", "Orders sent and not answered.", labels=["cluster"]
        )
        lag = GaugeMetricFamily(
            "muster_outbox_lag_seconds", "Age of the oldest open order.", labels=["cluster"]
        )
        for row in outbox_depths():
            names = [row["cluster__name"]]
            depth.add_metric(names, row["depth"])
            ambiguous.add_metric(names, row["ambiguous"])
            lag.add_metric(names, self._age(row["oldest"]))
        yield depth
        yield ambiguous
        yield lag

    def _ledger(self) -> Iterator[Metric]:
        waits = backlog(now=self._now)
        usage = GaugeMetricFamily(
            "muster_usage_intervals", "Usage not wholly in the ledger, by why.", labels=["why"]
        )
        usage.add_metric(["running"], waits.open)
        usage.add_metric(["unposted"], waits.unposted)
        usage.add_metric(["price_missing"], waits.price_missing)
        usage.add_metric(["corrections_due"], waits.corrections_due)
        yield usage
        yield GaugeMetricFamily(
            "muster_ledger_lag_seconds",
            "Age of the oldest ended usage that is not posted.",
            value=waits.lag.total_seconds(),
        )

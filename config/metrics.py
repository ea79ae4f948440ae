"""The numbers that Prometheus scrapes, read from the tables at each scrape.

`deploy/monitoring/` has the alarms on them and a dashboard; `docs/runbook.md` says what to do. No
names of tenants or people; the number of queries does not grow with clusters or cases.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from accounting.selectors.ledger import backlog
from federation.core.lifecycle import JobState
from federation.models import ArbiterTerm, Job
from federation.models.jobs import ACTIVE, WAITING
from federation.selectors.member_limits import held_counts
from federation.selectors.standings import Standing, standings
from tenancy.services.limits import limits_are_off


class Scrape(Collector):
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
        rows = standings(self._now)
        yield from self._clusters(rows)
        yield from self._outbox(rows)
        yield from self._member_limits(rows)
        yield from self._cases(rows)
        yield from self._ledger()
        yield GaugeMetricFamily(
            "muster_rate_limits_off",
            "1 while limits are set and Valkey, which holds the buckets, does not answer.",
            value=int(limits_are_off()),
        )

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

    def _clusters(self, rows: Sequence[Standing]) -> Iterator[Metric]:
        age = GaugeMetricFamily(
            "muster_cluster_reading_age_seconds",
            "Time since a cluster was last read; -1 = never.",
            labels=["cluster"],
        )
        failing = GaugeMetricFamily(
            "muster_cluster_failing", "1 while a cluster does not answer.", labels=["cluster"]
        )
        skew = GaugeMetricFamily(
            "muster_cluster_clock_skew_seconds",
            "How far a cluster's clock is ahead of ours.",
            labels=["cluster"],
        )
        for row in rows:
            names = [row.cluster.name]
            age.add_metric(names, self._age(row.cluster.last_seen_at))
            failing.add_metric(names, int(row.cluster.failing_since is not None))
            skew.add_metric(names, row.cluster.clock_skew_ms / 1000)
        yield from (age, failing, skew)

    def _outbox(self, rows: Sequence[Standing]) -> Iterator[Metric]:
        depth = GaugeMetricFamily(
            "muster_outbox_commands", "Orders not answered yet.", labels=["cluster"]
        )
        ambiguous = GaugeMetricFamily(
            "muster_outbox_ambiguous", "Orders sent and not answered.", labels=["cluster"]
        )
        lag = GaugeMetricFamily(
            "muster_outbox_lag_seconds", "Age of the oldest open order.", labels=["cluster"]
        )
        failures = GaugeMetricFamily(
            "muster_breaker_failures",
            "Calls that failed in a row, by what the cluster was called for.",
            labels=["cluster", "kind"],
        )
        for row in rows:
            names = [row.cluster.name]
            depth.add_metric(names, row.outbox.depth)
            ambiguous.add_metric(names, row.outbox.sent)
            lag.add_metric(names, row.lag_ms / 1000)
            for kind, breaker in row.breakers.items():
                failures.add_metric([*names, kind], breaker.failures)
        yield from (depth, ambiguous, lag, failures)

    def _member_limits(self, rows: Sequence[Standing]) -> Iterator[Metric]:
        held = GaugeMetricFamily(
            "muster_jobs_held_by_member_limit",
            "Jobs that a cluster keeps waiting by a limit on GPUs of its own accounts.",
            labels=["cluster"],
        )
        counts = held_counts()
        for row in rows:
            held.add_metric([row.cluster.name], counts.get(row.cluster.id, 0))
        yield held

    def _cases(self, rows: Sequence[Standing]) -> Iterator[Metric]:
        cases = GaugeMetricFamily(
            "muster_reconciler_cases",
            "Cases of the reconciler, by kind.",
            labels=["cluster", "kind"],
        )
        duplicates = GaugeMetricFamily(
            "muster_duplicates_cancelled",
            "Duplicates cancelled in the last 24 hours.",
            labels=["cluster"],
        )
        for row in rows:
            for kind, count in row.counts.items():
                cases.add_metric([row.cluster.name, kind.value], count)
            duplicates.add_metric([row.cluster.name], row.duplicates_cancelled)
        yield from (cases, duplicates)

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

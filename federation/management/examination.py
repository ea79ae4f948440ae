"""What `manage.py doctor` asks of the database and of what stands in it. Constant time: nothing
reads a table whole. Each check yields findings and may raise; the doctor catches what it raises.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, Sum
from django.utils import timezone

from accounting.models import Batch, Transfer
from clusters.models import Cluster, Lease
from clusters.selectors.connection import connection_of
from clusters.selectors.traffic import outbox_depths
from clusters.services.recall import is_held
from federation.models import ArbiterTerm
from kit.crypto import UndecryptableError
from kit.findings import Finding, Level, graded
from kit.partitions import months_from, partitions_of
from tenancy.models import Tick

OLDEST_SERVER = 16
TICK_LATE_S = 60.0
TICK_DEAD_S = 180.0
_NO_RIGHT = """
SELECT c.relname FROM pg_class c
WHERE c.oid = ANY(SELECT to_regclass(quote_ident(name)) FROM unnest(%s::text[]) AS name)
  AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT'))
ORDER BY 1 LIMIT 5"""


@dataclass(frozen=True, slots=True)
class Visit:
    """When the doctor came, and which locks the arbiter's leader holds."""

    now: datetime
    leader_lock: tuple[int, int]

    def age_s(self, moment: datetime) -> float:
        """Seconds since then; never below 0."""
        return max(0.0, (self.now - moment).total_seconds())


def database(visit: Visit) -> Iterator[Finding]:
    """Version, clock, rights, migrations."""
    began = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT clock_timestamp(), current_setting('server_version'),"
            " current_setting('server_version_num')::int / 10000"
        )
        there, version, major = cursor.fetchone()
    middle = began + (timezone.now() - began) / 2
    yield graded(
        "database",
        f"PostgreSQL {version}",
        OLDEST_SERVER - major,
        warning=1,
        error=1,
        fix=f"Muster needs PostgreSQL {OLDEST_SERVER} or newer: upgrade the server.",
    )
    skew_s = abs((there - middle).total_seconds())
    yield graded(
        "database clock",
        f"{skew_s:.1f} s from ours",
        skew_s,
        warning=1,
        error=5,
        fix="Keep the clocks of all hosts with NTP: leases and prices go by them.",
    )
    yield from _migrations()
    yield from _rights()


def _migrations() -> Iterator[Finding]:
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if pending:
        names = ", ".join(f"{step.app_label}.{step.name}" for step, _ in pending[:5])
        words = f"{len(pending)} not applied: {names}"
        yield Finding("migrations", Level.ERROR, words, "Run: manage.py migrate")
    else:
        yield Finding("migrations", Level.OK, "all applied")


def _rights() -> Iterator[Finding]:
    tables = connection.introspection.django_table_names()
    with connection.cursor() as cursor:
        cursor.execute(_NO_RIGHT, [tables])
        refused = [name for (name,) in cursor.fetchall()]
    if refused:
        words = f"may not read and insert: {', '.join(refused)}"
        fix = "GRANT SELECT, INSERT (and UPDATE, DELETE outside the ledger) to the service's role."
        yield Finding("rights", Level.ERROR, words, fix)
    else:
        yield Finding("rights", Level.OK, "every table can be read and written")


def ticks(visit: Visit) -> Iterator[Finding]:
    """Whether a message of beat still comes through each queue to a worker."""
    seen = dict(Tick.objects.values_list("queue", "at"))
    for queue in settings.QUEUES:
        what = f"worker {queue}"
        fix = f"Start beat and a worker of the queue {queue}; `queue {queue}` says which is away."
        if queue not in seen:
            yield Finding(what, Level.ERROR, "no tick of beat has ever come through", fix)
            continue
        age_s = visit.age_s(seen[queue])
        words = f"the last tick came through {age_s:.0f} s ago"
        yield graded(what, words, age_s, warning=TICK_LATE_S, error=TICK_DEAD_S, fix=fix)


def arbiter(visit: Visit) -> Iterator[Finding]:
    """Whether one leads, and how long ago its last cycle ended."""
    term = ArbiterTerm.objects.filter(id=1).values_list("epoch", "cycled_at").first()
    start = "Start one: manage.py arbiter. If it runs, its log says what stops it."
    if term is None or term[1] is None:
        yield Finding("arbiter", Level.ERROR, "none has ever led", start)
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND classid = %s AND objid = %s AND objsubid = 2 AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())",
            visit.leader_lock,
        )
        (leading,) = cursor.fetchone()
    if not leading:
        yield Finding("arbiter", Level.ERROR, f"none leads; the last epoch was {term[0]}", start)
        return
    age_s = visit.age_s(term[1])
    interval_s = settings.ENVIRONMENT.arbiter_interval_ms / 1000
    words = f"leads, epoch {term[0]}; its last cycle ended {age_s:.0f} s ago"
    late_s, dead_s = 10 + 5 * interval_s, 60 + 10 * interval_s
    yield graded("arbiter", words, age_s, warning=late_s, error=dead_s, fix=start)


def clusters(visit: Visit) -> Iterator[Finding]:
    """Each member: credentials, accounts, when it was seen, its clock, its breaker."""
    breakers: dict[object, list[str]] = {}
    for cluster_id, kind in Lease.objects.filter(failures__gt=0).values_list("cluster_id", "kind"):
        breakers.setdefault(cluster_id, []).append(kind)
    members = list(Cluster.objects.annotate(people=Count("accounts")).order_by("name"))
    if not members:
        fix = "Add one: docs/how-to/add-a-slurm-cluster.md"
        yield Finding("clusters", Level.WARNING, "there is none", fix)
    for cluster in members:
        what = f"cluster {cluster.name}"
        troubles = list(_troubles(cluster, visit, breakers.get(cluster.id, [])))
        for level, words, fix in troubles:
            yield Finding(what, level, words, fix)
        if not troubles:
            yield Finding(what, Level.OK, f"{cluster.state}, answers, {cluster.people} accounts")


def _troubles(
    cluster: Cluster, visit: Visit, breakers: list[str]
) -> Iterator[tuple[Level, str, str]]:
    page = f"See the cluster {cluster.name} in the admin"
    try:
        connection_of(cluster)
    except UndecryptableError:
        words = "its secret opens with none of MUSTER_ENCRYPTION_KEYS"
        yield Level.ERROR, words, "Put the older key behind the newer one, or set the secret anew."
    silent_since = visit.now - timedelta(milliseconds=settings.ENVIRONMENT.silent_after_ms)
    if cluster.last_seen_at is None:
        yield Level.ERROR, f"was never read: {cluster.failure or 'no try yet'}", f"{page}: probe."
    elif cluster.is_silent(silent_since):
        words = f"silent for {visit.age_s(cluster.last_seen_at):.0f} s: {cluster.failure}"
        fix = "Its jobs stay as they are. Look at its REST service and the network to it."
        yield Level.ERROR, words, fix
    if breakers:
        words = f"the breaker is open for {' and '.join(sorted(breakers))}"
        yield Level.WARNING, words, "It is tried again by itself, at most a minute apart."
    if abs(cluster.clock_skew_ms) >= 5_000:
        words = f"its clock is {cluster.clock_skew_ms / 1000:+.0f} s from ours"
        yield Level.WARNING, words, "Keep its clock with NTP: usage is booked by it."
    if not getattr(cluster, "people", 0):
        words = "nobody has an account there, so nothing can be bound to it"
        yield Level.WARNING, words, f"{page}: accounts."


def recovery(visit: Visit) -> Iterator[Finding]:
    """Whether everything is stopped because a recovery after a restore is not finished."""
    if is_held():
        words = "one is under way: nothing is decided or forwarded, no cluster is read"
        fix = "Run: manage.py recover. It goes on where it was; docs/how-to/backup-and-restore.md."
        yield Finding("recovery", Level.WARNING, words, fix)
    else:
        yield Finding("recovery", Level.OK, "none is under way")


def outbox(visit: Visit) -> Iterator[Finding]:
    """How long the oldest order of each cluster waits for its answer."""
    rows = outbox_depths()
    if not rows:
        yield Finding("outbox", Level.OK, "empty")
    for row in rows:
        age_s = visit.age_s(row["oldest"])
        name = row["cluster__name"]
        words = f"{row['depth']} orders, the oldest {age_s:.0f} s, {row['ambiguous']} ambiguous"
        fix = f"Is the cluster {name} well, and does a worker of the queue dispatch run?"
        yield graded(f"outbox {name}", words, age_s, warning=60, error=600, fix=fix)


def months(visit: Visit) -> Iterator[Finding]:
    """Whether the tables that are kept by month have the next one, and rows lie in theirs."""
    for table in settings.KEEP_DAYS:
        what = f"months of {table}"
        ((_, next_month),) = months_from(visit.now, 1)
        ends = [part.end for part in partitions_of(table) if part.end is not None]
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT EXISTS (SELECT FROM {table}_rest),"  # noqa: S608 - a name of ours
                " (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class"
                " WHERE oid = to_regclass(%s))",
                [table],
            )
            strays, is_owner = cursor.fetchone()
        if not is_owner:
            fix = f"ALTER TABLE {table} OWNER TO the role of the workers."
            yield Finding(what, Level.WARNING, "another role owns it: none can be made", fix)
        elif not any(end > next_month for end in ends):
            fix = "The hourly tick of beat makes them; the log of worker-accounting says what stops it."
            yield Finding(what, Level.WARNING, "the next month is not made yet", fix)
        elif strays:
            fix = "They go with time. If there are more every day, the clock of a process is wrong."
            yield Finding(what, Level.WARNING, "there are rows outside of every month", fix)
        else:
            yield Finding(what, Level.OK, f"made until {max(ends):%Y-%m-%d}")


def ledger(visit: Visit) -> Iterator[Finding]:
    """Whether the newest batch of the ledger adds up and follows the one before it."""
    newest = list(Batch.objects.order_by("-seq")[:2])
    if not newest:
        yield Finding("ledger", Level.OK, "empty")
        return
    last, before = newest[0], newest[1] if len(newest) > 1 else None
    held = Transfer.objects.filter(batch=last).aggregate(count=Count("id"), sum=Sum("amount_nano"))
    adds_up = (held["count"], held["sum"] or 0) == (last.rows, last.total_nano)
    follows = before is None or (before.seq, before.hash) == (last.seq - 1, last.previous_hash)
    if adds_up and follows:
        yield Finding("ledger", Level.OK, f"batch {last.seq}, the newest, adds up and is chained")
        return
    why = "does not follow the one before it" if adds_up else "does not add up to what it states"
    fix = "Stop the worker of the queue accounting, keep a dump, and compare with a backup."
    yield Finding("ledger", Level.ERROR, f"batch {last.seq} {why}", fix)

"""`manage.py doctor` on real servers, whole and with parts of the world away."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from accounting.models import Batch
from clusters.models import Cluster, ClusterAccount, Lease
from clusters.services.recall import free_traffic, hold_traffic
from federation.management.commands.arbiter import LOCK
from federation.management.commands.doctor import examine
from federation.management.examination import Visit
from federation.models import ArbiterTerm
from kit.findings import Finding, Level
from tenancy.models import Tick
from tenancy.services.records import Change, tick, write_events
from tests import make
from tests.federation.world import World

NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def direct_url(settings: LazySettings) -> str:
    at = connection.settings_dict
    settings.DATABASE_DIRECT_URL = (
        f"postgres://{quote(at['USER'])}:{quote(at['PASSWORD'])}@{at['HOST']}:{at['PORT']}"
        f"/{quote(at['NAME'])}"
    )
    return str(settings.DATABASE_DIRECT_URL)


@pytest.fixture
def well(db: None, direct_url: str, settings: LazySettings) -> Iterator[World]:
    """An installation where all is well: a leader, ticks, a cluster just read."""
    world = World()
    now = timezone.now()
    for queue in settings.QUEUES:
        tick(queue=queue, now=now)
    ArbiterTerm.objects.update_or_create(id=1, defaults={"epoch": 3, "cycled_at": now})
    Cluster.objects.update(last_seen_at=now, clock_skew_ms=0)
    with psycopg.connect(direct_url, autocommit=True) as leader:
        leader.execute("SELECT pg_advisory_lock(%s, %s)", LOCK)
        yield world


def found(**later: float) -> list[Finding]:
    return examine(Visit(timezone.now() + timedelta(**later), LOCK))


def bad(findings: list[Finding]) -> dict[str, Finding]:
    """What is not well, but for the disks of whoever runs this and shared queues."""
    outside = ("disk", "queue", "broker memory", "broker policy")
    return {
        finding.what: finding
        for finding in findings
        if finding.level is not Level.OK and not finding.what.startswith(outside)
    }


def test_when_all_is_well_it_says_so_and_ends_with_0(well: World) -> None:
    assert not bad(found())
    names = {finding.what for finding in found()}
    assert {"database", "migrations", "rights", "broker", "direct LISTEN", "arbiter"} <= names
    assert {"worker dispatch", "worker observe", "worker accounting", "ledger"} <= names


def test_the_number_of_queries_does_not_grow(
    well: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(60, exact=False) as few:
        found()
    for number in range(3):
        well.job()
        make.cluster(f"more-{number}")
    with django_assert_num_queries(len(few)):
        found()


def test_silent_ticks_leader_and_cluster_are_named_with_a_remedy(well: World) -> None:
    name = Cluster.objects.get().name
    troubles = bad(found(seconds=300))
    assert {f"worker {queue}" for queue in ("dispatch", "observe", "accounting")} <= set(troubles)
    assert {"arbiter", f"cluster {name}"} <= set(troubles)
    assert all(finding.fix for finding in troubles.values())
    Tick.objects.all().delete()
    assert "ever" in bad(found())["worker observe"].words


def test_a_recovery_that_is_not_finished_is_said(well: World) -> None:
    assert "recovery" not in bad(found())
    hold_traffic(since=None, now=timezone.now())
    assert "manage.py recover" in bad(found())["recovery"].fix
    free_traffic(now=timezone.now())
    assert "recovery" not in bad(found())


def test_traces_that_are_asked_for_and_cannot_be_had_are_said(
    well: World, settings: LazySettings
) -> None:
    settings.TRACES_WANTED, settings.TRACES = True, False
    assert "requirements-traces.txt" in bad(found())["settings"].fix


def test_a_leader_that_is_gone(db: None) -> None:
    World()
    ArbiterTerm.objects.update_or_create(id=1, defaults={"epoch": 3, "cycled_at": timezone.now()})
    assert "none leads" in bad(found())["arbiter"].words
    ArbiterTerm.objects.all().delete()
    assert "ever led" in bad(found())["arbiter"].words


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"secret": b"not a cipher"}, "MUSTER_ENCRYPTION_KEYS"),
        ({"last_seen_at": None}, "never read"),
        ({"clock_skew_ms": -9_000}, "-9 s"),
    ],
)
def test_a_cluster_that_is_not_well(well: World, changes: dict[str, Any], word: str) -> None:
    Cluster.objects.update(**changes)
    assert word in bad(found())[f"cluster {Cluster.objects.get().name}"].words


def test_a_cluster_with_an_open_breaker_and_without_people(well: World) -> None:
    cluster = Cluster.objects.get()
    Lease.objects.update_or_create(
        cluster=cluster, kind="dispatch", defaults={"expires_at": timezone.now(), "failures": 2}
    )
    words = [f.words for f in found() if f.what == f"cluster {cluster.name}"]
    assert words == ["the breaker is open for dispatch"]
    ClusterAccount.objects.all().delete()
    words = [f.words for f in found() if f.what == f"cluster {cluster.name}"]
    assert any("nobody has an account" in text for text in words)


def test_a_missing_migration_and_an_unbalanced_batch(well: World) -> None:
    MigrationRecorder.Migration.objects.filter(app="federation").delete()
    Batch.objects.create(seq=1, at=timezone.now(), previous_hash="", hash="x", rows=1, total_nano=5)
    troubles = bad(found())
    assert "federation.0001_initial" in troubles["migrations"].words
    assert "does not add up" in troubles["ledger"].words


def test_months_that_are_not_made_and_rows_outside_of_them(well: World) -> None:
    what = "months of tenancy_event"
    assert next(f for f in found() if f.what == what).words.startswith("made until ")
    write_events(changes=[Change("a", "1", None)], now=timezone.now() - timedelta(days=9000))
    assert "outside of every month" in bad(found())[what].words
    assert "not made yet" in bad(found(days=100))[what].words


def test_half_of_the_world_away(well: World, settings: LazySettings) -> None:
    password = "a-password-nobody-may-see"
    settings.CELERY_BROKER_URL = f"redis://:{password}@{NOWHERE}/0"
    settings.DATABASE_DIRECT_URL = f"postgres://muster:{password}@{NOWHERE}/muster"
    troubles = bad(found())
    assert set(troubles) == {"broker", "direct address"}
    assert "REDIS_URL" in troubles["broker"].fix
    assert password not in repr(troubles)


def test_without_a_database_the_rest_is_still_looked_at(
    settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest refuses every query here, as a server that is away would."""
    troubles = bad(found())
    assert troubles["database"].level is Level.ERROR
    assert "does not answer" in troubles["ledger"].words
    assert "direct LISTEN" in {finding.what for finding in found()}


def test_doubtful_settings(well: World, settings: LazySettings) -> None:
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, debug=True, lease_ms=1_000, allowed_hosts=("*",)
    )
    words = [f.words for f in found() if f.what == "settings"]
    assert len(words) == 3
    assert any("MUSTER_DEBUG" in text for text in words)


def test_the_command_prints_and_ends_with_1_on_an_error(
    well: World, settings: LazySettings
) -> None:
    out = StringIO()
    call_command("doctor", json=True, stdout=out)
    document = json.loads(out.getvalue())
    assert document["level"] in ("ok", "warning")
    settings.CELERY_BROKER_URL = f"redis://{NOWHERE}/0"
    with pytest.raises(SystemExit) as end:
        call_command("doctor", stdout=(out := StringIO()))
    assert end.value.code == 1
    assert any(line.startswith("error    broker") for line in out.getvalue().splitlines())


def test_no_secret_is_shown(well: World, settings: LazySettings) -> None:
    environment = settings.ENVIRONMENT
    out = StringIO()
    call_command("doctor", json=True, stdout=out)
    for secret in (environment.secret_key, *environment.encryption_keys):
        assert secret not in out.getvalue()

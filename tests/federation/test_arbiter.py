"""The arbiter as a process: one leads, others wait, a lost lock ends a term, a broker may be away."""

import os
import signal
import threading
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection, connections
from django.utils import timezone

from clusters.models import Cluster
from config.celery import app
from federation.management.commands import arbiter
from federation.models import ArbiterTerm, Attempt, Job
from tests.federation.world import World
from tests.stack import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def direct_url(settings: LazySettings) -> str:
    """The session connection goes to the test database too."""
    at = connection.settings_dict
    settings.DATABASE_DIRECT_URL = (
        f"postgres://{quote(at['USER'])}:{quote(at['PASSWORD'])}@{at['HOST']}:{at['PORT']}"
        f"/{quote(at['NAME'])}"
    )
    return str(settings.DATABASE_DIRECT_URL)


@pytest.fixture(autouse=True)
def no_broker() -> Iterator[None]:
    """No broker answers: the arbiter must not need one."""
    url = app.conf.broker_url
    app.conf.broker_url = "redis://127.0.0.1:1/0"
    yield
    app.conf.broker_url = url


def live_world() -> World:
    """A world whose cluster was read just now: the arbiter reads the real clock."""
    world = World()
    Cluster.objects.update(last_seen_at=timezone.now())
    return world


def test_once_binds_and_a_missing_broker_does_not_matter() -> None:
    live_world().job()
    call_command("arbiter", once=True)
    assert Job.objects.get().state == "dispatching"
    assert ArbiterTerm.objects.get().epoch == 1


def test_while_another_leads_nothing_is_decided(direct_url: str) -> None:
    live_world().job()
    with psycopg.connect(direct_url, autocommit=True) as leader:
        leader.execute("SELECT pg_advisory_lock(%s, %s)", arbiter.LOCK)
        call_command("arbiter", once=True)
        assert not Attempt.objects.exists()
    call_command("arbiter", once=True)
    assert Attempt.objects.exists()


def test_it_wakes_by_the_doorbell_survives_a_lost_connection_and_stops_on_sigterm(
    settings: LazySettings, direct_url: str
) -> None:
    world = live_world()
    seen: list[int] = []

    def drive() -> None:
        """From outside: a job, a cut connection, another job, SIGTERM."""
        try:
            for number in (1, 2):
                world.job()
                with psycopg.connect(direct_url, autocommit=True) as own:
                    own.execute("NOTIFY muster")
                    eventually(lambda n=number: Attempt.objects.count() >= n, within_s=90)
                    seen.append(ArbiterTerm.objects.get().epoch)
                    own.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                        " AND classid = %s AND objid = %s AND granted",
                        arbiter.LOCK,
                    )
                # a cycle that is under way may end in the old term, and bind what comes meanwhile
                eventually(lambda: ArbiterTerm.objects.get().epoch > seen[-1], within_s=90)
        finally:
            connections.close_all()
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=drive)
    thread.start()
    try:
        call_command("arbiter")
    finally:
        thread.join(90)
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert len(seen) == 2
    assert seen[0] < seen[1]

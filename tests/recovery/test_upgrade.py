"""From the first release to this one, with jobs running: they go on, and the books agree."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connection

from accounting.core.posting import GENESIS, seal
from accounting.models import Batch, Transfer
from accounting.selectors.ledger import verify_ledger
from clusters.models import Cluster
from federation.models import Attempt, Job
from federation.services.change import cancel_job, release_job
from kit.crypto import encrypt
from kit.intervals import to_ms
from tenancy.models import Tenant, User
from tests.recovery.travel import fresh_database, nothing_is_open, ours, theirs
from tests.stack import database_url, eventually
from tests.world import Simulated, World, simulated, utc_now

FIRST = Path(__file__).parent / "first_release"
MADE = datetime(2026, 11, 30, 0, 40, tzinfo=UTC)
MOMENT = re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00")
MILLISECONDS = re.compile(r"\b1[78]\d{11}\b")


def moved(text: str, by: timedelta) -> str:
    """The text with every time in it later by as much: as if it had been written just now."""
    by_ms = by // timedelta(milliseconds=1)
    text = MILLISECONDS.sub(lambda found: str(int(found[0]) + by_ms), text)
    return MOMENT.sub(
        lambda found: f"{datetime.fromisoformat(found[0]) + by:%Y-%m-%d %H:%M:%S.%f+00}", text
    )


@contextmanager
def first_release(by: timedelta = timedelta()) -> Iterator[None]:
    """A database as the first release left it, brought to this one's schema."""
    with fresh_database():
        with connection.cursor() as cursor:
            cursor.execute(moved((FIRST / "muster.sql").read_text(), by))
            cursor.execute("SET search_path TO DEFAULT")
        call_command("migrate", interactive=False, verbosity=0, skip_checks=True)
        yield


def reseal() -> None:
    """Seals the moved rows anew: their hashes cover their times."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounting_batch DISABLE TRIGGER append_only")
        previous = GENESIS
        for batch in Batch.objects.order_by("seq"):
            rows = Transfer.objects.filter(batch=batch).select_related("record", "adjustment")
            sealed = seal(
                seq=batch.seq,
                at_ms=to_ms(batch.at),
                previous_hash=previous,
                postings=[row.posting for row in rows],
            )
            Batch.objects.filter(seq=batch.seq).update(
                hash=sealed.hash, previous_hash=sealed.previous_hash
            )
            previous = sealed.hash
        cursor.execute("ALTER TABLE accounting_batch ENABLE TRIGGER append_only")


def moved_world(clusters: dict[str, Simulated]) -> World:
    """The organisation of the dump, over the simulated cluster that goes on where its own was."""
    aurora = Cluster.objects.get(name="aurora")
    Cluster.objects.filter(id=aurora.id).update(
        endpoint=clusters["aurora"].endpoint,
        secret=encrypt(clusters["aurora"].key, settings.ENVIRONMENT.encryption_keys),
    )
    user = User.objects.get(username="mia")
    tenant = Tenant.objects.get(path="acme/vision")
    return World(tenant, user, "", {"aurora": aurora}, clusters)


@pytest.mark.django_db(transaction=True)
def test_what_the_first_release_posted_still_verifies() -> None:
    with first_release():
        assert Batch.objects.count() > 0
        assert verify_ledger() is None
        assert not Job.objects.exclude(name="unsent").filter(state="dispatching").exists()


@pytest.mark.django_db(transaction=True)
def test_a_long_reader_makes_a_migration_give_up_and_try_again_later() -> None:
    with fresh_database():
        with connection.cursor() as cursor:
            cursor.execute((FIRST / "muster.sql").read_text())
            cursor.execute("SET search_path TO DEFAULT; SET lock_timeout TO '200ms'")
        with psycopg.connect(database_url()) as reader:
            reader.execute("SELECT count(*) FROM accounting_transfer")
            with pytest.raises(OperationalError, match="lock timeout"):
                call_command("migrate", interactive=False, verbosity=0, skip_checks=True)
            found = reader.execute("SELECT count(*) FROM accounting_transfer").fetchone()
            assert found is not None
            assert found[0] > 0
        call_command("migrate", interactive=False, verbosity=0, skip_checks=True)
        assert verify_ledger() is None


@contextmanager
def upgraded(tmp_path: Path) -> Iterator[World]:
    """The first release's database on this schema, its cluster going on, its jobs where they were."""
    # Whole seconds: that is what the cluster's clock has.
    by = timedelta(seconds=(utc_now() - MADE) // timedelta(seconds=1) - 60)
    (tmp_path / "aurora.json").write_text(moved((FIRST / "aurora.json").read_text(), by))
    fleet = {
        "nodes": 8,
        "gpu_type": "h100",
        "partitions": [{"name": "batch", "max_minutes": 525600}],
        "state_file": str(tmp_path / "aurora.json"),
    }
    with first_release(by), simulated(tmp_path, aurora=fleet) as clusters:
        reseal()
        yield moved_world(clusters)


@pytest.mark.django_db(transaction=True)
def test_running_jobs_go_on_and_the_books_agree(tmp_path: Path) -> None:
    with upgraded(tmp_path) as world:
        jobs = {job.name: job for job in Job.objects.all()}
        before = Attempt.objects.get(job=jobs["runs-on"])

        world.until(jobs["pending"], "succeeded", within_s=90)
        world.until(jobs["unsent"], "succeeded", within_s=90)
        world.until(jobs["runs-on"], "running", within_s=90)
        after = Attempt.objects.get(job=jobs["runs-on"])
        assert (after.started_at, after.runs) == (before.started_at, before.runs)
        release_job(user=world.user, job_id=jobs["held"].uuid, now=utc_now())
        world.until(jobs["held"], "succeeded", within_s=90)
        cancel_job(user=world.user, job_id=jobs["runs-on"].uuid, now=utc_now())
        world.until(jobs["runs-on"], "cancelled", within_s=90)
        world.until(jobs["waits"], "succeeded", within_s=90)

        eventually(lambda: world.turn() or nothing_is_open(), within_s=90)
        world.turn()
        assert ours(world) == theirs(world)
        assert len(theirs(world)) == Attempt.objects.count() == len(jobs)
        assert verify_ledger() is None

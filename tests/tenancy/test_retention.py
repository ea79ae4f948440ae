"""Events and decisions by month: kept long enough, dropped whole, in nobody's way."""

import re
import threading
from datetime import timedelta
from urllib.parse import quote

import psycopg
import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from federation.models import Decision
from kit.partitions import month_of, partitions_of
from tenancy.models import ApiToken, Event
from tenancy.services.records import Change, write_events
from tenancy.services.retention import keep_by_month
from tenancy.tasks import prune
from tests import make

DAYS = {"tenancy_event": 90, "federation_decision": 30}


def address() -> str:
    at = connection.settings_dict
    return (
        f"postgres://{quote(at['USER'])}:{quote(at['PASSWORD'])}@{at['HOST']}:{at['PORT']}"
        f"/{quote(at['NAME'])}"
    )


def test_the_tables_named_in_the_settings_are_split(db: None) -> None:
    assert set(settings.KEEP_DAYS) == set(DAYS)
    for table in settings.KEEP_DAYS:
        names = {part.name for part in partitions_of(table)}
        assert f"{table}_rest" in names
        assert f"{table}_y{timezone.now():%Ym%m}" in names


def test_models_read_and_write_them_as_before(db: None) -> None:
    now = timezone.now()
    made = Decision.objects.create(at=now, epoch=1, waiting=1, bound=[], took_ms=1)
    event = Event.objects.create(at=now - timedelta(days=4000), kind="a", subject="s")
    assert Decision.objects.get(id=made.id).epoch == 1
    event.cause = "changed"
    event.save(update_fields=["cause"])
    assert Event.objects.get(pk=event.pk).cause == "changed"
    Event.objects.get(pk=event.pk).delete()
    assert not Event.objects.exists()


def test_what_is_kept_is_what_the_settings_say(db: None) -> None:
    now = month_of(timezone.now()) + timedelta(days=9)
    for days in (0, 89, 95):
        at = now - timedelta(days=days)
        write_events(changes=[Change("a", str(days), None)], now=at)
        Decision.objects.create(at=at, epoch=days, waiting=1, bound=[], took_ms=1)
    keep_by_month(keep_days=DAYS, now=now)
    assert set(Event.objects.values_list("subject", flat=True)) == {"0", "89"}
    assert list(Decision.objects.values_list("epoch", flat=True)) == [0]


def test_the_tick_makes_the_months_to_come(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {partitions_of('tenancy_event')[-1].name}")
    before = len(partitions_of("tenancy_event"))
    prune()
    assert len(partitions_of("tenancy_event")) == before + 1


def test_sessions_and_tokens_go_when_they_are_over(db: None) -> None:
    now, owner = timezone.now(), make.person()
    for days in (-100, -10, 10):
        at = now + timedelta(days=days)
        Session.objects.create(session_key=f"s{days}", session_data="", expire_date=at)
        ApiToken.objects.create(
            user=owner, name=f"{days}", digest=f"{days}", scopes=[], created_at=at, expires_at=at
        )
    revoked = ApiToken.objects.get(name="10")
    ApiToken.objects.filter(pk=revoked.pk).update(revoked_at=now - timedelta(days=91))
    prune()
    assert set(Session.objects.values_list("session_key", flat=True)) == {"s10"}
    assert set(ApiToken.objects.values_list("name", flat=True)) == {"-10"}


def test_the_page_says_of_every_table_what_bounds_it(db: None) -> None:
    page = (settings.BASE_DIR / "docs/reference/retention.md").read_text()
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| `")]
    named = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert named == {*connection.introspection.django_table_names(), "django_migrations"}


@pytest.mark.django_db(transaction=True)
def test_who_reads_for_long_is_not_waited_for_and_nobody_waits_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = timezone.now()
    later = now + timedelta(days=400)
    names = [part.name for part in partitions_of("tenancy_event")]
    with psycopg.connect(address()) as reader:
        reader.execute("SELECT count(*) FROM tenancy_event")
        keep_by_month(keep_days=DAYS, now=later)
        assert "retention of tenancy_event waits" in caplog.text
        writing = threading.Thread(target=_write)
        writing.start()
        writing.join(60)
        assert not writing.is_alive()
    keep_by_month(keep_days=DAYS, now=later)
    left = {part.name for part in partitions_of("tenancy_event")}
    assert left & set(names) == {"tenancy_event_rest"}
    _restore()


def _write() -> None:
    with psycopg.connect(address()) as writer:
        writer.execute("INSERT INTO tenancy_event (at, kind, subject, cause, data)"
                       " VALUES (now(), 'a', 's', '', '{}')")  # fmt: skip


def _restore() -> None:
    """The months as they were, for the tests that come after."""
    for table in DAYS:
        with connection.cursor() as cursor:
            for part in partitions_of(table):
                if part.end is not None:
                    cursor.execute(f"DROP TABLE {part.name}")
    keep_by_month(keep_days=DAYS, now=timezone.now())

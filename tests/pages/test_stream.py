"""The event stream under a real uvicorn: order, resuming, isolation, access that ends."""

import socket
from collections.abc import Iterator
from datetime import timedelta

import httpx
import psycopg
import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.utils import timezone

from tenancy.models import ApiToken, Event, Membership, Tenant, User
from tenancy.services.access import create_tenant, create_token, set_member
from tenancy.services.records import Change, ring, write_events
from tests.pages.scene import HASH
from tests.pages.servers import database_url, stream
from tests.pages.sse import reading

pytestmark = pytest.mark.django_db(transaction=True)
INSERT = """
    INSERT INTO tenancy_event (at, kind, tenant_id, subject, cause, data)
    VALUES (now(), 'test', %s, %s, '', '{}')"""


@pytest.fixture(scope="module")
def server(django_db_setup: None) -> Iterator[str]:
    with stream() as url:
        yield url


def person(name: str, tenant: Tenant | None, *, scopes: tuple[str, ...] = ("read",)) -> str:
    """A person who may see `tenant` (None: an admin); the text of a token."""
    now = timezone.now()
    user = User.objects.create(username=name, password=HASH, is_superuser=not tenant)
    if tenant is not None:
        set_member(actor=None, tenant=tenant, user=user, role="viewer", now=now)
    _, token = create_token(
        actor=user, user=user, name="t", scopes=scopes, expires_at=now + timedelta(days=1), now=now
    )
    return token


def tell(*subjects: str, tenant: Tenant | None = None) -> list[int]:
    """Write events in one transaction and ring; their ids."""
    tenant_id = tenant and tenant.id
    write_events(changes=[Change("test", s, tenant_id) for s in subjects], now=timezone.now())
    ring()
    return list(Event.objects.filter(subject__in=subjects).values_list("id", flat=True))


def tenant(name: str, parent: Tenant | None = None) -> Tenant:
    return create_tenant(actor=None, name=name, parent=parent, now=timezone.now())


def test_each_sees_their_own_tree_only(server: str) -> None:
    acme, rival = tenant("acme"), tenant("rival")
    team = tenant("vision", acme)
    mia, admin = person("mia", acme), person("root", None)
    with reading(server, mia) as hers, reading(server, admin) as all_of_it:
        tell("theirs", tenant=rival)
        tell("fleet")
        tell("below", tenant=team)
        tell("own", tenant=acme)
        assert hers.take(2) == ["below", "own"]
        assert hers.events[0]["tenant"] == "acme/vision"
        assert hers.events[0]["kind"] == "test"
        assert all_of_it.take(4) == ["theirs", "fleet", "below", "own"]


def test_a_client_resumes_behind_the_last_event_it_got(server: str) -> None:
    acme = tenant("acme")
    token = person("mia", acme)
    ids = [tell(f"e{n}", tenant=acme)[0] for n in range(5)]
    with reading(server, token, since=ids[1]) as reader:
        assert reader.take(3) == ["e2", "e3", "e4"]
        assert reader.last_id == str(ids[4])
    last = {"Last-Event-ID": str(ids[3])}
    with reading(server, token, since=0, **last) as reader:  # the header is the newer of the two
        tell("e5", tenant=acme)
        assert reader.take(2) == ["e4", "e5"]


def test_what_is_older_than_the_memory_comes_from_the_table(server: str) -> None:
    acme = tenant("acme")
    token = person("mia", acme)
    names = [f"n{n}" for n in range(180)]  # the test's stream remembers 50 to 100
    for start in range(0, 180, 20):
        tell(*names[start : start + 20], tenant=acme)
    with reading(server, token, since=0) as reader:
        tell("live", tenant=acme)
        assert reader.take(181) == [*names, "live"]


def test_a_pruned_id_resumes_with_what_is_kept(server: str) -> None:
    acme = tenant("acme")
    token = person("mia", acme)
    ids = [tell(f"e{n}", tenant=acme)[0] for n in range(4)]
    Event.objects.filter(id__lte=ids[1]).delete()
    with reading(server, token, since=ids[0]) as reader:
        assert reader.take(2) == ["e2", "e3"]


def test_a_transaction_that_commits_late_is_not_skipped(server: str) -> None:
    acme = tenant("acme")
    token = person("mia", acme)
    with psycopg.connect(database_url()) as slow, reading(server, token) as reader:
        slow.execute(INSERT, (acme.id, "late"))
        tell("early", tenant=acme)
        reader.until(lambda it: len(it.comments) >= 5)
        assert reader.events == [], "an older transaction is open, so nothing may pass"
        slow.commit()
        assert reader.take(2) == ["late", "early"]


def test_ids_out_of_order_resume_rightly(server: str) -> None:
    acme = tenant("acme")
    token = person("mia", acme)
    with psycopg.connect(database_url()) as slow:
        slow.execute("SELECT pg_current_xact_id()")  # older than the next transaction …
        (first,) = tell("first id", tenant=acme)
        slow.execute(INSERT, (acme.id, "second id"))  # … but with the higher event id
        slow.commit()
    second = Event.objects.get(subject="second id").id
    assert first < second
    with reading(server, token, since=0) as reader:
        assert reader.take(2) == ["second id", "first id"]
    with reading(server, token, since=second) as reader:
        assert reader.take(1) == ["first id"]
    with reading(server, token, since=first) as reader:
        tell("after", tenant=acme)
        assert reader.take(1) == ["after"]


def test_a_revoked_token_ends_the_stream(server: str) -> None:
    token = person("mia", tenant("acme"))
    with reading(server, token) as reader:
        ApiToken.objects.update(revoked_at=timezone.now())
        assert not reader.until(lambda it: False)
        assert reader.comments[-1] == "your access has ended"


def test_a_lost_membership_narrows_the_stream(server: str) -> None:
    acme, vision = tenant("acme"), tenant("vision")
    token = person("mia", acme)
    set_member(
        actor=None, tenant=vision, user=User.objects.get(), role="viewer", now=timezone.now()
    )
    with reading(server, token) as reader:
        tell("before", tenant=acme)
        assert reader.take(1) == ["before"]
        Membership.objects.filter(tenant=acme).delete()
        beats = len(reader.comments) + 5
        reader.until(lambda it: len(it.comments) >= beats)  # past the next check
        tell("gone", tenant=acme)
        tell("kept", tenant=vision)
        assert reader.take(2) == ["before", "kept"]


def test_the_browser_session_opens_the_stream_until_it_ends(server: str) -> None:
    acme = tenant("acme")
    person("mia", acme)
    browser = Client()
    browser.force_login(User.objects.get(username="mia"))
    cookie = f"sessionid={browser.cookies['sessionid'].value}"
    with reading(server, "", Authorization="", Cookie=cookie) as reader:
        tell("seen", tenant=acme)
        assert reader.take(1) == ["seen"]
        Session.objects.all().delete()
        assert not reader.until(lambda it: False)


def test_the_stream_outlives_a_lost_database_connection(server: str) -> None:
    acme = tenant("acme")
    token = person("mia", acme)
    with reading(server, token) as reader:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query ~ 'LISTEN|FROM tenancy_event'"
                " AND pid <> pg_backend_pid()"
            )
            assert cursor.fetchone()[0] >= 2
        tell("meanwhile", tenant=acme)
        assert reader.take(1) == ["meanwhile"]


@pytest.mark.parametrize(
    ("headers", "path", "status", "code"),
    [
        ({}, "", 401, "not_authenticated"),
        ({"Authorization": "Bearer nonsense"}, "", 401, "not_authenticated"),
        ({"Cookie": "sessionid=nonsense"}, "", 401, "not_authenticated"),
        ({"Authorization": "Bearer {submit}"}, "", 403, "permission_denied"),
        ({"Authorization": "Bearer {read}"}, "?since=x", 422, "invalid_parameter"),
        ({"Authorization": "Bearer {read}"}, "?since=-1", 422, "invalid_parameter"),
        ({"Authorization": "Bearer {read}"}, "?until=1", 422, "invalid_parameter"),
        ({"Authorization": "Bearer {read}", "Last-Event-ID": "a"}, "", 422, "invalid_parameter"),
    ],
)
def test_errors_are_problems(
    server: str, headers: dict[str, str], path: str, status: int, code: str
) -> None:
    acme = tenant("acme")
    tokens = {"read": person("mia", acme), "submit": person("sub", acme, scopes=("submit",))}
    given = {name: value.format(**tokens) for name, value in headers.items()}
    response = httpx.get(f"{server}/api/v1/events{path}", headers=given)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"


def test_other_methods_and_paths_are_problems(server: str) -> None:
    assert httpx.post(f"{server}/api/v1/events").json()["code"] == "method_not_allowed"
    assert httpx.get(f"{server}/jobs").json()["code"] == "not_found"


def test_a_client_that_does_not_read_is_dropped_and_resumes(server: str) -> None:
    acme = tenant("acme")
    token = person("mia", acme)
    host, port = server.removeprefix("http://").split(":")
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect((host, int(port)))
        request = f"GET /api/v1/events?since=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}"
        silent.sendall(f"{request}\r\n\r\n".encode())
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO tenancy_event (at, kind, tenant_id, subject, cause, data)"
                " SELECT now(), 'test', %s, n::text, '', jsonb_build_object('x', repeat('y', 9000))"
                " FROM generate_series(1, 3000) n",
                [acme.id],
            )
        with reading(server, token) as other:  # one slow client holds nobody up
            tell("other", tenant=acme)
            other.until(lambda it: it.events and it.events[-1]["subject"] == "other")
            beats = len(other.comments) + 10
            other.until(lambda it: len(it.comments) >= beats)  # 3 s, past the stall limit
        silent.settimeout(60)
        got = bytearray()
        while chunk := silent.recv(1 << 20):
            got += chunk
    ids = [int(part.partition(b"\n")[0]) for part in got.split(b"\nid: ")[1:-1]]
    assert ids[-1] < Event.objects.get(subject="other").id, "it was cut off before the end"
    with reading(server, token, since=ids[-1]) as again:
        again.until(lambda it: it.events and it.events[-1]["subject"] == "other")
        assert again.events[0]["id"] == ids[-1] + 1


def test_the_front_says_when_web_is_away() -> None:
    with stream(upstream="http://127.0.0.1:9", ready="/") as url:
        response = httpx.get(f"{url}/jobs?x=1")
        assert (response.status_code, response.json()["code"]) == (502, "web_away")

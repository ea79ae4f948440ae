"""Prices and the ledger over REST: who sees what, pages, what is refused."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from accounting.models import Price
from accounting.services.usage import record_runs
from kit.intervals import HOUR_MS
from tenancy.models import Membership, User
from tests.accounting.world import NOW, START, USD, World, post_all

BODY = {
    "flavor": "h100",
    "class": "spot",
    "cluster": "alpha",
    "tenant": "acme/vision",
    "amount": "1.25",
    "currency": "USD",
    "effective_from": "2026-03-10T12:00:00Z",
}


@pytest.fixture(autouse=True)
def _collected(settings: Settings, tmp_path: Path) -> None:
    settings.STATIC_ROOT = tmp_path


def sign_in(name: str, world: World, tenant: str = "") -> Client:
    user = User.objects.create_user(name, is_superuser=name == "root")
    if tenant:
        Membership.objects.create(user=user, tenant=getattr(world, tenant), role="viewer")
    client = Client()
    client.force_login(user)
    return client


def post(client: Client, body: object) -> Any:
    return client.post("/api/v1/prices", body, content_type="application/json")


def items(client: Client, path: str) -> list[dict[str, Any]]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_an_admin_sets_a_price_and_reads_it_back(world: World) -> None:
    root = sign_in("root", world)
    answer = post(root, BODY)
    assert answer.status_code == 201, answer.content
    price = answer.json()
    price_id = price.pop("id")
    assert price == {
        "flavor": "h100",
        "class": "spot",
        "cluster": "alpha",
        "tenant": "acme/vision",
        "per_gpu_hour": {"amount": "1.250000", "currency": "USD"},
        "effective_from": "2026-03-10T12:00:00.000Z",
    }
    assert items(root, "/api/v1/prices") == [{"id": price_id, **price}]
    assert items(root, "/api/v1/prices?class=guaranteed") == []


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"amount": 1.25}, "/amount"),
        ({"amount": "1e3"}, "/amount"),
        ({"amount": "-1"}, "/amount"),
        ({"amount": "0.0000000001"}, "/amount"),
        ({"amount": None}, "/amount"),
        ({"class": "auto"}, "/class"),
        ({"flavor": "x100"}, "/flavor"),
        ({"flavor": "a\0b"}, "/flavor"),
        ({"cluster": "gamma"}, "/cluster"),
        ({"tenant": "acme/none"}, "/tenant"),
        ({"currency": "usd"}, "/currency"),
        ({"effective_from": "tomorrow"}, "/effective_from"),
        ({"effective_from": "2026-03-10"}, "/effective_from"),
        ({"effective_from": "9999-12-31T23:59:59-23:59"}, "/effective_from"),
        ({"until": "2027-01-01T00:00:00Z"}, "/until"),
    ],
)
def test_a_bad_price_is_refused_by_pointer(
    world: World, change: dict[str, object], pointer: str
) -> None:
    answer = post(sign_in("root", world), {**BODY, **change})
    assert answer.status_code == 422, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert not Price.objects.exists()


def test_only_admins_set_prices(world: World) -> None:
    assert post(sign_in("bob", world, "acme"), BODY).status_code == 403
    assert post(Client(), BODY).status_code == 401
    assert not Price.objects.exists()


def test_a_price_of_a_tenant_is_seen_by_whom_it_concerns(world: World) -> None:
    world.price(tenant=world.vision)
    world.price()
    below, stranger = sign_in("bob", world, "pretrain"), sign_in("charlie", world, "nlp")
    paths = [[row["tenant"] for row in items(c, "/api/v1/prices")] for c in (below, stranger)]
    assert paths == [[None, "acme/vision"], [None]]


def test_the_ledger_shows_what_tenants_one_may_see_owe(world: World) -> None:
    world.price()
    facts = [
        world.run(end_ms=START + HOUR_MS),
        world.run(tenant=world.nlp, end_ms=START + HOUR_MS),
    ]
    record_runs(facts=facts, now=NOW)
    post_all(NOW)
    root = sign_in("root", world)
    assert len(items(root, "/api/v1/ledger")) == 2
    (row,) = items(sign_in("charlie", world, "nlp"), "/api/v1/ledger")
    assert row["amount"] == {"amount": "16.000000", "currency": "USD"}
    assert (row["tenant"], row["job"]) == ("acme/nlp", str(facts[1].job_id))
    assert (row["gpu_hours"], row["start"]) == ("8.000000", "2026-03-10T10:00:00.000Z")
    assert [r["tenant"] for r in items(root, "/api/v1/ledger?tenant=acme/vision")] == [
        "acme/vision/pretrain"
    ]
    assert len(items(root, f"/api/v1/ledger?job={facts[0].job_id}")) == 1
    assert items(root, "/api/v1/ledger?tenant=none") == []
    assert items(sign_in("bob", world), "/api/v1/ledger") == []


@pytest.mark.parametrize("query", ["job=7", "cursor=Nw==", "cursor=Ijc6Ig==", "limit=0", "x=1"])
def test_a_bad_query_is_refused(world: World, query: str) -> None:
    assert sign_in("root", world).get(f"/api/v1/ledger?{query}").status_code == 422


def test_the_pages_of_the_ledger_hold_every_row_once_in_constant_queries(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    world.price(nano=USD)
    record_runs(facts=[world.run(end_ms=START + HOUR_MS) for _ in range(13)], now=NOW)
    post_all(NOW, limit=5)
    root = sign_in("root", world)
    path, seen = "/api/v1/ledger?limit=4", []
    while path:
        with django_assert_num_queries(3):  # session, user, rows
            page = root.get(path).json()
        seen += [row["id"] for row in page["items"]]
        path = page["next"]
    assert len(seen) == len(set(seen)) == 13

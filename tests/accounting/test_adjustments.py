"""Adjustments: counter-entries with a cause, booked once, sealed into the chain, seen by few."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from accounting.models import Adjustment, Transfer
from accounting.selectors.ledger import verify_ledger
from accounting.services.adjust import Correction, adjust
from accounting.services.usage import record_runs
from kit.ids import fact_id
from kit.intervals import HOUR_MS
from tenancy.models import AuditEntry, Event
from tests.accounting.test_api import items, sign_in
from tests.accounting.world import NOW, START, World, post_all

BODY = {
    "tenant": "acme/vision",
    "amount": "-2.5",
    "currency": "USD",
    "cause": "refund",
    "why": "The rack lost power.",
}


def book(client: Client, **changes: object) -> Any:
    body = {**BODY, **changes}
    return client.post("/api/v1/adjustments", body, content_type="application/json")


def test_an_admin_gives_money_back_and_the_chain_holds(world: World) -> None:
    world.price()
    record_runs(facts=[world.run(end_ms=START + HOUR_MS)], now=NOW)
    post_all(NOW)
    root = sign_in("root", world)
    made = book(root, cluster="alpha", job=str(fact_id("job")), gpu_ms=HOUR_MS)
    assert made.status_code == 201, made.content
    assert made.json()["amount"] == {"amount": "-2.500000", "currency": "USD"}
    assert items(root, "/api/v1/adjustments") == [made.json()]
    (row,) = [row for row in items(root, "/api/v1/ledger") if row["adjustment"]]
    assert (row["debit"], row["tenant"]) == ("adjustments:refund", "acme/vision")
    assert row["gpu_ms"] == HOUR_MS
    assert verify_ledger() is None
    record_runs(facts=[world.run(end_ms=START + HOUR_MS)], now=NOW)
    post_all(NOW)
    assert verify_ledger() is None
    entry = AuditEntry.objects.get(action="adjust")
    assert (entry.why, entry.after["amount"]) == (BODY["why"], "-2.500000")
    assert Event.objects.get(kind="ledger.adjusted").tenant_id == world.vision.pk


def test_booking_twice_is_booking_once(world: World) -> None:
    owed = Correction(world.vision.pk, 7, "USD", "recovery", "Ran while we were away.")
    for _ in range(2):
        adjust(actor=None, correction=owed, adjustment_id=fact_id("gap"), now=NOW)
    assert Transfer.objects.count() == Adjustment.objects.count() == 1
    assert Transfer.objects.get().debit == f"tenant:{world.vision.pk}"


def test_only_those_who_see_the_tenant_see_it(world: World) -> None:
    assert book(sign_in("root", world)).status_code == 201
    assert len(items(sign_in("vera", world, "vision"), "/api/v1/adjustments")) == 1
    assert items(sign_in("otto", world), "/api/v1/adjustments") == []
    assert items(sign_in("olga", world), "/api/v1/ledger") == []
    assert book(sign_in("vic", world, "vision")).status_code == 403


def test_pages_go_through_all_of_them_once(world: World) -> None:
    root = sign_in("root", world)
    made = {book(root, amount=str(number)).json()["id"] for number in range(1, 6)}
    seen: list[str] = []
    address = "/api/v1/adjustments?limit=2&tenant=acme"
    while address:
        page = root.get(address).json()
        seen += [row["id"] for row in page["items"]]
        address = page["next"]
    assert len(seen) == 5
    assert set(seen) == made


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"tenant": "nobody"}, "/tenant"),
        ({"amount": "0"}, "/amount"),
        ({"amount": "1e9"}, "/amount"),
        ({"amount": "99999999999"}, "/amount"),
        ({"currency": "EUR"}, "/currency"),
        ({"cause": "mood"}, "/cause"),
        ({"why": "  "}, "/why"),
        ({"why": None}, "/why"),
        ({"cluster": "nowhere"}, "/cluster"),
        ({"job": "seven"}, "/job"),
        ({"gpu_ms": -1}, "/gpu_ms"),
        ({"gpu_ms": True}, "/gpu_ms"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_booked(
    world: World, changes: dict[str, object], pointer: str
) -> None:
    world.price()
    answer = book(sign_in("root", world), **changes)
    assert answer.status_code == 422, answer.content
    assert [problem["pointer"] for problem in answer.json()["errors"]] == [pointer]
    assert not Adjustment.objects.exists()


def test_an_adjustment_is_never_changed(world: World) -> None:
    assert book(sign_in("root", world)).status_code == 201
    for deed in ("UPDATE accounting_adjustment SET why = 'x'", "DELETE FROM accounting_adjustment"):
        with (
            pytest.raises(IntegrityError, match="append-only"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(deed)


def test_a_changed_word_breaks_the_chain(world: World) -> None:
    assert book(sign_in("root", world)).status_code == 201
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE accounting_adjustment SET why = 'A gift.'")
    fault = verify_ledger()
    assert fault is not None
    assert "changed" in fault.problem

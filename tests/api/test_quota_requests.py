"""Requests for quota over REST: who asks, who decides, who sees; and what is refused."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from clusters.models import Flavor
from kit.intervals import iso
from quotas.models import QuotaRequest
from quotas.services.rows import set_quota
from tenancy.models import Role
from tenancy.services.access import set_member
from tests import make
from tests.api.world import TEAM, UNKNOWN_ID, World, spots
from tests.make import NOW

BODY = {"tenant": TEAM, "flavor": "h100-sxm-80", "amount": 16, "why": "a deadline"}


def asked(world: World, caller: str = "alice", **body: Any) -> Any:
    return getattr(world, caller).post("/quotas/requests", {**BODY, **body})


def share(world: World, guaranteed: int = 64) -> None:
    """The organisation has something to share out, and Vera owns it."""
    flavor, acme = Flavor.objects.get(name="h100-sxm-80"), make.tenant("acme")
    set_quota(actor=None, tenant=acme, flavor=flavor, guaranteed=guaranteed, now=NOW)
    set_member(actor=None, tenant=acme, user=world.vera.user, role=Role.OWNER, now=NOW)


def test_an_owner_asks_and_one_above_grants_a_part(world: World) -> None:
    share(world)
    until = iso(timezone.now() + timedelta(days=7))
    answer = asked(world, until=until, borrowing_limit=32)
    assert answer.status_code == 201, answer.content
    row = answer.json()
    wish = {name: row[name] for name in ("amount", "borrowing_limit", "until")}
    assert wish == {"amount": 16, "borrowing_limit": 32, "until": until}
    assert (row["state"], row["asked_by"], row["granted"]) == ("open", "alice", None)
    address = f"/quotas/requests/{row['id']}"
    assert world.bob.get(address).json() == row
    given = {"amount": 8, "comment": "half"}
    answer = world.vera.post(f"{address}/approve", given, if_match=row["etag"])
    assert answer.status_code == 200, answer.content
    held = answer.json()
    assert (held["state"], held["decided_by"], held["comment"]) == ("approved", "vera", "half")
    assert {**held["granted"], "from": None} == {**wish, "amount": 8, "from": None}
    assert answer.headers["ETag"] == held["etag"]
    (quota,) = world.bob.get(f"/tenants/{TEAM}/quotas").json()["items"]
    assert (quota["guaranteed"], quota["granted"]) == (0, 8)
    answer = world.alice.post(f"{address}/withdraw", {"comment": "we are done"})
    assert (answer.status_code, answer.json()["state"]) == (200, "ended")
    (quota,) = world.bob.get(f"/tenants/{TEAM}/quotas").json()["items"]
    assert quota["granted"] == 0


@pytest.mark.parametrize(
    ("caller", "asking", "deciding"),
    [
        ("ada", 201, 200),
        ("alice", 201, 403),  # the owner of the tenant itself does not decide
        ("bob", 403, 403),
        ("charlie", 404, 404),
        ("nobody", 401, 401),
    ],
)
def test_who_asks_and_who_decides(world: World, caller: str, asking: int, deciding: int) -> None:
    share(world)
    assert asked(world, caller).status_code == asking
    address = f"/quotas/requests/{asked(world).json()['id']}"
    who = getattr(world, caller)
    assert who.post(f"{address}/reject", {}).status_code == deciding
    address = f"/quotas/requests/{asked(world).json()['id']}"
    assert who.post(f"{address}/approve", {}).status_code == deciding


@pytest.mark.parametrize(
    ("caller", "status"), [("ada", 200), ("alice", 200), ("bob", 403), ("charlie", 404)]
)
def test_who_takes_back(world: World, caller: str, status: int) -> None:
    address = f"/quotas/requests/{asked(world).json()['id']}"
    assert getattr(world, caller).post(f"{address}/withdraw", {}).status_code == status


def test_the_list_is_paged_filtered_and_of_ones_own_tenants(world: World) -> None:
    share(world)
    ids = [asked(world, amount=number).json()["id"] for number in (1, 2, 3)]
    other = asked(world, "charlie", tenant="rivals/lab").json()["id"]
    world.ada.post(f"/quotas/requests/{ids[0]}/approve", {})
    world.ada.post(f"/quotas/requests/{ids[1]}/reject", {"comment": "no"})

    def listed(caller: Any, query: str = "") -> list[str]:
        answer = caller.get(f"/quotas/requests{query}")
        assert answer.status_code == 200, answer.content
        return [row["id"] for row in answer.json()["items"]]

    assert listed(world.bob) == ids[::-1]
    assert listed(world.charlie) == [other]
    assert listed(world.ada) == [other, *ids[::-1]]
    assert listed(world.ada, "?tenant=acme&state=open&state=approved") == [ids[2], ids[0]]
    assert listed(world.bob, "?state=ended") == []
    world.alice.post(f"/quotas/requests/{ids[0]}/withdraw", {})
    assert listed(world.bob, "?state=ended") == [ids[0]]
    assert listed(world.bob, "?state=approved") == []
    first = world.bob.get("/quotas/requests?limit=2").json()
    assert [row["id"] for row in first["items"]] == ids[:0:-1]
    assert listed_at(world, first["next"]) == ids[:1]
    for query in ("?state=gone", "?cursor=Mw==", "?cursor=IngiCg==", "?who=me", "?tenant=%00"):
        assert world.bob.get(f"/quotas/requests{query}").status_code == 422, query


def listed_at(world: World, address: str) -> list[str]:
    return [row["id"] for row in world.bob.get(address).json()["items"]]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"amount": 0}, ["/amount"]),
        ({"amount": -1}, ["/amount"]),
        ({"amount": "8"}, ["/amount"]),
        ({"amount": 10**30}, ["/amount"]),
        ({"amount": None, "borrowing_limit": 1.5}, ["/amount", "/borrowing_limit"]),
        ({"until": "2020-01-01T00:00:00Z"}, ["/until"]),
        ({"from": "2120-01-02T00:00:00Z", "until": "2120-01-01T00:00:00Z"}, ["/until"]),
        ({"from": "tomorrow", "until": "2120-01-01"}, ["/from", "/until"]),
        ({"until": 5}, ["/until"]),
        ({"from": "9999-12-31T23:59:59-23:59"}, ["/from"]),
        ({"until": "0001-01-01T00:00:00+23:59"}, ["/until"]),
        ({"flavor": "b200"}, ["/flavor"]),
        ({"flavor": "mi300x"}, ["/flavor"]),  # in the catalogue, on no cluster
        ({"flavor": None}, ["/flavor"]),
        ({"tenant": 5}, ["/tenant"]),
        ({"why": ""}, ["/why"]),
        ({"why": " "}, ["/why"]),
        ({"why": "a\0b"}, ["/why"]),
        ({"why": "x" * 1001}, ["/why"]),
        ({"gpus": 5}, ["/gpus"]),
    ],
)
def test_bad_input_names_the_field(world: World, body: dict[str, Any], wrong: list[str]) -> None:
    answer = asked(world, **body)
    assert answer.status_code == 422, answer.content
    assert [pointer for pointer, _ in spots(answer)] == wrong
    assert not QuotaRequest.objects.exists()


def test_a_key_asks_once(world: World) -> None:
    first = world.alice.post("/quotas/requests", BODY, idempotency_key="k1")
    again = world.alice.post("/quotas/requests", BODY, idempotency_key="k1")
    assert first.json() == again.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    other = world.alice.post("/quotas/requests", {**BODY, "amount": 1}, idempotency_key="k1")
    assert other.status_code == 409
    assert QuotaRequest.objects.count() == 1


def test_two_admins_at_once(world: World) -> None:
    row = asked(world).json()
    address = f"/quotas/requests/{row['id']}"
    assert world.ada.post(f"{address}/reject", {}, if_match=row["etag"]).status_code == 200
    late = world.ada.post(f"{address}/approve", {}, if_match=row["etag"])
    assert (late.status_code, late.json()["code"]) == (412, "stale_write")
    late = world.ada.post(f"{address}/approve", {})
    assert (late.status_code, late.json()["code"]) == (409, "request_decided")


def test_a_decision_that_is_none_changes_nothing(world: World) -> None:
    share(world, 8)
    address = f"/quotas/requests/{asked(world).json()['id']}"
    answer = world.vera.post(f"{address}/approve", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "children_above_parent")
    assert f"{TEAM} 16" in answer.json()["detail"]
    for body in ({"amount": 0}, {"until": "x"}, {"comment": 5}, {"why": "x"}):
        assert world.vera.post(f"{address}/approve", body).status_code == 422
    for action in ("reject", "withdraw"):
        assert world.vera.post(f"{address}/{action}", {"comment": "x" * 1001}).status_code == 422
    assert world.ada.post(f"/quotas/requests/{UNKNOWN_ID}/approve", {}).status_code == 404
    assert world.vera.get(address).json()["state"] == "open"

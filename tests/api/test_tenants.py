"""Tenants over REST: made, closed, opened, taken away; by whom; refused in words."""

from typing import Any

import pytest

from tenancy.models import AuditEntry, Tenant
from tests.api.world import TEAM, World


def test_a_tenant_is_made_changed_and_taken_away(world: World) -> None:
    body = {"name": "pretrain", "parent": TEAM, "title": "Pretraining"}
    made = world.alice.post("/tenants", body, idempotency_key="once")
    again = world.alice.post("/tenants", body, idempotency_key="once")
    assert (made.status_code, again.json()) == (201, made.json())
    path = made.json()["path"]
    assert path == f"{TEAM}/pretrain"
    tag = world.alice.get(f"/tenants/{path}").headers["ETag"]
    closed = world.alice.patch(f"/tenants/{path}", {"is_open": False, "why": "q"}, if_match=tag)
    assert (closed.status_code, closed.json()["is_open"]) == (200, False)
    assert world.alice.patch(f"/tenants/{path}", {"title": "x"}, if_match=tag).status_code == 412
    assert world.alice.patch(f"/tenants/{path}", {"is_open": True}).json()["is_open"] is True
    assert world.alice.call("DELETE", f"/tenants/{path}").status_code == 204
    assert not Tenant.objects.filter(path=path).exists()
    acts = AuditEntry.objects.filter(object_id=path).order_by("id").values_list("action", flat=True)
    assert list(acts) == ["create", "close", "open", "remove"]


@pytest.mark.parametrize("path", ["acme", TEAM])
def test_a_tenant_with_a_history_is_closed_not_deleted(world: World, path: str) -> None:
    world.job()
    answer = world.ada.call("DELETE", f"/tenants/{path}")
    assert (answer.status_code, answer.json()["code"]) == (409, "tenant_has_history")
    assert "close it instead" in answer.json()["detail"]
    assert Tenant.objects.filter(path=path).exists()


@pytest.mark.parametrize(
    ("caller", "made", "changed"),
    [("ada", 201, 200), ("alice", 201, 403), ("bob", 403, 403), ("vera", 403, 403),
     ("charlie", 422, 404), ("nobody", 401, 401)],
)  # fmt: skip
def test_who_may(world: World, caller: str, made: int, changed: int) -> None:
    """Alice owns the team: hers is what is below it."""
    who = getattr(world, caller)
    assert who.post("/tenants", {"name": "x", "parent": TEAM}).status_code == made
    assert who.patch(f"/tenants/{TEAM}", {"title": "New"}).status_code == changed


def test_an_organisation_is_an_admins_to_make(world: World) -> None:
    assert world.alice.post("/tenants", {"name": "new"}).status_code == 403
    assert world.ada.post("/tenants", {"name": "new"}).json()["parent"] is None


@pytest.mark.parametrize(
    ("body", "status", "wrong"),
    [
        ({"name": "Not A Name"}, 422, ["/name"]),
        ({"name": "quotas"}, 422, ["/name"]),
        ({"name": 5}, 422, ["/name"]),
        ({}, 422, ["/name"]),
        ({"name": "x", "parent": "nowhere"}, 422, ["/parent"]),
        ({"name": "x", "parent": 7}, 422, ["/parent"]),
        ({"name": "x", "title": "a\nb"}, 422, ["/title"]),
        ({"name": "x", "title": 7}, 422, ["/title"]),
        ({"name": "x", "owner": "me"}, 422, ["/owner"]),
        ({"name": "vision", "parent": "acme"}, 409, ["/name"]),
    ],
)
def test_bad_input_names_the_field(
    world: World, body: dict[str, Any], status: int, wrong: list[str]
) -> None:
    before = Tenant.objects.count()
    answer = world.ada.post("/tenants", body)
    assert answer.status_code == status, answer.content
    assert [problem["pointer"] for problem in answer.json()["errors"]] == wrong
    assert Tenant.objects.count() == before


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"is_open": "no"}, ["/is_open"]),
        ({"title": None, "why": 5}, ["/title", "/why"]),
        ({"name": "other"}, ["/name"]),
        ({"parent": "rivals"}, ["/parent"]),
    ],
)
def test_bad_changes_change_nothing(world: World, body: dict[str, Any], wrong: list[str]) -> None:
    before = list(Tenant.objects.values())
    answer = world.ada.patch(f"/tenants/{TEAM}", body)
    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["errors"]] == wrong
    assert list(Tenant.objects.values()) == before


# --- moving --------------------------------------------------------------------------------------


def test_a_tenant_is_moved_by_an_admin(world: World) -> None:
    job = world.job()
    tag = world.ada.get(f"/tenants/{TEAM}").headers["ETag"]
    body = {"parent": "rivals", "why": "bought"}
    moved = world.ada.post(f"/tenants/{TEAM}/move", body, if_match=tag)
    assert moved.status_code == 200, moved.content
    assert (moved.json()["path"], moved.json()["parent"]) == ("rivals/vision", "rivals")
    assert moved.headers["ETag"] == world.ada.get("/tenants/rivals/vision").headers["ETag"] != tag
    assert world.ada.get(f"/tenants/{TEAM}").status_code == 404
    assert world.bob.get(f"/jobs/{job.uuid}").json()["tenant"] == "rivals/vision"
    stale = world.ada.post("/tenants/rivals/vision/move", {"parent": None}, if_match=tag)
    assert stale.status_code == 412
    top = world.ada.post("/tenants/rivals/vision/move", {"parent": None})
    assert (top.status_code, top.json()["path"], top.json()["parent"]) == (200, "vision", None)


@pytest.mark.parametrize(
    ("caller", "status"),
    [("ada", 200), ("alice", 403), ("bob", 403), ("charlie", 403), ("nobody", 401)],
)
def test_who_may_move(world: World, caller: str, status: int) -> None:
    assert (
        getattr(world, caller).post(f"/tenants/{TEAM}/move", {"parent": None}).status_code == status
    )


@pytest.mark.parametrize(
    ("body", "status", "wrong"),
    [
        ({}, 422, ["/parent"]),
        ({"parent": 7}, 422, ["/parent"]),
        ({"parent": "nowhere"}, 422, ["/parent"]),
        ({"parent": TEAM}, 422, ["/parent"]),
        ({"parent": None, "why": 5}, 422, ["/why"]),
        ({"parent": None, "name": "x"}, 422, ["/name"]),
        ({"parent": "rivals"}, 409, ["/parent"]),
    ],
)
def test_bad_moves_move_nothing(
    world: World, body: dict[str, Any], status: int, wrong: list[str]
) -> None:
    world.ada.post("/tenants", {"name": "vision", "parent": "rivals"})
    before = list(Tenant.objects.order_by("id").values())
    answer = world.ada.post(f"/tenants/{TEAM}/move", body)
    assert answer.status_code == status, answer.content
    assert [problem["pointer"] for problem in answer.json()["errors"]] == wrong
    assert list(Tenant.objects.order_by("id").values()) == before

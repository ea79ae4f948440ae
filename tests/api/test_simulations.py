"""REST: simulations, which only admins ask for and see."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from clusters.models import Flavor
from federation.models import Simulation
from federation.services.simulate import work_off
from quotas.services.rows import set_quota
from tenancy.models import AuditEntry
from tests import make
from tests.api.world import TEAM, UNKNOWN_ID, World, problem, spots

TABLE = "quotas: [{tenant: %s, flavor: h100-sxm-80, guaranteed: %d}]"


@pytest.fixture(autouse=True)
def quotas(world: World) -> None:
    flavor = Flavor.objects.get(name="h100-sxm-80")
    set_quota(actor=None, tenant=world.team, flavor=flavor, guaranteed=32, now=timezone.now())


def ask(world: World, **body: Any) -> dict[str, Any]:
    answer = world.ada.post("/simulations", body)
    assert answer.status_code == 202, answer.content
    found: dict[str, Any] = answer.json()
    assert answer["Location"] == f"/api/v1/simulations/{found['id']}"
    return found


def test_it_is_asked_for_worked_on_and_read(world: World) -> None:
    asked = ask(world, against=TABLE % (TEAM, 0))
    assert (asked["state"], asked["progress"], asked["result"]) == ("queued", 0, None)
    assert f"tenant: {TEAM}" in asked["quotas"]
    assert asked["asked_by"] == "ada"
    work_off(clock=timezone.now)
    done = world.ada.get(f"/simulations/{asked['id']}").json()
    assert (done["state"], done["progress"], done["failure"]) == ("done", 100, None)
    assert [one["quotas"] for one in done["result"]["outcomes"]] == ["quotas", "against"]
    assert done["result"]["gpus"] == {"h100-sxm-80": 64}
    entry = AuditEntry.objects.get(object_type="simulation")
    assert (entry.actor, entry.action, entry.object_id) == (world.ada.user, "ask", asked["id"])


def test_the_window_is_four_weeks_up_to_now_unless_it_is_said(world: World) -> None:
    for body, weeks in (
        ({}, 4),
        ({"weeks": 2}, 2),
        ({"weeks": 1, "until": "2026-03-02T00:00:00Z"}, 1),
    ):
        asked = Simulation.objects.get(pk=ask(world, **body)["id"])
        assert asked.until_at - asked.from_at == timedelta(weeks=weeks)
    asked = ask(world, **{"from": "2026-03-01T01:00:00+01:00", "until": "2026-03-02T00:00:00Z"})
    assert (asked["from"], asked["until"]) == (
        "2026-03-01T00:00:00.000Z",
        "2026-03-02T00:00:00.000Z",
    )


@pytest.mark.parametrize(
    ("body", "spot"),
    [
        ({"weeks": 0}, ("/weeks", "out_of_range")),
        ({"weeks": 27}, ("/weeks", "out_of_range")),
        ({"weeks": True}, ("/weeks", "out_of_range")),
        ({"weeks": "2"}, ("/weeks", "out_of_range")),
        ({"weeks": 1, "from": "2026-03-01T00:00:00Z"}, ("/weeks", "conflict")),
        ({"from": "yesterday"}, ("/from", "invalid_time")),
        ({"from": "2026-03-01T00:00:00"}, ("/from", "invalid_time")),
        ({"until": "0001-01-01T00:00:00Z"}, ("/until", "invalid_time")),
        ({"until": "9999-12-31T23:59:59Z"}, ("/until", "in_the_future")),
        ({"until": 7}, ("/until", "invalid_time")),
        ({"from": "2020-01-01T00:00:00Z"}, ("/from", "too_long")),
        ({"quotas": []}, ("/quotas", "wrong_type")),
        ({"against": {"quotas": []}}, ("/against", "wrong_type")),
        ({"quotas": "\0"}, ("/quotas/rows", "invalid_yaml")),
        ({"against": TABLE % ("mars", 1)}, ("/against/rows/1/tenant", "unknown")),
        ({"trace": "x"}, ("/trace", "unknown_field")),
    ],
)
def test_what_is_wrong_is_refused_by_field_and_nothing_is_written(
    world: World, body: dict[str, Any], spot: tuple[str, str]
) -> None:
    answer = world.ada.post("/simulations", body)
    assert answer.status_code == 422, answer.content
    assert spot in spots(answer)
    assert not Simulation.objects.exists()


def test_children_above_their_parent_are_a_conflict_that_names_the_table(world: World) -> None:
    rows = "\n".join(
        f"- {{tenant: {path}, flavor: h100-sxm-80, guaranteed: {gpus}}}"
        for path, gpus in (("acme", 8), (TEAM, 16))
    )
    answer = world.ada.post("/simulations", {"against": f"quotas:\n{rows}\n"})
    assert answer.status_code == 409
    assert spots(answer)[0][0] == "/against/guaranteed"
    assert f"{TEAM} 16" in problem(answer)["detail"]
    assert not Simulation.objects.exists()


def test_lists_are_short_paged_newest_first_and_by_state(world: World) -> None:
    made = [ask(world)["id"] for _ in range(3)]
    world.ada.post(f"/simulations/{made[0]}/cancel")
    page = world.ada.get("/simulations?limit=2").json()
    assert [item["id"] for item in page["items"]] == made[:0:-1]
    assert "result" not in page["items"][0]
    rest = world.ada.get(page["next"]).json()
    assert ([item["id"] for item in rest["items"]], rest["next"]) == (made[:1], None)
    cancelled = world.ada.get("/simulations?state=cancelled&state=failed").json()["items"]
    assert [item["id"] for item in cancelled] == made[:1]
    assert world.ada.get("/simulations?state=lost").status_code == 422
    assert world.ada.get("/simulations?cursor=WyJ4Il0").status_code == 422


def test_it_can_be_stopped_once_and_taken_off_the_list(world: World) -> None:
    path = f"/simulations/{ask(world)['id']}"
    stopped = world.ada.post(f"{path}/cancel")
    assert (stopped.status_code, stopped.json()["state"]) == (200, "cancelled")
    again = world.ada.post(f"{path}/cancel")
    assert (again.status_code, problem(again)["code"]) == (409, "simulation_over")
    assert world.ada.call("DELETE", path).status_code == 204
    assert world.ada.get(path).status_code == 404
    assert world.ada.call("DELETE", path).status_code == 404
    assert world.ada.post(f"{path}/cancel").status_code == 404
    assert world.ada.get(f"/simulations/{UNKNOWN_ID}").status_code == 404


def test_no_more_than_ten_wait(world: World) -> None:
    for _ in range(10):
        ask(world)
    answer = world.ada.post("/simulations", {})
    assert (answer.status_code, problem(answer)["code"]) == (409, "too_many_simulations")
    assert Simulation.objects.count() == 10


def test_the_same_key_is_the_same_simulation(world: World) -> None:
    one = world.ada.post("/simulations", {"weeks": 1}, idempotency_key="k")
    two = world.ada.post("/simulations", {"weeks": 1}, idempotency_key="k")
    assert one.json() == two.json()
    assert two["Idempotency-Replayed"] == "true"
    assert two["Location"] == one["Location"]
    assert Simulation.objects.count() == 1


def test_owners_see_none_of_it_and_hear_nothing(world: World) -> None:
    """All tenants' work is in it, so not even an owner of some may see it."""
    asked = ask(world)
    for caller in (world.alice, world.bob, world.vera, world.charlie):
        for method, path in (
            ("GET", "/simulations"),
            ("POST", "/simulations"),
            ("GET", f"/simulations/{asked['id']}"),
            ("DELETE", f"/simulations/{asked['id']}"),
            ("POST", f"/simulations/{asked['id']}/cancel"),
            ("GET", f"/simulations/{UNKNOWN_ID}"),
        ):
            answer = caller.call(method, path)
            assert (answer.status_code, problem(answer)["code"]) == (403, "permission_denied")
            assert TEAM.encode() not in answer.content
    assert Simulation.objects.get().state == "queued"
    assert UUID(asked["id"]) == Simulation.objects.get().pk
    assert make.tenant(TEAM)

"""Quotas over REST: set by who manages the tenant, read with what is used, refused in words."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounting.services.prices import PriceScope, set_price
from clusters.models import Cluster, Flavor
from federation.core.cycle import decide
from federation.models import Attempt
from federation.selectors.snapshot import take_snapshot
from kit.intervals import iso
from quotas.models import Quota
from quotas.services.rows import set_quota
from tenancy.models import AuditEntry, Tenant
from tests import make
from tests.api.world import TEAM, World
from tests.make import NOW

BODY = {"flavor": "h100-sxm-80", "guaranteed": 32}


def put(world: World, path: str = TEAM, caller: str = "ada", **body: Any) -> Any:
    headers = {"if_match": body.pop("if_match")} if "if_match" in body else {}
    return getattr(world, caller).call(
        "PUT", f"/tenants/{path}/quotas", {**BODY, **body}, **headers
    )


def test_a_quota_is_set_read_and_taken_away(world: World) -> None:
    world.bind(world.job())
    answer = put(world, borrowing_limit=16, lending_limit=8, weight=2, why="q1", if_match='"0"')
    assert (answer.status_code, answer.headers["ETag"]) == (200, '"1"')
    row = answer.json()
    assert row == {
        "flavor": "h100-sxm-80", "cluster": None, "guaranteed": 32, "borrowing_limit": 16,
        "lending_limit": 8, "weight": 2, "granted": 0, "overcommitted": 0, "used": {"guaranteed": 32, "spot": 0},
        "etag": '"1"',
    }  # fmt: skip
    assert world.vera.get(f"/tenants/{TEAM}/quotas").json()["items"] == [row]
    assert put(world, guaranteed=0, if_match='"1"').json()["guaranteed"] == 0  # what runs goes on
    address = f"/tenants/{TEAM}/quotas?flavor=h100-sxm-80"
    assert world.ada.call("DELETE", address, if_match='"1"').status_code == 412
    assert world.ada.call("DELETE", address, if_match='"2"').status_code == 204
    assert world.ada.call("DELETE", address).status_code == 404


def test_two_admins_at_once(world: World) -> None:
    assert put(world, if_match='"0"').status_code == 200
    assert put(world, guaranteed=64, if_match='"0"').status_code == 412
    assert Quota.objects.get(tenant=world.team).guaranteed == 32


def test_one_cluster(world: World) -> None:
    row = put(world, cluster=world.cluster.name).json()
    assert row["cluster"] == world.cluster.name
    address = f"/tenants/{TEAM}/quotas?flavor=h100-sxm-80&cluster={world.cluster.name}"
    assert world.ada.call("DELETE", address).status_code == 204


def test_children_fit_in_their_parent(world: World) -> None:
    assert put(world, "acme", guaranteed=40).status_code == 200
    assert put(world).status_code == 200
    make.tenant("acme/speech")
    answer = put(world, "acme/speech", guaranteed=9)
    assert (answer.status_code, answer.json()["code"]) == (409, "children_above_parent")
    assert "acme/speech 9, acme/vision 32" in answer.json()["detail"] or (
        "acme/vision 32, acme/speech 9" in answer.json()["detail"]
    )


@pytest.mark.parametrize(
    ("caller", "status"),
    [("ada", 200), ("alice", 403), ("bob", 403), ("vera", 403), ("charlie", 404), ("nobody", 401)],
)
def test_who_may(world: World, caller: str, status: int) -> None:
    """Alice owns the team itself: its share is for those above it to set."""
    assert put(world, caller=caller).status_code == status


def test_an_owner_shares_out_below(world: World) -> None:
    make.tenant(f"{TEAM}/pretrain")
    assert put(world, f"{TEAM}/pretrain", caller="alice").status_code == 403  # nothing to share
    assert put(world, guaranteed=32).status_code == 200
    assert put(world, f"{TEAM}/pretrain", caller="alice").status_code == 200
    assert put(world, guaranteed=8).status_code == 409  # pretrain alone is owed 32
    assert put(world, guaranteed=32).status_code == 200
    assert put(world, f"{TEAM}/pretrain", caller="alice", guaranteed=33).status_code == 409
    assert put(world, f"{TEAM}/pretrain", caller="bob").status_code == 403


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"guaranteed": -1}, ["/guaranteed"]),
        ({"guaranteed": 10**12}, ["/guaranteed"]),
        ({"guaranteed": "8"}, ["/guaranteed"]),
        ({"guaranteed": None}, ["/guaranteed"]),
        ({"borrowing_limit": -1, "weight": 0}, ["/borrowing_limit", "/weight"]),
        ({"lending_limit": 33}, ["/lending_limit"]),
        ({"flavor": "b200"}, ["/flavor"]),
        ({"flavor": ["h100-sxm-80"]}, ["/flavor"]),
        ({"flavor": "a100-sxm-80"}, ["/flavor"]),  # in the catalogue, on no cluster
        ({"cluster": "nowhere"}, ["/cluster"]),
        ({"cluster": 5}, ["/cluster"]),
        ({"gpus": 5}, ["/gpus"]),
        ({"why": "x" * 1001}, ["/why"]),
        ({"why": 5}, ["/why"]),
        ({"why": "a\0b"}, ["/why"]),
    ],
)
def test_bad_input_names_the_field_and_changes_nothing(
    world: World, body: dict[str, Any], wrong: list[str]
) -> None:
    Flavor.objects.get_or_create(name="a100-sxm-80")
    before = list(Quota.objects.values())
    answer = put(world, **body)
    assert answer.status_code == 422, answer.content
    assert [problem["pointer"] for problem in answer.json()["errors"]] == wrong
    assert list(Quota.objects.values()) == before


def test_use_is_read_in_a_constant_number_of_queries(
    world: World, django_assert_max_num_queries: Any
) -> None:
    flavor = Flavor.objects.get(name="h100-sxm-80")
    for number in range(20):
        child = make.tenant(f"{TEAM}/t{number}")
        set_quota(actor=None, tenant=child, flavor=flavor, guaranteed=0, now=NOW)
    put(world)
    with django_assert_max_num_queries(13):
        assert world.ada.get(f"/tenants/{TEAM}/quotas").status_code == 200
    assert Tenant.objects.count() > 20


def test_all_quotas_are_listed_planned_and_applied_by_admins(world: World) -> None:
    put(world, "acme", guaranteed=64)
    listed = world.ada.get("/quotas").json()["items"]
    assert listed == [
        {"tenant": "acme", "flavor": "h100-sxm-80", "cluster": None, "guaranteed": 64,
         "borrowing_limit": None, "lending_limit": None, "weight": 1}
    ]  # fmt: skip
    body = {"rows": [*listed, {"tenant": TEAM, "flavor": "h100-sxm-80", "guaranteed": 32}]}
    planned = world.ada.post("/quotas/plan", body).json()
    assert [(one["action"], one["tenant"]) for one in planned["changes"]] == [("create", TEAM)]
    assert Quota.objects.count() == 1
    applied = world.ada.post("/quotas/apply", {**body, "why": "q1"}).json()
    assert applied["changes"] == planned["changes"]
    assert Quota.objects.count() == 2
    assert world.ada.post("/quotas/apply", body).json() == {"changes": [], "warnings": []}
    for caller in (world.alice, world.vera):
        assert caller.get("/quotas").status_code == 403
        assert caller.post("/quotas/apply", body).status_code == 403


def test_a_plan_tells_what_would_start_and_what_would_not(world: World) -> None:
    put(world, guaranteed=64)
    set_price(
        actor=None,
        scope=PriceScope("h100-sxm-80", "guaranteed"),
        nano_per_gpu_hour=10**9,
        currency="USD",
        effective_from=NOW,
        now=NOW,
    )
    job = world.job(**{"class": "guaranteed"})
    row = {"tenant": TEAM, "flavor": "h100-sxm-80", "guaranteed": 0}
    less = world.ada.post("/quotas/plan", {"rows": [row]}).json()
    assert [one["id"] for one in less["held_back"]] == [str(job.uuid)]
    put(world, guaranteed=0)
    more = world.ada.post("/quotas/plan", {"rows": [{**row, "guaranteed": 64}]}).json()
    assert [(one["id"], one["class"]) for one in more["started"]] == [(str(job.uuid), "guaranteed")]
    assert more["held_back"] == []
    job.refresh_from_db()
    assert job.state == "queued"


def test_an_act_is_set_back_by_who_manages_it(world: World) -> None:
    put(world, "acme", guaranteed=64, why="plan")
    put(world, guaranteed=32, why="plan")
    put(world, guaranteed=48, why="more")
    entry = AuditEntry.objects.get(why="more").pk
    address = f"/quotas/changes/{entry}/undo"
    assert world.alice.post(address, {"why": "x"}).status_code == 403
    assert world.charlie.post(address, {"why": "x"}).status_code == 404
    for body in ({}, {"why": " "}, {"why": 5}, {"why": "x", "what": 5}):
        assert world.ada.post(address, body).status_code == 422
    (change,) = world.ada.post(address, {"why": "not so"}).json()["changes"]
    assert (change["before"]["guaranteed"], change["after"]["guaranteed"]) == (48, 32)
    again = world.ada.post(address, {"why": "not so"})
    assert (again.status_code, again.json()["code"]) == (409, "changed_since")
    for unknown in (10**18, 10**30):
        path = f"/quotas/changes/{unknown}/undo"
        assert world.ada.post(path, {"why": "x"}).status_code == 404


def test_a_plan_tells_whom_an_owner_would_evict(world: World) -> None:
    for service_class in ("guaranteed", "spot"):
        set_price(
            actor=None, scope=PriceScope("h100-sxm-80", service_class), nano_per_gpu_hour=10**9,
            currency="USD", effective_from=NOW, now=NOW,
        )  # fmt: skip
    spot = world.job(**{"class": "spot"})
    nodes = [f"n{number}" for number in range(1, 9)]
    world.bind(spot)
    Attempt.objects.update(service_class="spot", nodes=nodes, started_at=NOW)
    waiting = world.job(**{"class": "guaranteed"})
    row = {"tenant": TEAM, "flavor": "h100-sxm-80", "guaranteed": 64}
    planned = world.ada.post("/quotas/plan", {"rows": [row]}).json()
    assert [one["id"] for one in planned["claimed"]] == [str(waiting.uuid)]
    assert [one["id"] for one in planned["reclaimed"]] == [str(spot.uuid)]
    assert planned["started"] == []


def test_a_grant_is_what_a_cycle_decides_on_while_it_holds(world: World) -> None:
    set_price(
        actor=None, scope=PriceScope("h100-sxm-80", "guaranteed"), nano_per_gpu_hour=10**9,
        currency="USD", effective_from=NOW, now=NOW,
    )  # fmt: skip
    put(world, guaranteed=0)
    job, now = world.job(**{"class": "guaranteed"}), timezone.now()
    until = iso(now + timedelta(days=1))
    body = {"tenant": TEAM, "flavor": "h100-sxm-80", "amount": 64, "until": until, "why": "x"}
    asked = world.alice.post("/quotas/requests", body).json()
    assert decide(take_snapshot(now)).bindings == ()
    world.ada.post(f"/quotas/requests/{asked['id']}/approve", {})
    (binding,) = decide(take_snapshot(timezone.now())).bindings
    assert (binding.job, binding.service_class) == (job.id, "guaranteed")
    Cluster.objects.update(last_seen_at=now + timedelta(days=1))
    assert decide(take_snapshot(now + timedelta(days=1))).bindings == ()
    world.bind(job)
    over = decide(take_snapshot(now + timedelta(days=1)))  # it holds on to what it has
    assert (over.bindings, over.promotions, over.claims) == ((), (), ())


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, ["/rows"]),
        ({"rows": 5}, ["/rows"]),
        ({"rows": [], "prune": "yes"}, ["/prune"]),
        ({"rows": [], "why": 5}, ["/why"]),
        ({"rows": [], "dry": 5}, ["/dry"]),
        ({"rows": [5, {"tenant": TEAM}]}, ["/rows/1", "/rows/2/flavor", "/rows/2/guaranteed"]),
        ({"rows": [{**BODY, "tenant": "nobody"}]}, ["/rows/1/tenant"]),
    ],
)
def test_a_wrong_table_is_refused(world: World, body: dict[str, Any], wrong: list[str]) -> None:
    answer = world.ada.post("/quotas/apply", body)
    assert answer.status_code == 422, answer.content
    assert [problem["pointer"] for problem in answer.json()["errors"]] == wrong

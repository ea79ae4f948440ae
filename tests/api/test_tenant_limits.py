"""Limits over REST: set by who manages the tenant, in force at submit, refused in words."""

from threading import Barrier, Thread
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.services.configure import set_account
from federation.models import Job
from federation.selectors.snapshot import take_snapshot
from quotas.models import Limit
from quotas.services.limits import Whose, set_limit
from tenancy.models import AuditEntry
from tests import make
from tests.api.world import OTHER, TEAM, Caller, World, problem, spots
from tests.federation.bodies import small
from tests.make import NOW


def put(world: World, path: str = TEAM, caller: str = "ada", **body: Any) -> Any:
    headers = {"if_match": body.pop("if_match")} if "if_match" in body else {}
    return getattr(world, caller).call("PUT", f"/tenants/{path}/limits", body, **headers)


def test_a_limit_is_set_read_and_taken_away(world: World) -> None:
    answer = put(
        world, scope="label", label="kind=a=b", running_gpus=16, time_limit="1:00:00",
        why="q1", if_match='"0"',
    )  # fmt: skip
    assert (answer.status_code, answer.headers["ETag"]) == (200, '"1"')
    row = answer.json()
    assert row == {
        "tenant": TEAM, "scope": "label", "user": None, "label": "kind=a=b", "running_gpus": 16,
        "running_jobs": None, "waiting_jobs": None, "time_limit": 3600, "etag": '"1"',
    }  # fmt: skip
    above = put(world, "acme", scope="user", user="bob", waiting_jobs=5).json()
    assert world.vera.get(f"/tenants/{TEAM}/limits").json() == {"items": [above, row], "next": None}
    assert put(world, scope="label", label="kind=a=b", running_gpus=8).json()["time_limit"] is None
    address = f"/tenants/{TEAM}/limits?scope=label&label=kind=a=b"
    assert world.ada.call("DELETE", address, if_match='"1"').status_code == 412
    assert world.ada.call("DELETE", address, if_match='"2"').status_code == 204
    assert world.ada.call("DELETE", address).status_code == 404
    assert world.ada.call("DELETE", "/tenants/acme/limits?scope=user").status_code == 404
    assert world.ada.call("DELETE", "/tenants/acme/limits?scope=user&user=bob").status_code == 204
    acts = AuditEntry.objects.filter(object_type="limit").values_list("action", "actor__username")
    assert list(acts) == [
        (action, "ada") for action in ("remove", "remove", "update", "create", "create")
    ]


def test_two_admins_at_once(world: World) -> None:
    assert put(world, running_jobs=1, if_match='"0"').status_code == 200
    assert put(world, running_jobs=2, if_match='"0"').status_code == 412
    assert Limit.objects.get().running_jobs == 1


@pytest.mark.parametrize(
    ("caller", "status"),
    [("ada", 200), ("alice", 403), ("bob", 403), ("vera", 403), ("charlie", 404), ("nobody", 401)],
)
def test_who_may(world: World, caller: str, status: int) -> None:
    """Alice owns the team itself: its limits are for those above it to set."""
    assert put(world, caller=caller, running_jobs=1).status_code == status
    assert Limit.objects.exists() == (status == 200)
    Limit.objects.all().delete()
    set_limit(actor=None, tenant=world.team, whose=Whose(), running_jobs=1, now=NOW)
    gone = getattr(world, caller).call("DELETE", f"/tenants/{TEAM}/limits")
    assert gone.status_code == (204 if status == 200 else status)
    assert Limit.objects.exists() == (status != 200)


def test_an_owner_limits_those_below_and_nobody_elsewhere(world: World) -> None:
    make.tenant(f"{TEAM}/pretrain")
    assert put(world, f"{TEAM}/pretrain", caller="alice", running_jobs=1).status_code == 200
    assert put(world, OTHER, caller="alice", running_jobs=1).status_code == 404
    assert world.charlie.get(f"/tenants/{TEAM}/limits").status_code == 404
    assert put(world, "acme/nowhere", running_jobs=1).status_code == 404


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, ["/running_gpus"]),
        ({"running_gpus": -1}, ["/running_gpus"]),
        ({"running_gpus": 0, "running_jobs": 10**30}, ["/running_gpus", "/running_jobs"]),
        ({"waiting_jobs": "8"}, ["/waiting_jobs"]),
        ({"waiting_jobs": True}, ["/waiting_jobs"]),
        ({"time_limit": 0}, ["/time_limit"]),
        ({"time_limit": -60}, ["/time_limit"]),
        ({"time_limit": 10**30}, ["/time_limit"]),
        ({"time_limit": "soon"}, ["/time_limit"]),
        ({"time_limit": 1.5}, ["/time_limit"]),
        ({"running_jobs": 1, "scope": "group"}, ["/scope"]),
        ({"running_jobs": 1, "scope": ["user"]}, ["/scope"]),
        ({"running_jobs": 1, "scope": "user", "user": "nobody-knows"}, ["/user"]),
        ({"running_jobs": 1, "scope": "user", "user": "a\0b"}, ["/user"]),
        ({"running_jobs": 1, "scope": "user", "user": 5}, ["/user"]),
        ({"running_jobs": 1, "user": "bob"}, ["/user"]),
        ({"running_jobs": 1, "scope": "label"}, ["/label"]),
        ({"running_jobs": 1, "scope": "label", "label": "kind"}, ["/label"]),
        ({"running_jobs": 1, "scope": "label", "label": "=x"}, ["/label"]),
        ({"running_jobs": 1, "scope": "label", "label": "a b=x"}, ["/label"]),
        ({"running_jobs": 1, "scope": "label", "label": "a=\0"}, ["/label"]),
        ({"running_jobs": 1, "scope": "label", "label": {"a": "x"}}, ["/label"]),
        ({"running_jobs": 1, "label": "a=x"}, ["/label"]),
        ({"gpus": 5}, ["/gpus"]),
        ({"running_jobs": 1, "why": "x" * 1001}, ["/why"]),
        ({"running_jobs": 1, "why": 5}, ["/why"]),
    ],
)
def test_bad_input_names_the_field_and_changes_nothing(
    world: World, body: dict[str, Any], wrong: list[str]
) -> None:
    answer = put(world, **body)
    assert answer.status_code == 422, answer.content
    assert [one["pointer"] for one in answer.json()["errors"]] == wrong
    assert not Limit.objects.exists()


def test_a_job_that_runs_too_long_is_refused_with_the_fix(world: World) -> None:
    put(world, "acme", scope="user", time_limit=1800)
    answer = world.bob.post("/jobs", small(tenant=TEAM))
    assert answer.status_code == 422
    assert set(spots(answer)) == {("/time_limit", "limit_reached")}
    assert problem(answer)["errors"][0]["detail"] == (
        "Each person in acme may ask for a time limit of at most 1800 s: ask for that or less."
    )
    job = world.job(time_limit=1800)
    assert world.bob.patch(f"/jobs/{job.uuid}", {"time_limit": 1801}).status_code == 422
    put(world, "acme", scope="user", time_limit=60)
    assert world.bob.patch(f"/jobs/{job.uuid}", {"priority": "high"}).status_code == 200


def test_what_waits_is_bounded_and_a_batch_counts_together(world: World) -> None:
    put(world, "acme", waiting_jobs=3)
    first = world.job()
    world.job()
    body = small(tenant=TEAM)
    answer = world.bob.post("/jobs/batch", {"jobs": [body, body, body]})
    assert answer.status_code == 422
    assert set(spots(answer)) == {
        ("/jobs/1/tenant", "limit_reached"),
        ("/jobs/2/tenant", "limit_reached"),
    }
    assert problem(answer)["errors"][0]["detail"] == (
        "acme may have at most 3 waiting jobs; 2 wait and 3 come at once."
        " Submit it when some have started, cancel some, or have the limit raised."
    )
    assert Job.objects.count() == 2
    assert world.bob.post("/jobs", body).status_code == 201
    assert world.bob.post("/jobs", body, idempotency_key="k").status_code == 422
    assert world.bob.post(f"/jobs/{first.uuid}/hold").status_code == 200  # held still waits
    assert world.bob.post("/jobs", body).status_code == 422
    assert world.bob.post(f"/jobs/{first.uuid}/cancel").status_code == 200
    assert world.bob.post("/jobs", body, idempotency_key="k2").status_code == 201


def test_people_and_labels_are_bounded_by_themselves(world: World) -> None:
    put(world, scope="user", waiting_jobs=1)
    put(world, scope="label", label="kind=sweep", waiting_jobs=1)
    set_account(actor=None, cluster=world.cluster, user=world.alice.user, account="alice", now=NOW)
    sweep = {"labels": {"kind": "sweep"}}
    assert world.bob.post("/jobs", small(tenant=TEAM, **sweep)).status_code == 201
    assert set(spots(world.bob.post("/jobs", small(tenant=TEAM)))) == {("/tenant", "limit_reached")}
    assert set(spots(world.alice.post("/jobs", small(tenant=TEAM, **sweep)))) == {
        ("/labels", "limit_reached")
    }
    assert world.alice.post("/jobs", small(tenant=TEAM)).status_code == 201


def test_limits_of_others_do_not_matter(world: World) -> None:
    put(world, OTHER, waiting_jobs=1, time_limit=1)
    make.tenant(f"{TEAM}/pretrain")
    put(world, f"{TEAM}/pretrain", waiting_jobs=1, time_limit=1)
    world.job()
    world.job()


def test_queries_do_not_depend_on_how_many_jobs_come_or_wait(world: World) -> None:
    def asked(count: int) -> int:
        with CaptureQueriesContext(connection) as seen:
            answer = world.bob.post("/jobs/batch", {"jobs": [small(tenant=TEAM)] * count})
        assert answer.status_code == 201, answer.content
        return len(seen)

    asked(1)
    without = asked(1)
    put(world, "acme", time_limit=86_400)
    put(world, scope="user", waiting_jobs=1000)
    for number in range(5):
        put(world, scope="label", label=f"k{number}=x", waiting_jobs=1000)
    few = asked(1)
    assert few <= without + 5  # a transaction's two ends, and three reads
    assert asked(50) == few


@pytest.fixture
def crowd(transactional_db: None, world: World) -> World:
    return world


def test_of_those_who_come_at_once_only_so_many_are_taken(crowd: World) -> None:
    put(crowd, "acme", waiting_jobs=3)
    start, found = Barrier(6), []

    def submit(number: int) -> None:
        try:
            start.wait(10)
            bob = Caller(crowd.bob.user, crowd.bob.token)
            answer = bob.post("/jobs", small(tenant=TEAM, name=f"job {number}"))
            found.append(answer.status_code)
        finally:
            connection.close()

    threads = [Thread(target=submit, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    assert sorted(found) == [201, 201, 201, 422, 422, 422]
    assert Job.objects.count() == 3


def test_what_is_read_of_limits_is_in_the_snapshot(world: World) -> None:
    put(world, running_jobs=1)
    (row,) = take_snapshot(NOW).limited.rows
    assert (row.tenant, row.running_jobs) == (world.team.id, 1)

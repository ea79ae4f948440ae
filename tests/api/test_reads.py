from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import Cluster, Node, Observation
from federation.models import ArbiterTerm, Job, Telling
from quotas.services.rows import set_quota
from tenancy.models import ApiToken, AuditEntry, IdempotencyRecord
from tests.api.world import OTHER, TEAM, World, caller, problem, spots
from tests.federation.bodies import small
from tests.make import NOW


def submit(world: World, number: int, **changes: Any) -> list[str]:
    jobs = [small(tenant=TEAM, name=f"job {n}", **changes) for n in range(number)]
    answer = world.bob.post("/jobs/batch", {"jobs": jobs})
    return [job["id"] for job in answer.json()["jobs"]]


def names(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [job["name"] for job in answer.json()["items"]]


def walk(world: World, path: str) -> list[dict[str, Any]]:
    """Every item of a list, page by page."""
    items: list[dict[str, Any]] = []
    following: str | None = path
    while following:
        page = world.bob.get(following).json()
        items += page["items"]
        following = page["next"]
    return items


def test_a_list_is_walked_whole_page_by_page(world: World) -> None:
    ids = submit(world, 7)
    newest = [job["id"] for job in walk(world, "/jobs?limit=3")]
    oldest = [job["id"] for job in walk(world, "/jobs?limit=2&ordering=id")]
    assert newest == ids[::-1]
    assert oldest == ids


def test_filters_are_any_of_and_kept_from_page_to_page(world: World) -> None:
    submit(world, 3)
    submit(world, 2, **{"class": "spot"}, labels={"team": "red", "x": "y"})
    world.bob.post(f"/jobs/{submit(world, 1)[0]}/hold")
    assert len(walk(world, "/jobs?state=queued&limit=2")) == 5
    assert len(walk(world, "/jobs?state=held&state=cancelled")) == 1
    assert len(walk(world, "/jobs?class=spot&limit=1")) == 2
    assert len(walk(world, "/jobs?label=team=red&label=x=y")) == 2
    assert len(walk(world, "/jobs?label=team=blue")) == 0
    assert len(walk(world, "/jobs?tenant=acme")) == 6
    assert len(walk(world, f"/jobs?tenant={OTHER}")) == 0
    assert len(walk(world, "/jobs?user=bob&user=alice")) == 6
    assert len(walk(world, "/jobs?user=alice")) == 0


def test_jobs_are_found_by_the_clusters_they_were_tried_on(world: World) -> None:
    job = world.job()
    world.job()
    world.bind(job)
    found = world.bob.get("/jobs?cluster=aurora").json()["items"]
    assert [item["id"] for item in found] == [str(job.uuid)]


def test_lists_leave_out_the_bulky_parts(world: World) -> None:
    world.job()
    item = world.bob.get("/jobs").json()["items"][0]
    assert "run" not in item
    assert "environment" not in item
    assert item["gang"]["nodes"] == 4


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=501", "limit=x", "limit=-1", "colour=red", "format=xml", "state=asleep",
        "class=gold", "ordering=name", "label=nothing", "cursor=x", "cursor=MA", "tenant=%00",
        "cursor=MTAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMA==", "cursor=Imh1aCI=",
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(world: World, query: str) -> None:
    answer = world.bob.get(f"/jobs?{query}")
    if query == "cursor=MA":  # base64 without its padding
        assert answer.status_code in (200, 422)
    else:
        assert (answer.status_code, problem(answer)["code"]) == (422, "invalid_parameter")


@pytest.mark.parametrize(
    "path", ["/jobs", "/queue", "/tenants", "/clusters", "/flavors", "/tokens", "/audit"]
)
def test_a_list_costs_the_same_queries_for_one_row_and_for_many(world: World, path: str) -> None:
    submit(world, 1)
    with CaptureQueriesContext(connection) as few:
        assert world.ada.get(path).status_code == 200
    for job in submit(world, 20):
        world.bob.post(f"/jobs/{job}/hold")
        world.bob.post(f"/jobs/{job}/release")
    caller(world.ada.user)
    with CaptureQueriesContext(connection) as many:
        answer = world.ada.get(path)
    assert len(answer.json()["items"]) >= (20 if path in ("/jobs", "/queue", "/audit") else 1)
    assert len(many) == len(few)


def test_the_attempt_of_a_job(world: World) -> None:
    job = world.job()
    attempt = world.bind(job)
    shown = world.vera.get(f"/jobs/{job.uuid}").json()["attempt"]
    assert (shown["number"], shown["cluster"], shown["fence"]) == (1, "aurora", attempt.fence)
    assert (shown["flavor"], shown["class"], shown["tier_promised"]) == (
        "h100-sxm-80",
        "guaranteed",
        "leaf",
    )
    listed = world.vera.get(f"/jobs/{job.uuid}/attempts").json()
    assert listed == {"items": [shown], "next": None}


def test_events_of_a_job_in_order(world: World) -> None:
    job = world.job()
    world.bob.post(f"/jobs/{job.uuid}/hold")
    world.bob.post(f"/jobs/{job.uuid}/release")
    events = walk(world, f"/jobs/{job.uuid}/events?limit=1")
    assert [event["kind"] for event in events] == ["job.queued", "job.held", "job.queued"]


def test_reasons_come_with_what_would_help(world: World) -> None:
    job = world.job()
    reason = {
        "cluster": "aurora",
        "flavor": "h100-sxm-80",
        "code": "no_capacity",
        "message": "It needs 4 nodes with 8 GPUs each; aurora has 2 free.",
        "needed": 4,
        "available": 2,
        "unit": "nodes",
        "until": None,
    }
    Telling.objects.create(job=job, version=job.version, reasons=[reason])
    told = world.vera.get(f"/jobs/{job.uuid}/explanation").json()
    assert told["reasons"][0]["fix"]["change"] == {"gang": {"nodes": 2}}
    assert world.vera.get(f"/jobs/{job.uuid}").json()["reasons"] == told["reasons"]


def test_costs_of_a_job_that_used_nothing(world: World) -> None:
    job = world.job()
    costs = world.vera.get(f"/jobs/{job.uuid}/costs").json()
    assert costs["so_far"]["amount"] == "0.000000"
    assert (costs["gpu_ms"], costs["gpu_hours"], costs["intervals"]) == (0, "0.000000", [])


def test_the_queue_shows_what_runs_then_what_waits_in_order(world: World) -> None:
    ids = submit(world, 5)
    rows = {str(job.uuid): job for job in Job.objects.all()}
    world.bind(rows[ids[2]])
    ranked = [rows[ids[number]].pk for number in (3, 0, 1)]
    ArbiterTerm.objects.update_or_create(id=1, defaults={"queue": ranked})
    expected = [ids[2], ids[3], ids[0], ids[1], ids[4]]
    assert [row["id"] for row in walk(world, "/queue")] == expected
    by_ones = walk(world, "/queue?limit=1")
    assert [row["id"] for row in by_ones] == expected
    assert [row["position"] for row in by_ones] == [None, 1, 2, 3, None]
    assert (by_ones[0]["cluster"], by_ones[0]["gpus"]) == ("aurora", 32)
    assert world.bob.get(f"/jobs/{ids[0]}").json()["position"] == 2
    page = world.bob.get("/queue").json()
    assert page["foreign"] == [{"cluster": "aurora", "running": 2, "pending": 1, "pending_gpus": 8}]
    assert world.charlie.get("/queue").json()["items"] == []


@pytest.mark.parametrize("cursor", ["Ijo5Ig==", "IjM6MSI=", "IjA6LTEi", "MQ=="])
def test_bad_cursors_of_the_queue(world: World, cursor: str) -> None:
    assert world.bob.get(f"/queue?cursor={cursor}").status_code == 422


def test_a_cluster_shows_what_is_used_free_foreign_and_drained(world: World) -> None:
    Node.objects.filter(name="n1").update(foreign_gpus=8)
    Node.objects.filter(name="n2").update(state="draining")
    gang = {"state": "running", "nodes": ["n3", "n4"], "gpus": 16}
    Observation.objects.update(gangs=[gang])
    shown = world.vera.get("/clusters/aurora").json()
    (flavor,) = shown["flavors"]
    assert (flavor["gpus"], flavor["used"], flavor["foreign"]) == (64, 16, 8)
    assert (flavor["free"], flavor["drained"]) == (32, 8)
    assert flavor["largest_free_block"] == {"host": 8, "leaf": 32, "spine": 32, "cluster": 32}
    assert shown == world.vera.get("/clusters").json()["items"][0]
    assert "secret" not in shown
    assert "endpoint" not in shown
    assert "secret" not in str(world.ada.get("/clusters/aurora").json())
    assert world.bob.get("/clusters/aurora").json()["account"] == "bob"


def test_below_a_cluster(world: World) -> None:
    nodes = walk(world, "/clusters/aurora/nodes?limit=3")
    assert [node["name"] for node in nodes] == [f"n{n}" for n in range(1, 9)]
    tree = world.bob.get("/clusters/aurora/topology").json()
    (spine,) = tree["domains"]
    assert (tree["tier"], tree["gpus"], spine["name"]) == ("cluster", 64, "s0")
    assert [leaf["name"] for leaf in spine["domains"]] == ["l0", "l1"]
    assert [node["name"] for node in spine["domains"][1]["nodes"]] == ["n5", "n6", "n7", "n8"]
    (queue,) = world.bob.get("/clusters/aurora/queues").json()["items"]
    assert queue == {"name": "batch", "is_open": True, "nodes": 8, "max_time_s": None}
    (broken,) = world.bob.get("/clusters/aurora/fragmentation").json()["items"]
    assert {tier["fragmentation"] for tier in broken["tiers"]} == {"0.0000"}


def test_an_admin_drains_a_cluster_and_opens_it_again(world: World) -> None:
    revision = Cluster.objects.get().revision
    drained = world.ada.post("/clusters/aurora/drain", {"why": "new switches"})
    assert drained.json()["state"] == "draining"
    assert world.ada.post("/clusters/aurora/drain").json()["state"] == "draining"
    assert Cluster.objects.get().revision == revision + 1
    entry = AuditEntry.objects.get(action="drain")
    assert (entry.actor, entry.why, entry.object_id) == (world.ada.user, "new switches", "aurora")
    assert world.ada.post("/clusters/aurora/undrain").json()["state"] == "active"
    assert world.alice.post("/clusters/aurora/drain").status_code == 403
    assert spots(world.ada.post("/clusters/aurora/drain", {"why": 1})) == [
        ("/why", "invalid_content")
    ]


def test_tenants_are_seen_from_ones_role_down(world: World) -> None:
    paths = [tenant["path"] for tenant in world.bob.get("/tenants").json()["items"]]
    assert paths == [TEAM]
    everything = [tenant["path"] for tenant in world.ada.get("/tenants").json()["items"]]
    assert everything == ["acme", TEAM, "rivals", OTHER]
    assert world.bob.get(f"/tenants/{TEAM}").json()["parent"] == "acme"
    assert world.bob.get("/tenants/acme").status_code == 404
    assert world.bob.get(f"/tenants/{OTHER}").status_code == 404
    members = world.bob.get(f"/tenants/{TEAM}/members").json()["items"]
    assert {member["username"]: member["role"] for member in members} == {
        "alice": "owner",
        "bob": "submitter",
        "vera": "viewer",
    }


def test_what_a_tenant_is_owed_and_used(world: World) -> None:
    flavor = world.cluster.flavors.get().flavor
    set_quota(
        actor=None,
        tenant=world.team,
        flavor=flavor,
        cluster=None,
        guaranteed=32,
        borrowing_limit=None,
        why="first",
        now=NOW,
    )
    (row,) = world.vera.get(f"/tenants/{TEAM}/quotas").json()["items"]
    assert (row["flavor"], row["cluster"], row["guaranteed"]) == ("h100-sxm-80", None, 32)
    usage = world.vera.get(f"/tenants/{TEAM}/usage?from=2026-11-01&to=2026-12-01").json()
    assert (usage["gpu_ms"], usage["amount"]["amount"], usage["items"]) == (0, "0.000000", [])
    assert world.vera.get(f"/tenants/{TEAM}/usage?from=2026-12-01&to=2026-11-01").status_code == 422
    assert world.vera.get(f"/tenants/{TEAM}/usage?from=yesterday").status_code == 422


def test_me(world: World) -> None:
    me = world.bob.get("/me").json()
    assert (me["username"], me["is_admin"]) == ("bob", False)
    assert me["memberships"] == [{"tenant": TEAM, "role": "submitter"}]
    assert me["scopes"] == ["admin", "read", "submit"]


def test_a_token_is_shown_once_and_never_stored(world: World) -> None:
    body = {"name": "ci", "scopes": ["read"]}
    made = world.bob.post("/tokens", body, idempotency_key="t1")
    assert made.status_code == 201
    text = made.json()["token"]
    again = world.bob.post("/tokens", body, idempotency_key="t1").json()
    assert again == {**made.json(), "token": None}
    stored = [*ApiToken.objects.values(), *IdempotencyRecord.objects.values()]
    assert text not in str(stored)
    fresh = caller(world.bob.user)
    fresh.token = text
    assert fresh.get("/me").json()["scopes"] == ["read"]
    assert fresh.post("/jobs", small(tenant=TEAM)).status_code == 403
    assert world.bob.call("DELETE", f"/tokens/{made.json()['id']}").status_code == 204
    assert fresh.get("/me").status_code == 401
    assert world.charlie.call("DELETE", f"/tokens/{made.json()['id']}").status_code == 404


def test_a_token_gives_no_more_than_it_has(world: World) -> None:
    reader = caller(world.bob.user, ("read",))
    answer = reader.post("/tokens", {"name": "more", "scopes": ["read", "submit"]})
    assert (answer.status_code, problem(answer)["code"]) == (403, "permission_denied")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"scopes": ["read"]}, "/name"),
        ({"name": "", "scopes": ["read"]}, "/name"),
        ({"name": "x", "scopes": "read"}, "/scopes"),
        ({"name": "x", "scopes": ["root"]}, "/scopes"),
        ({"name": "x", "scopes": ["read"], "expires_at": "soon"}, "/expires_at"),
        ({"name": "x", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"name": "x", "scopes": ["read"], "colour": "red"}, "/colour"),
    ],
    ids=str,
)
def test_bad_tokens(world: World, body: Any, pointer: str) -> None:
    answer = world.bob.post("/tokens", body)
    assert answer.status_code == 422
    assert pointer in [found for found, _ in spots(answer)]


def test_the_audit_trail_is_for_admins(world: World) -> None:
    job = world.job()
    world.bob.post(f"/jobs/{job.uuid}/cancel")
    (entry,) = world.ada.get(f"/audit?object_id={job.uuid}").json()["items"]
    assert (entry["actor"], entry["action"]) == ("bob", "cancel")
    assert world.bob.get("/audit").status_code == 403

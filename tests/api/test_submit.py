import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from federation.models import Job
from tenancy.models import Event, IdempotencyRecord
from tenancy.services.tree import update_tenant
from tests.api.world import OTHER, TEAM, World, caller, problem, spots
from tests.federation.bad_bodies import BAD
from tests.federation.bodies import small, whole
from tests.make import NOW


def nothing_stored() -> bool:
    return not Job.objects.exists() and not Event.objects.filter(kind="job.queued").exists()


def test_a_job_is_queued_with_an_event_and_answered_whole(world: World) -> None:
    answer = world.bob.post("/jobs", small(name="first", tenant=TEAM))
    assert answer.status_code == 201
    body = answer.json()
    assert answer["Location"] == f"/api/v1/jobs/{body['id']}"
    assert (body["state"], body["name"], body["tenant"]) == ("queued", "first", TEAM)
    assert body["gang"]["nodes"] == 4
    assert body["time_limit"] == 3600
    assert body["run"]["script"].startswith("#!")
    assert body["cost"]["so_far"]["amount"] == "0.000000"
    assert (body["version"], body["attempt"], body["reasons"]) == (1, None, [])
    event = Event.objects.get(subject=body["id"])
    assert (event.kind, event.cause, event.tenant_id) == ("job.queued", "submitted", world.team.id)


def test_what_is_read_is_what_was_answered(world: World) -> None:
    body = whole(tenant=TEAM, flavors=["h100-sxm-80"], requires=[])
    body["gang"]["nodes"] = body["gang"]["min_nodes"] = 8
    body["parallelism"]["dp"] = 2
    first = world.bob.post("/jobs", body)
    assert first.status_code == 201, first.content
    again = world.vera.get(f"/jobs/{first.json()['id']}")
    assert again.json() == first.json()
    assert again["ETag"] == '"1"'


def test_bad_bodies_are_refused_at_the_spot_and_nothing_is_stored(
    world: World, subtests: pytest.Subtests
) -> None:
    for what, body, pointer, code in BAD:
        with subtests.test(what):
            answer = world.bob.post("/jobs", body)
            if what in ("NaN", "infinity"):
                assert (answer.status_code, problem(answer)["code"]) == (400, "invalid_json")
            else:
                assert answer.status_code == 422
                assert (pointer, code) in spots(answer)
            assert nothing_stored()


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b'{"tenant": "a", "tenant": "b"}', 400, "invalid_json"),
        (b"[" * 100_000 + b"]" * 100_000, 400, "invalid_json"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, 400, "invalid_json"),
        (b'{"name": "' + b"x" * 5_000_000 + b'"}', 413, "too_large"),
        (b"", 422, "invalid_content"),
    ],
    ids=["cut off", "not UTF-8", "name twice", "deep list", "deep object", "5 MB", "empty"],
)
def test_bytes_that_are_no_job(world: World, raw: bytes, status: int, code: str) -> None:
    answer = world.bob.call("POST", "/jobs", raw=raw)
    assert (answer.status_code, problem(answer)["code"]) == (status, code)
    assert nothing_stored()


def test_another_media_type_is_415(world: World) -> None:
    answer = world.bob.post("/jobs", small(), content_type="text/plain")
    assert (answer.status_code, problem(answer)["code"]) == (415, "unsupported_media_type")
    assert nothing_stored()


@pytest.mark.parametrize(
    ("changes", "pointer", "code"),
    [
        ({"tenant": OTHER}, "/tenant", "unknown_tenant"),
        ({"tenant": "nowhere"}, "/tenant", "unknown_tenant"),
        ({"flavors": ["h100-sxm-80", "tpu"]}, "/flavors/1", "unknown_flavor"),
        ({"clusters": {"only": ["nowhere"]}}, "/clusters/only/0", "unknown_cluster"),
        ({"flavors": ["mi300x"]}, "/flavors", "flavor_not_accepted"),
        ({"requires": ["tape"]}, "/requires", "store_unavailable"),
        ({"checkpoint": {"store": "tape"}}, "/checkpoint/store", "store_unavailable"),
        ({"gang": {"nodes": 9, "gpus_per_node": 8}}, "/gang/nodes", "gang_too_large"),
        ({"gang": {"nodes": 1, "gpus_per_node": 16}}, "/gang/nodes", "gang_too_large"),
        (
            {"gang": {"nodes": 5, "gpus_per_node": 8}, "topology": {"required": "leaf"}},
            "/gang/nodes",
            "gang_too_large",
        ),
    ],
    ids=str,
)
def test_what_can_never_run_is_refused(
    world: World, changes: dict[str, Any], pointer: str, code: str
) -> None:
    answer = world.bob.post("/jobs", small(**{"tenant": TEAM, **changes}))
    assert answer.status_code == 422, answer.content
    assert (pointer, code) in spots(answer)
    assert nothing_stored()


def test_a_tenant_one_may_not_see_is_told_like_one_that_is_not(world: World) -> None:
    hidden = problem(world.bob.post("/jobs", small(tenant=OTHER)))
    missing = problem(world.bob.post("/jobs", small(tenant="rivals/none")))
    assert str(hidden).replace(OTHER, "rivals/none") == str(missing)


def test_a_person_without_an_account_is_told_so(world: World) -> None:
    answer = world.alice.post("/jobs", small(tenant=TEAM))
    assert spots(answer) == [("/flavors", "backend_cannot_run")]
    assert "no account on aurora" in problem(answer)["errors"][0]["detail"]


def test_a_viewer_may_not_submit(world: World) -> None:
    answer = world.vera.post("/jobs", small(tenant=TEAM))
    assert (answer.status_code, problem(answer)["code"]) == (403, "permission_denied")
    assert nothing_stored()


def test_a_closed_tenant_takes_no_jobs(world: World) -> None:
    update_tenant(actor=None, tenant=world.team, changes={"is_open": False}, now=NOW)
    assert spots(world.bob.post("/jobs", small(tenant=TEAM))) == [("/tenant", "tenant_closed")]


def test_a_batch_is_taken_whole(world: World) -> None:
    jobs = [small(tenant=TEAM, name=f"job {number}") for number in range(3)]
    answer = world.bob.post("/jobs/batch", {"jobs": jobs})
    assert answer.status_code == 201
    assert [job["name"] for job in answer.json()["jobs"]] == ["job 0", "job 1", "job 2"]
    assert Job.objects.count() == Event.objects.filter(kind="job.queued").count() == 3


@pytest.mark.parametrize(
    ("bad", "pointer"),
    [
        (small(tenant=TEAM, gang={"nodes": 0, "gpus_per_node": 8}), "/jobs/1/gang/nodes"),
        (small(tenant=OTHER), "/jobs/1/tenant"),
        (small(tenant=TEAM, requires=["tape"]), "/jobs/1/requires"),
        ("job", "/jobs/1"),
    ],
    ids=["bad field", "another's tenant", "never runs", "no object"],
)
def test_a_batch_with_one_bad_job_stores_none(world: World, bad: Any, pointer: str) -> None:
    good = small(tenant=TEAM)
    answer = world.bob.post("/jobs/batch", {"jobs": [good, bad, good]})
    assert answer.status_code == 422
    assert [found for found, _ in spots(answer)] == [pointer]
    assert nothing_stored()


@pytest.mark.parametrize(
    "body",
    [{}, {"jobs": {}}, {"jobs": []}, {"jobs": [{}] * 1001}, {"jobs": [], "more": 1}, []],
    ids=str,
)
def test_a_batch_is_a_list_of_1_to_1000_jobs(world: World, body: Any) -> None:
    answer = world.bob.post("/jobs/batch", body)
    assert answer.status_code == 422
    assert problem(answer)["errors"]
    assert nothing_stored()


def test_1000_jobs_cost_as_many_queries_as_one(world: World) -> None:
    assert world.bob.post("/jobs", small(tenant=TEAM)).status_code == 201  # the fleet is known now
    counts = []
    for number in (1, 1000):
        jobs = [small(tenant=TEAM, name=str(n)) for n in range(number)]
        with CaptureQueriesContext(connection) as queries:
            assert world.bob.post("/jobs/batch", {"jobs": jobs}).status_code == 201
        counts.append(len(queries))
    assert counts[0] == counts[1]
    assert Job.objects.count() == 1002


def test_the_same_key_and_body_give_the_first_answer_again(world: World) -> None:
    first = world.bob.post("/jobs", small(tenant=TEAM), idempotency_key="k1")
    again = world.bob.post("/jobs", small(tenant=TEAM), idempotency_key="k1")
    assert "Idempotency-Replayed" not in first
    assert again["Idempotency-Replayed"] == "true"
    assert (again.status_code, again.json()) == (201, first.json())
    assert Job.objects.count() == 1


def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    world.bob.post("/jobs", small(tenant=TEAM), idempotency_key="k1")
    answer = world.bob.post("/jobs", small(tenant=TEAM, name="other"), idempotency_key="k1")
    assert (answer.status_code, problem(answer)["code"]) == (409, "idempotency_key_reused")
    assert Job.objects.count() == 1


def test_keys_belong_to_one_person_and_one_path(world: World) -> None:
    body = small(tenant=TEAM)
    dora = caller(world.bob.user)
    world.bob.post("/jobs", body, idempotency_key="k1")
    assert dora.post("/jobs", body, idempotency_key="k1")["Idempotency-Replayed"] == "true"
    elsewhere = world.charlie.post("/jobs", small(tenant=OTHER), idempotency_key="k1")
    assert elsewhere.status_code == 201
    assert "Idempotency-Replayed" not in elsewhere
    batch = world.bob.post("/jobs/batch", {"jobs": [body]}, idempotency_key="k1")
    assert batch.status_code == 201
    assert Job.objects.count() == 3


def test_a_refused_request_does_not_use_up_its_key(world: World) -> None:
    assert world.bob.post("/jobs", {}, idempotency_key="k1").status_code == 422
    assert not IdempotencyRecord.objects.exists()
    good = world.bob.post("/jobs", small(tenant=TEAM), idempotency_key="k1")
    assert good.status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x01b"])
def test_keys_have_a_form(world: World, key: str) -> None:
    answer = world.bob.post("/jobs", small(tenant=TEAM), idempotency_key=key)
    assert (answer.status_code, problem(answer)["code"]) == (422, "invalid_content")
    assert nothing_stored()


def test_text_comes_back_as_it_was_sent(world: World) -> None:
    name = "训练 π <b>&amp; $(id) '; DROP TABLE federation_job; --"
    script = "#!/bin/bash\necho \"$HOME\" '\\n' `id` \\u0000\n\techo é"
    body = small(tenant=TEAM, name=name, run={"script": script}, labels={"a": name})
    found = world.bob.post("/jobs", body).json()
    assert (found["name"], found["run"]["script"], found["labels"]) == (name, script, {"a": name})
    assert json.loads(world.bob.get("/jobs").content)["items"][0]["name"] == name

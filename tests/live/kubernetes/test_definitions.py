"""Volcano's definitions in a real API server: they answer as recorded of a running Volcano."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.kubernetes.lab import make, path_of
from tests.live.kubernetes.refusals import CASES, VERSIONS, Case, job, whole

pytestmark = pytest.mark.live
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RECORDED = Path(__file__).parent / "recorded"
CLUSTER_WIDE = ("Queue", "HyperNode")


def create(admin: httpx.Client, namespace: str, kind: str, body: dict[str, Any]) -> httpx.Response:
    """A create without a trace: it runs all checks and stores nothing."""
    return admin.post(path_of(kind, namespace), json=body, params={"dryRun": "All"})


def test_the_server_answers_and_says_what_it_is(admin: httpx.Client) -> None:
    assert admin.get("/readyz").text == "ok"
    version = admin.get("/version").json()
    assert version["gitVersion"] == "v1.36.1"
    assert (version["major"], version["minor"]) == ("1", "36")


def test_each_definition_is_established(admin: httpx.Client) -> None:
    found = {}
    for definition in admin.get(DEFINITIONS).json()["items"]:
        conditions = {one["type"]: one["status"] for one in definition["status"]["conditions"]}
        assert "NonStructuralSchema" not in conditions
        version = definition["spec"]["versions"][0]["name"]
        name = definition["spec"]["names"]["kind"]
        found[name] = (f"{definition['spec']['group']}/{version}", conditions["Established"])
    assert found == {kind: (version, "True") for kind, version in VERSIONS.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.name}")
def test_it_is_accepted_or_refused_as_recorded(
    admin: httpx.Client, namespace: str, case: Case
) -> None:
    answer = create(admin, namespace, case.kind, case.body)
    assert answer.status_code == case.code_without_webhooks, answer.text
    if case.by != "webhook":
        assert case.words in answer.json().get("message", "")
    if answer.status_code == 422:
        assert answer.json()["reason"] == "Invalid"


def test_an_unknown_field_is_dropped_with_a_warning(admin: httpx.Client, namespace: str) -> None:
    answer = create(admin, namespace, "Job", whole("Job", job(nope=1)))
    assert "nope" not in answer.json()["spec"]
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.nope\\""'


def test_a_pod_template_is_kept_whole(admin: httpx.Client, namespace: str) -> None:
    odd = {"metadata": {"labels": {"a": "b"}}, "spec": {"fieldOfTomorrow": [1]}}
    tasks = [{"name": "w", "replicas": 1, "template": odd}]
    answer = create(admin, namespace, "Job", whole("Job", job(tasks)))
    assert answer.json()["spec"]["tasks"][0]["template"] == odd


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda path: path.stem)
def test_a_recorded_object_is_kept_whole(admin: httpx.Client, namespace: str, path: Path) -> None:
    """With its status, which only the subresource takes."""
    recorded = json.loads(path.read_text())
    kind, status = recorded["kind"], recorded.pop("status", None)
    recorded["metadata"] = {"generateName": "recorded-"}
    made = make(admin, recorded, namespace)
    address = f"{path_of(kind, namespace)}/{made['metadata']['name']}"
    try:
        assert {key: made[key] for key in recorded if key != "metadata"} == {
            key: value for key, value in recorded.items() if key != "metadata"
        }
        if status is not None:
            ignored = admin.put(address, json={**made, "status": status})
            assert "status" not in ignored.json()
            kept = admin.put(f"{address}/status", json={**ignored.json(), "status": status})
            assert kept.json()["status"] == status
    finally:
        admin.delete(address)


def test_a_name_again_and_a_change_of_what_has_changed(admin: httpx.Client, namespace: str) -> None:
    made = make(admin, whole("Job", job(), name="r-a"), namespace)
    again = admin.post(path_of("Job", namespace), json=whole("Job", job(), name="r-a"))
    assert again.status_code == 409
    assert again.json()["reason"] == "AlreadyExists"
    assert again.json()["message"] == 'jobs.batch.volcano.sh "r-a" already exists'
    address = f"{path_of('Job', namespace)}/r-a"
    newer = admin.put(address, json={**made, "spec": job(minAvailable=1)})
    assert newer.status_code == 200
    older = admin.put(address, json={**made, "spec": job(minAvailable=0)})
    assert (older.status_code, older.json()["reason"]) == (409, "Conflict")
    assert older.json()["message"].startswith(
        'Operation cannot be fulfilled on jobs.batch.volcano.sh "r-a": the object has been modified'
    )
    wrong = {"preconditions": {"uid": "0"}}
    refused = admin.request("DELETE", address, json=wrong)
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert admin.delete(address).status_code == 200
    assert admin.delete(address).status_code == 404

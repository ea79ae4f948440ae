"""The API as a client sees it: verbs, lists in pages, watches, refusals, rights; words as recorded."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from simulator.volcano.cluster import VolcanoCluster
from tests.simulator.volcano.harness import (
    EVENTS,
    JOBS,
    NODES,
    QUEUES,
    Lab,
    gang,
    lab_cluster,
    task,
)

BATCH = "/apis/batch.volcano.sh/v1alpha1"
MERGE = "application/merge-patch+json"


@pytest.fixture
def lab() -> Lab:
    found = Lab()
    found.control("scheduling/pause")
    return found


def refused(answer: Any) -> tuple[int, str, str]:
    body = answer.json()
    return answer.status_code, body.get("reason", ""), body["message"]


def many(lab: Lab, count: int) -> list[str]:
    names = [f"p-{number:02d}" for number in range(count)]
    for name in names:
        lab.post(JOBS, gang(name, task(replicas=1)))
    return names


def lines(lab: Lab, path: str) -> Iterator[dict[str, Any]]:
    with lab.client.stream("GET", path) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            yield json.loads(line)


def test_a_list_in_pages_is_of_one_moment(lab: Lab) -> None:
    names = many(lab, 25)
    first = lab.get(f"{JOBS}?limit=10")
    meta = first["metadata"]
    assert first["kind"] == "JobList"
    assert meta["remainingItemCount"] == 15
    lab.call("DELETE", f"{JOBS}/p-22")
    lab.post(JOBS, gang("p-05x"))
    second = lab.get(f"{JOBS}?limit=10&continue={meta['continue']}")
    assert second["metadata"]["remainingItemCount"] == 5
    third = lab.get(f"{JOBS}?limit=10&continue={second['metadata']['continue']}")
    assert third["metadata"] == {"continue": "", "resourceVersion": meta["resourceVersion"]}
    pages = [first, second, third]
    assert [i["metadata"]["name"] for page in pages for i in page["items"]] == names


def test_a_token_to_go_on_expires_with_the_server(lab: Lab) -> None:
    many(lab, 3)
    token = lab.get(f"{JOBS}?limit=2")["metadata"]["continue"]
    lab.control("api/restart")
    answer = lab.call("GET", f"{JOBS}?limit=2&continue={token}")
    code, reason, message = refused(answer)
    assert (code, reason) == (410, "Expired")
    assert message.startswith("The provided continue parameter is too old")
    fresh = answer.json()["metadata"]["continue"]
    rest = lab.get(f"{JOBS}?continue={fresh}")
    assert [i["metadata"]["name"] for i in rest["items"]] == ["p-02"]


def test_a_token_that_is_none_is_refused(lab: Lab) -> None:
    code, reason, message = refused(lab.call("GET", f"{JOBS}?limit=1&continue=garbage"))
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("invalid continue token")
    odd = base64.urlsafe_b64encode(b'{"rv": 1}').decode()
    assert lab.call("GET", f"{JOBS}?limit=1&continue={odd}").status_code == 400


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("app=a", ["a"]),
        ("app==a", ["a"]),
        ("app!=a", ["b", "none"]),
        ("app in (a, b)", ["a", "b"]),
        ("app notin (a)", ["b", "none"]),
        ("app", ["a", "b"]),
        ("!app", ["none"]),
        ("app,team=x", ["b"]),
        ("app in (a,b),team=x", ["b"]),
    ],
)
def test_label_selectors(lab: Lab, selector: str, found: list[str]) -> None:
    for name, labels in [("a", {"app": "a"}), ("b", {"app": "b", "team": "x"}), ("none", {})]:
        job = gang(name)
        job["metadata"]["labels"] = labels
        lab.post(JOBS, job)
    answer = lab.client.get(JOBS, params={"labelSelector": selector})
    assert [item["metadata"]["name"] for item in answer.json()["items"]] == found
    page = lab.client.get(JOBS, params={"labelSelector": selector, "limit": 1}).json()
    assert "remainingItemCount" not in page["metadata"]


def test_field_selectors(lab: Lab) -> None:
    many(lab, 2)
    assert len(lab.get(f"{JOBS}?fieldSelector=metadata.name=p-01")["items"]) == 1
    answer = lab.call("GET", f"{JOBS}?fieldSelector=status.state.phase=Running")
    assert refused(answer) == (
        400,
        "BadRequest",
        "field label not supported: status.state.phase",
    )
    assert len(lab.get(f"{NODES}?fieldSelector=metadata.name=volc-n003")["items"]) == 1


def test_items_of_built_in_lists_do_not_name_their_kind(lab: Lab) -> None:
    many(lab, 1)
    assert "kind" not in lab.get(NODES)["items"][0]
    assert lab.get(JOBS)["items"][0]["kind"] == "Job"
    assert lab.get(f"{NODES}/volc-n000")["kind"] == "Node"


def test_a_version_that_is_not_there_yet(lab: Lab) -> None:
    answer = lab.call("GET", f"{JOBS}?resourceVersion=99999999")
    body = answer.json()
    assert (answer.status_code, body["reason"]) == (504, "Timeout")
    assert body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.headers["retry-after"] == "1"
    assert refused(lab.call("GET", f"{JOBS}?resourceVersion=abc"))[0] == 500


def test_a_watch_tells_what_changed_since(lab: Lab) -> None:
    many(lab, 3)
    version = lab.get(JOBS)["metadata"]["resourceVersion"]
    lab.post(JOBS, gang("new"))
    lab.call("DELETE", f"{JOBS}/p-01")
    told = [
        (line["type"], line["object"]["metadata"].get("name"))
        for line in lines(lab, f"{JOBS}?watch=1&resourceVersion={version}&timeoutSeconds=3")
    ]
    assert told[0] == ("ADDED", "new")
    assert ("MODIFIED", "new") in told
    assert told[-1] == ("DELETED", "p-01")
    assert all(name != "p-00" for _, name in told)


def test_a_watch_from_nowhere_begins_with_all_there_is(lab: Lab) -> None:
    names = many(lab, 3)
    told = list(lines(lab, f"{JOBS}?watch=true&timeoutSeconds=1"))
    assert [(t["type"], t["object"]["metadata"]["name"]) for t in told] == [
        ("ADDED", name) for name in names
    ]


def test_a_watch_with_initial_events_marks_their_end(lab: Lab) -> None:
    many(lab, 2)
    query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=1"
    told = list(lines(lab, f"{JOBS}?{query}&resourceVersionMatch=NotOlderThan"))
    assert [t["type"] for t in told] == ["ADDED", "ADDED", "BOOKMARK", "BOOKMARK"]
    marks = told[2]["object"]["metadata"]["annotations"]
    assert marks == {"k8s.io/initial-events-end": "true"}


def test_bookmarks_come_every_minute_and_at_the_end(lab: Lab) -> None:
    version = lab.get(JOBS)["metadata"]["resourceVersion"]
    query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds=130&resourceVersion={version}"
    told = list(lines(lab, f"{JOBS}?{query}"))
    assert [t["type"] for t in told] == ["BOOKMARK"] * 3
    assert told[0]["object"]["kind"] == "Job"
    assert int(told[0]["object"]["metadata"]["resourceVersion"]) >= int(version)


def test_what_stops_to_fit_a_selector_is_deleted_for_the_watcher(lab: Lab) -> None:
    job = gang("a")
    job["metadata"]["labels"] = {"app": "a"}
    lab.post(JOBS, job)
    version = lab.get(JOBS)["metadata"]["resourceVersion"]
    lab.merge(f"{JOBS}/a", {"metadata": {"labels": {"app": "b"}}})
    query = f"watch=1&labelSelector=app%3Da&resourceVersion={version}&timeoutSeconds=1"
    assert [t["type"] for t in lines(lab, f"{JOBS}?{query}")] == ["DELETED"]


def test_every_version_before_a_restart_is_too_old(lab: Lab) -> None:
    version = lab.get(JOBS)["metadata"]["resourceVersion"]
    lab.control("api/restart")
    (told,) = lines(lab, f"{JOBS}?watch=1&resourceVersion={version}&timeoutSeconds=5")
    assert told["type"] == "ERROR"
    assert (told["object"]["code"], told["object"]["reason"]) == (410, "Expired")
    assert told["object"]["message"].startswith(f"too old resource version: {version} (")


def test_a_watch_from_the_future_is_silent(lab: Lab) -> None:
    version = int(lab.get(JOBS)["metadata"]["resourceVersion"]) + 1000
    before = lab.cluster.now_ms()
    query = f"watch=1&resourceVersion={version}&timeoutSeconds=3"
    assert list(lines(lab, f"{JOBS}?{query}&allowWatchBookmarks=true")) == []
    assert lab.cluster.now_ms() - before >= 3000


def test_create_gives_name_uid_and_defaults(lab: Lab) -> None:
    job = gang("x")
    del job["metadata"]["name"]
    job["metadata"]["generateName"] = "mst-gen-"
    made = lab.post(JOBS, job)
    meta = made["metadata"]
    assert meta["name"].startswith("mst-gen-")
    assert len(meta["name"]) == len("mst-gen-") + 5
    assert meta["generation"] == 1
    assert "status" not in made
    assert meta["uid"] != lab.post(JOBS, gang("y"))["metadata"]["uid"]


def test_the_same_name_again(lab: Lab) -> None:
    lab.post(JOBS, gang("r-a"))
    answer = lab.call("POST", JOBS, gang("r-a"))
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch.volcano.sh "r-a" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "r-a", "group": "batch.volcano.sh", "kind": "jobs"},
        "code": 409,
    }


def test_dry_run_refuses_and_keeps_nothing(lab: Lab) -> None:
    lab.post(f"{JOBS}?dryRun=All", gang("g"))
    assert lab.call("GET", f"{JOBS}/g").status_code == 404
    bad = gang("g", queue="nope")
    code, reason, message = refused(lab.call("POST", f"{JOBS}?dryRun=All", bad))
    assert (code, reason) == (400, "")
    assert message.startswith('admission webhook "validatejob.volcano.sh" denied the request: ')
    lab.post(JOBS, gang("g"))
    assert lab.call("POST", f"{JOBS}?dryRun=All", gang("g")).status_code == 409


def test_neither_name_nor_a_way_to_make_one(lab: Lab) -> None:
    job = gang("x")
    del job["metadata"]["name"]
    assert refused(lab.call("POST", JOBS, job)) == (
        422,
        "Invalid",
        'Job.batch.volcano.sh "" is invalid: metadata.name: Required value: name or generateName '
        "is required",
    )


def test_put_with_an_old_version_is_a_conflict(lab: Lab) -> None:
    made = lab.post(JOBS, gang("a"))
    lab.merge(f"{JOBS}/a", {"metadata": {"labels": {"x": "1"}}})
    assert refused(lab.call("PUT", f"{JOBS}/a", made)) == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on jobs.batch.volcano.sh "a": the object has been modified; '
        "please apply your changes to the latest version and try again",
    )
    now = lab.job("a")
    now["metadata"]["labels"] = {"y": "2"}
    assert lab.call("PUT", f"{JOBS}/a", now).json()["metadata"]["labels"] == {"y": "2"}


def test_patches(lab: Lab) -> None:
    lab.post(JOBS, gang("a"))
    patch = [
        {"op": "add", "path": "/metadata/labels", "value": {"a~b/c": "1"}},
        {"op": "test", "path": "/metadata/labels/a~0b~1c", "value": "1"},
        {"op": "replace", "path": "/spec/minAvailable", "value": 3},
    ]
    headers = {"Content-Type": "application/json-patch+json"}
    answer = lab.call("PATCH", f"{JOBS}/a", patch, **headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["spec"]["minAvailable"] == 3
    assert answer.json()["metadata"]["generation"] == 2
    wrong = [{"op": "test", "path": "/metadata/name", "value": "b"}]
    assert lab.call("PATCH", f"{JOBS}/a", wrong, **headers).status_code == 422
    assert lab.merge(f"{JOBS}/a", {"metadata": {"labels": None}}).status_code == 200
    assert "labels" not in lab.job("a")["metadata"]
    apply = {"Content-Type": "application/apply-patch+yaml"}
    assert lab.call("PATCH", f"{JOBS}/a", {}, **apply).status_code == 415


def test_status_changes_only_through_its_own_path(lab: Lab) -> None:
    lab.post(QUEUES, {"metadata": {"name": "q"}, "spec": {}})
    closed = {"status": {"state": "Closed"}}
    assert lab.merge(f"{QUEUES}/q", closed).json()["status"]["state"] == "Open"
    assert lab.merge(f"{QUEUES}/q/status", closed).json()["status"]["state"] == "Closed"
    lab.merge(f"{QUEUES}/q/status", {"spec": {"weight": 7}})
    assert lab.get(f"{QUEUES}/q")["spec"]["weight"] == 1


def test_delete_with_the_uid_of_another(lab: Lab) -> None:
    uid = lab.post(JOBS, gang("d-e"))["metadata"]["uid"]
    wish = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    assert refused(lab.call("DELETE", f"{JOBS}/d-e", wish)) == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on Job.batch.volcano.sh "d-e": the UID in the precondition '
        "(00000000-0000-0000-0000-000000000000) does not match the UID in record "
        f"({uid}). The object might have been deleted and then recreated",
    )
    gone = lab.call("DELETE", f"{JOBS}/d-e", {"preconditions": {"uid": uid}})
    assert (gone.json()["kind"], gone.json()["status"]) == ("Status", "Success")
    assert refused(lab.call("DELETE", f"{JOBS}/d-e")) == (
        404,
        "NotFound",
        'jobs.batch.volcano.sh "d-e" not found',
    )


def test_a_finalizer_holds_an_object(lab: Lab) -> None:
    job = gang("a")
    job["metadata"]["finalizers"] = ["lab/held"]
    lab.post(JOBS, job)
    assert "deletionTimestamp" in lab.call("DELETE", f"{JOBS}/a").json()["metadata"]
    code, reason, message = refused(lab.call("POST", JOBS, gang("a")))
    assert (code, reason) == (409, "AlreadyExists")
    assert message.startswith("object is being deleted: ")
    lab.merge(f"{JOBS}/a", {"metadata": {"finalizers": None}})
    assert lab.call("GET", f"{JOBS}/a").status_code == 404


def test_namespaces(lab: Lab) -> None:
    missing = JOBS.replace("/team/", "/none/")
    assert refused(lab.call("POST", missing, gang("a"))) == (
        404,
        "NotFound",
        'namespaces "none" not found',
    )
    other = JOBS.replace("/team/", "/other/")
    held = gang("held")
    held["metadata"]["finalizers"] = ["lab/held"]
    lab.post(other, held)
    lab.call("DELETE", "/api/v1/namespaces/other")
    answer = lab.call("POST", other, gang("a"))
    assert refused(answer) == (
        403,
        "Forbidden",
        'jobs.batch.volcano.sh "a" is forbidden: unable to create new content in namespace other '
        "because it is being terminated",
    )
    assert answer.json()["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    lab.merge(f"{other}/held", {"metadata": {"finalizers": None}})
    assert lab.call("GET", "/api/v1/namespaces/other").status_code == 404
    wrong = gang("a")
    wrong["metadata"]["namespace"] = "default"
    assert lab.call("POST", JOBS, wrong).status_code == 400


def test_deletecollection(lab: Lab) -> None:
    many(lab, 3)
    assert lab.call("DELETE", JOBS).json()["status"] == "Success"
    assert lab.get(JOBS)["items"] == []


def test_discovery_and_health(lab: Lab) -> None:
    assert lab.get("/version")["minor"] == "36"
    assert lab.call("GET", "/readyz").text == "ok"
    groups = [group["name"] for group in lab.get("/apis")["groups"]]
    assert "bus.volcano.sh" in groups
    names = [r["name"] for r in lab.get(BATCH)["resources"]]
    assert names == ["jobs", "jobs/status"]
    assert lab.get("/apis/topology.volcano.sh")["preferredVersion"]["version"] == "v1alpha1"
    assert "pods" in [r["name"] for r in lab.get("/api/v1")["resources"]]
    assert refused(lab.call("GET", "/apis/nope.example.org/v1/things"))[0] == 404
    assert lab.call("POST", f"{JOBS}/a/log", {}).status_code == 404


def test_events_have_counts(lab: Lab) -> None:
    lab.control("scheduling/resume")
    lab.post(JOBS, gang("big", task(replicas=3), queue="small"))
    lab.wait(5)
    told = {e["message"]: e["count"] for e in lab.get(EVENTS)["items"]}
    assert told["queue resource quota insufficient: insufficient nvidia.com/gpu"] == 5


def test_a_cluster_begins_anew() -> None:
    cluster = VolcanoCluster(lab_cluster())
    lab = Lab()
    lab.post(JOBS, gang("a"))
    lab.control("reset")
    assert lab.get(JOBS)["items"] == []
    assert cluster.store.revision == lab.cluster.store.revision

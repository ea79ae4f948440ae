"""What a client relies on when it lists and watches, and what a start of the server does to it."""

import time

import httpx
import pytest

from tests.live.kubernetes.lab import Json, LabCluster, eventually, make, path_of, watch
from tests.live.kubernetes.refusals import job, whole

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def jobs(admin: httpx.Client, namespace: str) -> str:
    """Where 25 jobs, p-00 to p-24, are listed."""
    for number in range(25):
        labels = {"odd": str(number % 2)}
        make(admin, whole("Job", job(), name=f"p-{number:02}", labels=labels), namespace)
    return path_of("Job", namespace)


def page(admin: httpx.Client, jobs: str, **parameters: str) -> tuple[list[str], Json]:
    """Names and metadata of one page."""
    answer = admin.get(jobs, params=parameters)
    assert answer.status_code == 200, answer.text
    listed = answer.json()
    assert (listed["apiVersion"], listed["kind"]) == ("batch.volcano.sh/v1alpha1", "JobList")
    return [one["metadata"]["name"] for one in listed["items"]], listed["metadata"]


def version(admin: httpx.Client, jobs: str) -> str:
    return str(page(admin, jobs)[1]["resourceVersion"])


def test_pages_are_all_of_the_first_moment(admin: httpx.Client, jobs: str) -> None:
    first, told = page(admin, jobs, limit="10")
    assert told["remainingItemCount"] == 15
    make(admin, whole("Job", job(), name="p-05x"), jobs.split("/")[-2])
    assert admin.delete(f"{jobs}/p-22").status_code == 200
    names, moment = first, told["resourceVersion"]
    while told.get("continue"):
        more, told = page(admin, jobs, limit="10", **{"continue": told["continue"]})
        assert told["resourceVersion"] == moment
        names += more
    assert names == [f"p-{number:02}" for number in range(25)]
    make(admin, whole("Job", job(), name="p-22"), jobs.split("/")[-2])
    admin.delete(f"{jobs}/p-05x")


def test_how_many_remain_is_not_told_with_a_selector(admin: httpx.Client, jobs: str) -> None:
    names, told = page(admin, jobs, limit="3", labelSelector="odd=1")
    assert names == ["p-01", "p-03", "p-05"]
    assert "remainingItemCount" not in told
    assert told["continue"]


def test_a_bad_token_to_continue_and_a_field_that_has_no_index(
    admin: httpx.Client, jobs: str
) -> None:
    bad = admin.get(jobs, params={"continue": "garbage"})
    assert (bad.status_code, bad.json()["reason"]) == (400, "BadRequest")
    assert page(admin, jobs, fieldSelector="metadata.name=p-07")[0] == ["p-07"]
    unknown = admin.get(jobs, params={"fieldSelector": "status.state.phase=Running"})
    assert unknown.status_code == 400
    assert unknown.json()["message"] == "field label not supported: status.state.phase"


def test_a_list_of_the_future_times_out(admin: httpx.Client, jobs: str) -> None:
    answer = admin.get(jobs, params={"resourceVersion": "99999999"})
    assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")
    assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.headers["retry-after"] == "1"


def test_a_watch_goes_on_from_a_list(admin: httpx.Client, jobs: str) -> None:
    since = version(admin, jobs)
    patch = {"metadata": {"labels": {"seen": "yes"}}}
    merge = {"content-type": "application/merge-patch+json"}
    assert admin.patch(f"{jobs}/p-01", json=patch, headers=merge).status_code == 200
    make(admin, whole("Job", job(), name="q"), jobs.split("/")[-2])
    admin.delete(f"{jobs}/q")
    with watch(admin, jobs, resourceVersion=since, timeoutSeconds="1") as events:
        seen = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
    assert seen == [("MODIFIED", "p-01"), ("ADDED", "q"), ("DELETED", "q")]


def test_a_watch_from_the_future_is_silent_until_its_end(admin: httpx.Client, jobs: str) -> None:
    future = str(int(version(admin, jobs)) + 1000)
    began_s = time.monotonic()
    with watch(admin, jobs, resourceVersion=future, timeoutSeconds="2") as events:
        assert list(events) == []
    assert time.monotonic() - began_s > 1.5


def test_a_watch_from_garbage_is_an_error_of_the_server(admin: httpx.Client, jobs: str) -> None:
    answer = admin.get(jobs, params={"watch": "1", "resourceVersion": "abc"})
    assert answer.status_code == 500
    assert "strconv.ParseUint" in answer.json()["message"]


def test_a_watch_tells_where_the_present_begins(admin: httpx.Client, jobs: str) -> None:
    asked = {
        "sendInitialEvents": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "2",
        "resourceVersionMatch": "NotOlderThan",
    }  # fmt: skip
    with watch(admin, jobs, **asked) as events:
        seen = [next(events) for _ in range(26)]
    assert [event["type"] for event in seen] == ["ADDED"] * 25 + ["BOOKMARK"]
    notes = seen[-1]["object"]["metadata"]["annotations"]
    assert notes["k8s.io/initial-events-end"] == "true"


def expired(client: httpx.Client, jobs: str, since: str) -> Json:
    """The one event of a watch from a version that the server does not know any more."""
    with watch(client, jobs, resourceVersion=since, timeoutSeconds="5") as events:
        (event,) = list(events)
    assert event["type"] == "ERROR"
    return dict(event["object"])


def touch(client: httpx.Client, namespace: str) -> None:
    """Write something that is no job."""
    answer = client.patch(
        f"/api/v1/namespaces/{namespace}",
        json={"metadata": {"annotations": {"touched": "yes"}}},
        headers={"content-type": "application/merge-patch+json"},
    )
    assert answer.status_code == 200, answer.text


def test_no_version_outlives_the_server(gamma: LabCluster, admin: httpx.Client, jobs: str) -> None:
    """A watch that was open breaks off; its version, though no job changed, is too old ever after."""
    since = version(admin, jobs)
    touch(admin, jobs.split("/")[-2])  # else the new server may begin at this very version
    with watch(admin, jobs, resourceVersion=since, timeoutSeconds="60") as events:
        gamma.kill("kube-apiserver")
        with pytest.raises(httpx.RemoteProtocolError):
            next(events)
    with pytest.raises(httpx.ConnectError):
        admin.get("/readyz")
    gamma.up()
    eventually(lambda: admin.get(jobs).status_code == 200, "jobs are listed again")
    assert len(page(admin, jobs)[0]) == 25
    told = expired(admin, jobs, since)
    assert (told["code"], told["reason"]) == (410, "Expired")
    assert told["message"].startswith(f"too old resource version: {since} (")
    anew = version(admin, jobs)
    with watch(admin, jobs, resourceVersion=anew, timeoutSeconds="1") as events:
        assert list(events) == []


def test_a_next_page_of_a_moment_that_is_forgotten(
    gamma: LabCluster, admin: httpx.Client, jobs: str
) -> None:
    """The refusal brings a token with which the rest can be had as it is now, if one likes."""
    first, told = page(admin, jobs, limit="10")
    gamma.kill("kube-apiserver")
    gamma.up()
    eventually(lambda: admin.get(jobs).status_code == 200, "jobs are listed again")
    make(admin, whole("Job", job(), name="p-24x"), jobs.split("/")[-2])
    gamma.forget(version(admin, jobs))
    refused = admin.get(jobs, params={"limit": "10", "continue": told["continue"]})
    assert (refused.status_code, refused.json()["reason"]) == (410, "Expired")
    fresh = refused.json()["metadata"]["continue"]
    rest, _ = page(admin, jobs, **{"continue": fresh})
    assert rest == [*(f"p-{number:02}" for number in range(10, 25)), "p-24x"]
    assert first[-1] == "p-09"
    admin.delete(f"{jobs}/p-24x")

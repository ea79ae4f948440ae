"""Who may do what: tokens, rights, and the question what one may (recording 21)."""

import pytest

from simulator.config import Token, Volcano
from tests.simulator.kubernetes.test_api import BATCH, refused
from tests.simulator.volcano.harness import COMMANDS, JOBS, PODS, QUEUES, Lab, lab_cluster

RIGHTS = [
    ["batch.volcano.sh", "jobs", "list", "team"],
    ["batch.volcano.sh", "jobs", "create", "team"],
    ["", "nodes", "list"],
    ["", "pods", "list"],
    ["", "pods/log", "get", "team"],
]
BROKER = "system:serviceaccount:team:broker"


@pytest.fixture
def narrow() -> Lab:
    volcano = Volcano(tokens=[Token("t", BROKER, RIGHTS)], namespaces=["team"])
    lab = Lab(lab_cluster(volcano=volcano))
    lab.client.headers["Authorization"] = "Bearer t"
    return lab


def test_rights(narrow: Lab) -> None:
    assert narrow.call("GET", JOBS).status_code == 200
    answer = narrow.call("GET", f"{JOBS}?watch=1")
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'jobs.batch.volcano.sh is forbidden: User "{BROKER}" cannot watch resource '
        '"jobs" in API group "batch.volcano.sh" in the namespace "team"',
        "reason": "Forbidden",
        "details": {"group": "batch.volcano.sh", "kind": "jobs"},
        "code": 403,
    }
    assert refused(narrow.call("GET", f"{JOBS}/b-1"))[2].startswith(
        'jobs.batch.volcano.sh "b-1" is forbidden: '
    )
    assert narrow.call("GET", f"{BATCH}/jobs").status_code == 403
    assert narrow.call("GET", "/api/v1/pods").status_code == 200
    assert narrow.call("GET", PODS).status_code == 200
    assert narrow.call("GET", f"{PODS}/x/log").status_code == 404
    assert "at the cluster scope" in refused(narrow.call("GET", QUEUES))[2]
    assert narrow.call("POST", COMMANDS, {}).status_code == 403


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ({"group": "batch.volcano.sh", "resource": "jobs", "verb": "create"}, False),
        (
            {
                "group": "batch.volcano.sh",
                "resource": "jobs",
                "verb": "create",
                "namespace": "team",
            },
            True,
        ),
        ({"resource": "nodes", "verb": "list"}, True),
        ({"resource": "pods", "subresource": "log", "verb": "get", "namespace": "team"}, True),
        ({"resource": "nodes", "verb": "*"}, False),
        ({"group": "nope.example.org", "resource": "things", "verb": "get"}, False),
    ],
)
def test_what_a_token_may_can_be_asked(narrow: Lab, asked: dict[str, str], allowed: bool) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = narrow.post(path, {"spec": {"resourceAttributes": asked}})
    assert body["status"]["allowed"] is allowed
    assert ("reason" in body["status"]) is allowed


def test_tokens(narrow: Lab) -> None:
    answer = narrow.call("GET", JOBS, Authorization="Bearer garbage")
    assert refused(answer) == (401, "Unauthorized", "Unauthorized")
    narrow.control("tokens/grant", token="short", user=BROKER, seconds=600)
    assert narrow.call("GET", JOBS, Authorization="Bearer short").status_code == 200
    narrow.wait(600)
    assert narrow.call("GET", JOBS, Authorization="Bearer short").status_code == 401
    narrow.control("tokens/revoke", token="t")
    assert narrow.call("GET", JOBS).status_code == 401
    del narrow.client.headers["Authorization"]
    assert refused(narrow.call("GET", JOBS)) == (
        403,
        "Forbidden",
        'jobs.batch.volcano.sh is forbidden: User "system:anonymous" cannot list resource "jobs" '
        'in API group "batch.volcano.sh" in the namespace "team"',
    )

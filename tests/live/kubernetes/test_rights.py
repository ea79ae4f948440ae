"""The rights of deploy/member/volcano: each call works with them, none without the one it needs."""

import base64
import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import httpx
import pytest
import yaml

from tests.live.kubernetes.lab import ROOT, Json, LabCluster, apply, eventually, make, path_of
from tests.live.kubernetes.refusals import command, job, whole

pytestmark = pytest.mark.live
MANIFESTS = ROOT / "deploy" / "member" / "volcano"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TOKEN = f"{path_of('ServiceAccount', 'muster')}/muster/token"
LABEL = {"metadata": {"labels": {"a": "b"}}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b-1"}}
MERGE = {"content-type": "application/merge-patch+json"}
POD = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "volcano"}


@dataclass(frozen=True)
class Right:
    """One verb on one resource; cluster-wide, or in the tenant's namespace."""

    group: str
    resource: str
    verb: str
    everywhere: bool

    def __str__(self) -> str:
        where = " everywhere" if self.everywhere else ""
        return f"{self.verb} {self.resource}.{self.group or 'core'}{where}"


def documents(*names: str) -> list[Json]:
    files = [MANIFESTS / f"{name}.yaml" for name in names]
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


CLUSTER = documents("cluster")
TENANT = documents("tenant", "tenant-logs", "tenant-eviction")
ROLES = [one for one in [*CLUSTER, *TENANT] if one["kind"] in ("Role", "ClusterRole")]


def rights_of(rule: Json, role: Json) -> list[Right]:
    (group,), (resource,) = rule["apiGroups"], rule["resources"]
    everywhere = role["kind"] == "ClusterRole"
    return [Right(group, resource, verb, everywhere) for verb in rule["verbs"]]


RIGHTS = [right for role in ROLES for rule in role["rules"] for right in rights_of(rule, role)]
# Pods are listed and watched in a namespace by either of two rules: an admin may want to take one of them out.
LIST_PODS = Right("", "pods", "list", everywhere=False)
WATCH_PODS = Right("", "pods", "watch", everywhere=False)
LIST_ALL_PODS = Right("", "pods", "list", everywhere=True)


@dataclass(frozen=True)
class Broker:
    """Muster's calls under its account, in one namespace with a job and a pod."""

    client: httpx.Client
    namespace: str

    def call(self, right: Right) -> httpx.Response:
        """The call that needs this right; of a watch only the answer's head."""
        objects = path_of_resource(right, self.namespace)
        pod = f"{path_of('Pod', self.namespace)}/b-1"
        no_trace = {"dryRun": "All"}
        by_verb: dict[str, tuple[str, str, Json]] = {
            "list": ("GET", objects, {}),
            "watch": ("GET", objects, {"params": {"watch": "1", "timeoutSeconds": "5"}}),
            "get": ("GET", f"{objects}/b-1", {}),
            "patch": ("PATCH", f"{objects}/b-1", {"json": LABEL, "headers": MERGE}),
            "delete": ("DELETE", f"{objects}/b-1", {"params": no_trace}),
        }
        by_both: dict[tuple[str, str], tuple[str, str, Json]] = {
            ("create", "jobs"): ("POST", objects, {"json": whole("Job", job())}),
            ("create", "commands"): ("POST", objects, {"json": command()}),
            ("get", "pods/log"): ("GET", f"{pod}/log", {}),
            ("create", "pods/eviction"): (
                "POST", f"{pod}/eviction", {"json": EVICTION, "params": no_trace},
            ),
        }  # fmt: skip
        method, path, how = by_both.get((right.verb, right.resource)) or by_verb[right.verb]
        with self.client.stream(method, path, **how) as answer:
            if right.verb != "watch":
                answer.read()
            return answer

    def may(self, right: Right) -> bool:
        """What the server says when asked beforehand."""
        resource, _, subresource = right.resource.partition("/")
        asked = {"group": right.group, "resource": resource, "verb": right.verb}
        if subresource:
            asked["subresource"] = subresource
        if not right.everywhere:
            asked["namespace"] = self.namespace
        answer = self.client.post(REVIEW, json={"spec": {"resourceAttributes": asked}})
        assert answer.status_code == 201, answer.text
        return bool(answer.json()["status"]["allowed"])

    def refused(self) -> set[Right]:
        """The rights without which a call is refused now."""
        return {right for right in RIGHTS if self.call(right).status_code == 403}


KINDS = {
    "jobs": "Job", "commands": "Command", "podgroups": "PodGroup", "pods": "Pod", "nodes": "Node",
    "queues": "Queue", "hypernodes": "HyperNode", "priorityclasses": "PriorityClass",
    "events": "Event",
}  # fmt: skip


def path_of_resource(right: Right, namespace: str) -> str:
    if right.resource == "pods" and right.everywhere:
        return "/api/v1/pods"
    return path_of(KINDS.get(right.resource, "Pod"), namespace)


@pytest.fixture(scope="module")
def broker(gamma: LabCluster, admin: httpx.Client, namespace: str) -> Iterator[Broker]:
    """The account with all of its rights, and a token of one hour."""
    for manifest in CLUSTER:
        apply(admin, manifest)
    for manifest in TENANT:
        apply(admin, manifest, namespace)
    make(admin, whole("Job", job(), name="b-1"), namespace)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b-1"}, "spec": POD}
    make(admin, pod, namespace)
    answer = request_token(admin, 3600)
    with gamma.client(answer.json()["status"]["token"]) as client:
        made = Broker(client, namespace)
        eventually(lambda: not made.refused(), "the rights are in force")
        yield made
    for manifest in reversed(CLUSTER):
        admin.delete(f"{path_of(manifest['kind'], 'muster')}/{manifest['metadata']['name']}")


def request_token(admin: httpx.Client, seconds: int) -> httpx.Response:
    """A TokenRequest, as `kubectl create token` makes it."""
    return admin.post(TOKEN, json={"spec": {"expirationSeconds": seconds}})


@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_each_call_works_with_the_least_set(broker: Broker, right: Right) -> None:
    assert broker.may(right)
    answer = broker.call(right)
    # Nothing: no node runs the pod, so there is no output yet.
    wanted = (204,) if right.resource == "pods/log" else (200, 201)
    assert answer.status_code in wanted, answer.text


def lessened() -> Iterator[tuple[str, Json, set[Right]]]:
    """Each role without one of its rules, and without one verb; what was taken away by it."""
    for role in ROLES:
        for number, rule in enumerate(role["rules"]):
            less = deepcopy(role)
            del less["rules"][number]
            taken = rights_of(rule, role)
            yield f"{role['kind']} without {rule['resources'][0]}", less, set(taken)
            for right in taken if len(taken) > 1 else ():
                less = deepcopy(role)
                less["rules"][number]["verbs"].remove(right.verb)
                yield f"{role['kind']} without {right}", less, {right}


LESSENED = [pytest.param(less, taken, id=what) for what, less, taken in lessened()]


@pytest.mark.parametrize(("less", "taken"), LESSENED)
def test_without_it_exactly_what_needs_it_is_refused(
    admin: httpx.Client, broker: Broker, less: Json, taken: set[Right]
) -> None:
    whole_role = next(role for role in ROLES if same(role, less))
    expected = taken - {LIST_PODS, WATCH_PODS}
    sentinel = next(iter(expected), None)
    apply(admin, less, broker.namespace)
    try:
        if sentinel is not None:
            eventually(lambda: not broker.may(sentinel), f"{sentinel} is taken away")
        assert broker.refused() == expected
        assert {right for right in RIGHTS if not broker.may(right)} == expected
    finally:
        apply(admin, whole_role, broker.namespace)
        if sentinel is not None:
            eventually(lambda: broker.may(sentinel), f"{sentinel} is given back")


def same(role: Json, other: Json) -> bool:
    return bool(role["kind"] == other["kind"] and role["metadata"] == other["metadata"])


def test_pods_of_a_namespace_are_listed_without_those_of_all(
    admin: httpx.Client, broker: Broker
) -> None:
    """An admin who will not show others' pods loses the view of foreign load and no more."""
    (everywhere,) = [role for role in ROLES if role["kind"] == "ClusterRole"]
    less = deepcopy(everywhere)
    less["rules"] = [rule for rule in less["rules"] if rule["resources"] != ["pods"]]
    apply(admin, less)
    try:
        eventually(lambda: not broker.may(LIST_ALL_PODS), "it is taken away")
        assert broker.call(LIST_PODS).status_code == 200
    finally:
        apply(admin, everywhere)


def test_nothing_beyond_it_is_allowed(broker: Broker) -> None:
    beyond = [
        Right("batch.volcano.sh", "jobs/status", "patch", everywhere=False),
        Right("batch.volcano.sh", "jobs", "deletecollection", everywhere=False),
        Right("batch.volcano.sh", "jobs", "list", everywhere=True),
        Right("bus.volcano.sh", "commands", "delete", everywhere=False),
        Right("scheduling.volcano.sh", "queues", "create", everywhere=True),
        Right("", "pods", "create", everywhere=False),
        Right("", "pods/exec", "create", everywhere=False),
        Right("", "secrets", "get", everywhere=False),
        Right("", "nodes", "patch", everywhere=True),
        Right("", "serviceaccounts/token", "create", everywhere=False),
        Right("rbac.authorization.k8s.io", "roles", "patch", everywhere=False),
    ]
    assert [str(right) for right in beyond if broker.may(right)] == []


def test_what_every_account_may_ask(broker: Broker) -> None:
    for free in ("/version", "/readyz", "/apis/batch.volcano.sh/v1alpha1"):
        assert broker.client.get(free).status_code == 200


def test_a_refusal_says_who_may_not_do_what(broker: Broker) -> None:
    answer = broker.client.get(path_of("Job", "default"))
    assert answer.status_code == 403
    assert answer.json()["reason"] == "Forbidden"
    assert answer.json()["details"] == {"group": "batch.volcano.sh", "kind": "jobs"}
    assert answer.json()["message"] == (
        'jobs.batch.volcano.sh is forbidden: User "system:serviceaccount:muster:muster" cannot list'
        ' resource "jobs" in API group "batch.volcano.sh" in the namespace "default"'
    )


def test_a_token_is_short_lived(admin: httpx.Client, broker: Broker) -> None:
    answer = request_token(admin, 600)
    assert answer.status_code == 201
    assert set(answer.json()["status"]) == {"expirationTimestamp", "token"}
    claims = answer.json()["status"]["token"].split(".")[1]
    told = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert told["exp"] - told["iat"] == 600
    refused = request_token(admin, 60)
    assert refused.status_code == 422
    assert "may not specify a duration less than 10 minutes" in refused.json()["message"]


def test_a_wrong_token_and_none(gamma: LabCluster) -> None:
    with gamma.client("garbage") as client:
        assert client.get(path_of("Job", "default")).status_code == 401
    with gamma.client(None) as client:
        answer = client.get(path_of("Job", "default"))
        assert answer.status_code == 403
        assert 'User "system:anonymous" cannot list' in answer.json()["message"]


def test_a_certificate_of_another_authority_is_not_trusted(gamma: LabCluster) -> None:
    with (
        httpx.Client(base_url=gamma.endpoint, trust_env=False) as client,
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.get("/version")

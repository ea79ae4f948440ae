"""What is refused and what is let through: the rows of recording 13, where they can be compared."""

import json
from typing import Any

import pytest

from tests.simulator.volcano.harness import (
    GROUPS,
    JOBS,
    QUEUES,
    Lab,
    gang,
    recording,
    task,
)

HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
ROWS = {row[0]: (row[1], row[2]) for row in recording("13-refusals")["rows"]}


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.control("scheduling/pause")
    lab.post(QUEUES, {"metadata": {"name": "p13-parent"}, "spec": {}})
    lab.post(QUEUES, {"metadata": {"name": "p13-child"}, "spec": {"parent": "p13-parent"}})
    lab.post(QUEUES, {"metadata": {"name": "closed13"}, "spec": {}})
    lab.command("CloseQueue", "closed13", kind="Queue")
    return lab


def said(message: str) -> str:
    """A message in the short form of the recording; what varies is cut there."""
    short = message.replace('admission webhook "', "[", 1).replace(
        '.volcano.sh" denied the request: ', "] ", 1
    )
    for kind in ("Job.batch", "Queue.scheduling", "HyperNode.topology"):
        if short.startswith(f"{kind}.volcano.sh "):
            return "[invalid] " + short.partition(" is invalid: ")[2]
    return short


def like(ours: str, real: str) -> bool:
    """The same words up to where the recording is cut, or lists what varies from run to run."""
    real = real.replace("\\n", "\n").partition(" valid events are")[0]
    ours = ours.partition(" valid events are")[0]
    return bool(ours.startswith(real.rstrip())) or bool(real and real.startswith(ours))


def work(**spec: Any) -> dict[str, Any]:
    """A task of two small pods; the words are fields of its pod."""
    made = task(replicas=2, gpus=1)
    made["template"]["spec"].update(spec)
    return made


def device(limits: Any, requests: Any = None) -> dict[str, Any]:
    resources = {"limits": limits, "requests": requests}
    container = {"name": "c", "image": "i", "resources": {k: v for k, v in resources.items() if v}}
    return work(containers=[container])


def parts(**policy: int) -> dict[str, Any]:
    return {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, **policy}}


def policy(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"policies": list(rows)}


FAILED = {"event": "PodFailed", "action": "AbortJob"}
GPU = "nvidia.com/gpu"
JOB_CASES: list[tuple[str, dict[str, Any]]] = [
    ("no tasks", {"tasks": []}),
    ("tasks missing", {"tasks": None}),
    ("minAvailable above the sum of replicas", {"minAvailable": 3}),
    ("minAvailable 0", {"minAvailable": 0}),
    ("task minAvailable above its replicas", {"tasks": [{**work(), "minAvailable": 3}]}),
    ("replicas 0", {"tasks": [{**work(), "replicas": 0}]}),
    ("replicas -1", {"tasks": [{**work(), "replicas": -1}]}),
    ("replicas as text", {"tasks": [{**work(), "replicas": "2"}]}),
    ("two tasks of one name", {"tasks": [work(), work()]}),
    ("task name with capitals", {"tasks": [{**work(), "name": "Worker"}]}),
    ("task without a name", {"tasks": [{**work(), "name": ""}]}),
    ("queue missing", {"queue": "nope"}),
    ("queue root", {"queue": "root"}),
    ("queue that has children", {"queue": "p13-parent"}),
    ("queue Closed", {"queue": "closed13"}),
    ("priority class missing", {"priorityClassName": "nope"}),
    ("plugin unknown", {"plugins": {"nope": []}}),
    ("plugin argument unknown", {"plugins": {"svc": ["--nope"]}}),
    (
        "pytorch plugin naming a master task that is not there",
        {"plugins": {"pytorch": ["--master=nope"]}},
    ),
    ("policy with no event and no exitCode", policy({"action": "AbortJob"})),
    ("policy with event and exitCode", policy({**FAILED, "exitCode": 3})),
    ("policy exitCode 0", policy({"exitCode": 0, "action": "AbortJob"})),
    ("policy event PodRunning", policy({"event": "PodRunning", "action": "AbortJob"})),
    ("policy action unknown", policy({"event": "PodFailed", "action": "Nope"})),
    ("policy event twice", policy(FAILED, FAILED)),
    ("policy * and another", policy({"event": "*", "action": "AbortJob"}, FAILED)),
    ("policy PodPending without a timeout", policy({**FAILED, "event": "PodPending"})),
    (
        "networkTopology tier and tier name",
        {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "leaf"}},
    ),
    ("networkTopology mode unknown", {"networkTopology": {"mode": "firm"}}),
    ("networkTopology hard without a tier", {"networkTopology": {"mode": "hard"}}),
    ("networkTopology soft with a tier", {"networkTopology": {"mode": "soft"}}),
    ("partitionPolicy 2 x 2 with replicas 2", {"tasks": [{**work(), **parts()}]}),
    ("partitionPolicy totalPartitions 0", {"tasks": [{**work(), **parts(totalPartitions=0)}]}),
    ("maxRetry 0 (what is kept?)", {"maxRetry": 0}),
    (
        "volume with claim name and claim",
        {"volumes": [{"volumeClaim": {"a": 1}, "volumeClaimName": "c"}]},
    ),
    ("volume with neither", {"volumes": [{"mountPath": "/data"}]}),
    ("no containers", {"tasks": [work(containers=[])]}),
    ("container without image", {"tasks": [work(containers=[{"name": "c"}])]}),
    ("GPU request without limit", {"tasks": [device(None, {GPU: "1"})]}),
    ("GPU request differs from limit", {"tasks": [device({GPU: "2"}, {GPU: "1"})]}),
    ("GPU 0.5", {"tasks": [device({GPU: "0.5"})]}),
    ("memory not a quantity", {"tasks": [device({"memory": "much"})]}),
]


@pytest.mark.parametrize(("case", "spec"), JOB_CASES, ids=[case for case, _ in JOB_CASES])
def test_jobs(lab: Lab, case: str, spec: dict[str, Any]) -> None:
    code, message = ROWS[case]
    job = gang("bad", work(), **{"queue": "team-g", **spec})
    job["spec"] = {k: v for k, v in job["spec"].items() if v is not None}
    answer = lab.call("POST", JOBS, job)
    assert answer.status_code == code, answer.text
    if code != 201:
        body = answer.json()
        assert body.get("reason", "") == ("Invalid" if code == 422 else "")
        assert like(said(body["message"]), message), (said(body["message"]), message)


QUEUE_CASES: list[tuple[str, dict[str, Any]]] = [
    ("queue weight 0", {"weight": 0}),
    ("queue without weight", {}),
    ("queue deserved above capability", {"deserved": {GPU: "64"}, "capability": {GPU: "32"}}),
    (
        "queue guarantee above deserved",
        {"deserved": {GPU: "32"}, "guarantee": {"resource": {GPU: "64"}}},
    ),
    ("queue guarantee without deserved", {"guarantee": {"resource": {GPU: "8"}}}),
    ("queue parent missing", {"parent": "nope"}),
    ("queue parent is default", {"parent": "default"}),
    ("queue capability negative", {"capability": {GPU: "-1"}}),
    ("queue dequeueStrategy unknown", {"dequeueStrategy": "lifo"}),
]


@pytest.mark.parametrize(("case", "spec"), QUEUE_CASES, ids=[case for case, _ in QUEUE_CASES])
def test_queues(lab: Lab, case: str, spec: dict[str, Any]) -> None:
    code, message = ROWS[case]
    answer = lab.call("POST", QUEUES, {"metadata": {"name": "bad13"}, "spec": spec})
    assert answer.status_code == code, answer.text
    if code != 201:
        assert like(said(answer.json()["message"]), message), answer.text


def member(**selector: Any) -> dict[str, Any]:
    return {"type": "Node", "selector": selector}


EXACT = {"exactMatch": {"name": "volc-n000"}}
HYPERNODE_CASES: list[tuple[str, dict[str, Any]]] = [
    ("hypernode without members", {"tier": 1}),
    ("hypernode tier missing", {"members": [member(**EXACT)]}),
    ("hypernode two selectors", {"tier": 1, "members": [member(**EXACT, regexMatch={})]}),
    ("hypernode child of a higher tier", {"tier": 1, "members": [member(**EXACT)]}),
]


@pytest.mark.parametrize(
    ("case", "spec"), HYPERNODE_CASES, ids=[case for case, _ in HYPERNODE_CASES]
)
def test_hypernodes(lab: Lab, case: str, spec: dict[str, Any]) -> None:
    code, _ = ROWS[case]
    answer = lab.call("POST", HYPERNODES, {"metadata": {"name": "x"}, "spec": spec})
    assert answer.status_code == code, answer.text


@pytest.mark.parametrize(
    ("case", "queue"), [("podgroup queue missing", "nope"), ("podgroup queue Closed", "closed13")]
)
def test_podgroups(lab: Lab, case: str, queue: str) -> None:
    code, message = ROWS[case]
    answer = lab.call("POST", GROUPS, {"metadata": {"name": "x"}, "spec": {"queue": queue}})
    assert answer.status_code == code
    assert said(answer.json()["message"]) == message


@pytest.mark.parametrize("name", ["root", "default"])
def test_queues_that_stay(lab: Lab, name: str) -> None:
    code, message = ROWS[f"DELETE queue {name}"]
    answer = lab.call("DELETE", f"{QUEUES}/{name}")
    assert (answer.status_code, said(answer.json()["message"])) == (code, message)


def test_names(lab: Lab) -> None:
    capital = lab.call("POST", JOBS, gang("Bad"))
    assert (capital.status_code, capital.json()["reason"]) == (422, "Invalid")
    assert like(said(capital.json()["message"]), ROWS["job name with capitals"][1])
    label = gang("bad")
    label["metadata"]["labels"] = {"x": "x" * 64}
    assert lab.call("POST", JOBS, label).status_code == 422
    big = gang("bad")
    big["metadata"]["annotations"] = {"x": "x" * 300_000}
    assert lab.call("POST", JOBS, big).status_code == 422
    assert lab.call("POST", JOBS, gang("a.dot", work())).status_code == 201
    assert lab.call("POST", JOBS, gang("j" * 58, work())).status_code == 201
    long = lab.call("POST", JOBS, gang("j" * 60, work()))
    assert long.status_code == 400
    assert "validate failed [name part must be no more than 63 bytes];" in long.text
    other = {**gang("bad"), "apiVersion": "batch.volcano.sh/v1beta1"}
    answer = lab.call("POST", JOBS, other)
    assert answer.json()["message"] == ROWS["apiVersion v1beta1"][1]


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"minAvailable": 1}, 200),
        ({"priorityClassName": "nope"}, 200),
        ({"minAvailable": 9}, 400),
        ({"queue": "team-s"}, 400),
        ({"tasks": []}, 422),
        ({"tasks": [work(), {**work(), "name": "x"}]}, 400),
        ({"tasks": 7}, 400),
        ({"maxRetry": 7}, 400),
    ],
)
def test_changes(lab: Lab, patch: dict[str, Any], code: int) -> None:
    lab.post(JOBS, gang("a", work()))
    answer = lab.merge(f"{JOBS}/a", {"spec": patch})
    assert answer.status_code == code, answer.text
    assert lab.merge(f"{JOBS}/a", {"metadata": {"labels": {"x": "1"}}}).status_code == 200


def test_garbage(lab: Lab) -> None:
    for body in ("{", "[]", json.dumps({"metadata": 1}), ""):
        answer = lab.client.post(JOBS, content=body)
        assert answer.status_code == 400
        assert answer.json()["reason"] == "BadRequest"

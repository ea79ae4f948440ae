"""Whatever is asked of it in whatever order: no node holds too much, gangs start whole, a watcher
knows what a list says, and the same calls make the same history."""

import json
from collections.abc import Callable
from typing import Any

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.volcano.harness import JOBS, NODES, PODS, Lab, gang, lab_cluster, task

NAMES = st.sampled_from(["a", "b", "c", "d"])
TASKS = st.builds(
    task,
    replicas=st.integers(1, 6),
    gpus=st.sampled_from([1, 4, 8]),
    grace=st.integers(0, 3),
    run_for=st.sampled_from(["1s", "2500ms", "7s", ""]),
    exit_code=st.sampled_from(["0", "0", "3"]),
)
BOUNDS = st.sampled_from([None, {"mode": "hard", "highestTierAllowed": 1}, {"mode": "soft"}])
POLICIES = st.lists(
    st.builds(
        lambda event, action: {"event": event, "action": action},
        st.sampled_from(["PodFailed", "PodEvicted", "TaskCompleted"]),
        st.sampled_from(["AbortJob", "RestartJob", "TerminateJob", "CompleteJob", "RestartPod"]),
    ),
    max_size=3,
    unique_by=lambda policy: policy["event"],
)
JOBS_MADE = st.tuples(
    st.just("make"),
    NAMES,
    TASKS,
    BOUNDS,
    POLICIES,
    st.integers(0, 3),
    st.sampled_from(["team-g", "team-s", "small"]),
)
ACTIONS = st.sampled_from(["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"])
STEPS = st.lists(
    st.one_of(
        JOBS_MADE,
        st.tuples(st.just("wait"), st.integers(1, 5000)),
        st.tuples(st.just("command"), NAMES, ACTIONS),
        st.tuples(
            st.just("delete"), NAMES, st.sampled_from(["Background", "Foreground", "Orphan"])
        ),
        st.tuples(st.just("evict"), NAMES, st.integers(0, 5)),
        st.tuples(st.just("cordon"), st.integers(0, 7), st.booleans()),
        st.tuples(st.just("silent"), st.integers(0, 7)),
        st.tuples(st.just("speak"), st.integers(0, 7)),
        st.tuples(st.just("restart")),
    ),
    max_size=25,
)


def make(lab: Lab, name: str, work: Any, bound: Any, policies: Any, most: int, queue: str) -> None:
    spec = {"policies": policies, "maxRetry": most, "queue": queue}
    spec |= {"networkTopology": bound} if bound else {}
    expect(lab.call("POST", JOBS, gang(name, work, **spec)), 201, 409)


def delete(lab: Lab, name: str, policy: str) -> None:
    expect(lab.call("DELETE", f"{JOBS}/{name}", {"propagationPolicy": policy}), 200, 404)


def evict(lab: Lab, name: str, index: int) -> None:
    expect(lab.call("POST", f"{PODS}/{name}-w-{index}/eviction", {}), 201, 404)


def cordon(lab: Lab, number: int, there: bool) -> None:
    lab.merge(f"{NODES}/volc-n{number:03d}", {"spec": {"unschedulable": there}})


DEEDS: dict[str, Callable[..., Any]] = {
    "make": make,
    "wait": lambda lab, ms: lab.cluster.advance_ms(ms),
    "command": lambda lab, name, action: lab.command(action, name),
    "delete": delete,
    "evict": evict,
    "cordon": cordon,
    "silent": lambda lab, number: lab.control("nodes/silent", nodes=f"volc-n{number:03d}"),
    "speak": lambda lab, number: lab.control("nodes/speak", nodes=f"volc-n{number:03d}"),
    "restart": lambda lab: lab.control("api/restart"),
}


def do(lab: Lab, step: tuple[Any, ...]) -> None:
    DEEDS[step[0]](lab, *step[1:])


def expect(answer: httpx.Response, *codes: int) -> None:
    assert answer.status_code in codes, answer.text


def check(lab: Lab) -> None:
    """No node holds more than it has, and no pod that waits for a node runs."""
    used: dict[str, int] = {}
    for pod in lab.get(PODS)["items"]:
        phase, node = pod["status"]["phase"], pod["spec"].get("nodeName")
        assert node or phase in {"Pending", "Failed"}
        if node and phase not in {"Succeeded", "Failed"}:
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            used[node] = used.get(node, 0) + int(limits["nvidia.com/gpu"])
    assert all(gpus <= 8 for gpus in used.values())


class Mirror:
    """A client that lists once and then follows, and lists again when its version is too old."""

    def __init__(self, lab: Lab, path: str) -> None:
        self.lab, self.path = lab, path
        self.relist()

    def relist(self) -> None:
        self.version = self.lab.get(f"{self.path}?limit=1")["metadata"]["resourceVersion"]
        self.things = self.listed(f"&resourceVersion={self.version}")

    def listed(self, version: str) -> dict[str, Any]:
        page = self.lab.get(f"{self.path}?resourceVersionMatch=Exact{version}")
        return {item["metadata"]["name"]: strip(item) for item in page["items"]}

    def follow(self) -> None:
        query = f"watch=1&resourceVersion={self.version}&timeoutSeconds=1&allowWatchBookmarks=1"
        answer = self.lab.client.get(f"{self.path}?{query}")
        for line in answer.text.splitlines():
            told = json.loads(line)
            if told["type"] == "ERROR":
                self.relist()
                return
            meta = told["object"]["metadata"]
            self.version = meta["resourceVersion"]
            if told["type"] == "DELETED":
                del self.things[meta["name"]]
            elif told["type"] != "BOOKMARK":
                self.things[meta["name"]] = strip(told["object"])


def strip(thing: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in thing.items() if k not in {"kind", "apiVersion"}}


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_nothing_breaks(steps: list[tuple[Any, ...]]) -> None:
    lab = Lab(lab_cluster(nodes=8))
    mirrors = [Mirror(lab, JOBS), Mirror(lab, PODS)]
    for step in steps:
        do(lab, step)
        check(lab)
    for mirror in mirrors:
        mirror.follow()
        assert mirror.things == mirror.listed(f"&resourceVersion={mirror.version}")


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_the_same_calls_make_the_same_history(steps: list[tuple[Any, ...]]) -> None:
    labs = [Lab(lab_cluster(nodes=8)) for _ in range(2)]
    for step in steps:
        for lab in labs:
            do(lab, step)
    one, other = ([lab.get(path) for path in (JOBS, PODS, NODES)] for lab in labs)
    assert one == other


@settings(max_examples=40, deadline=None)
@given(st.lists(JOBS_MADE, max_size=8), st.integers(0, 40))
def test_gangs_start_whole(made: list[tuple[Any, ...]], waits: int) -> None:
    lab = Lab(lab_cluster(nodes=8))
    for step in made:
        do(lab, (*step[:4], [], *step[5:]))
    for _ in range(waits):
        lab.wait(0.25)
        for job in lab.get(JOBS)["items"]:
            pods = lab.pods(job["metadata"]["name"])
            bound = [pod for pod in pods if pod["spec"].get("nodeName")]
            assert len(bound) in {0, job["spec"]["minAvailable"]}

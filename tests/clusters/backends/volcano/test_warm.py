"""A cluster that is followed by watches, and whatever may happen to them."""

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.translate import KEPT_S
from clusters.backends.volcano.warm import forget
from clusters.core.backend import BackendError, Connection
from clusters.core.container import Container
from clusters.core.observation import GangSeen, GangState, NodeState, Observation
from simulator.inprocess import InProcess
from tests.clusters.backends.volcano.test_simulated import gang
from tests.simulator.volcano.harness import JOBS, NODES, PODS, Lab

FENCE = "mst-x-a1"
Lines = list[bytes]


def gone(lines: Lines) -> Lines:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return [json.dumps({"type": "ERROR", "object": status}).encode()]


MANGLED: dict[str, Callable[[Lines], Lines]] = {
    "twice": lambda lines: [one for line in lines for one in (line, line)],
    "backwards": lambda lines: lines[::-1],
    "the first again": lambda lines: lines + lines[:1],
    "no JSON": lambda lines: [*lines, b"<html>502</html>"],
    "half a line": lambda lines: [*lines[:-1], *(line[: len(line) // 2] for line in lines[-1:])],
    "a list": lambda lines: [*lines, b"[1, 2]"],
    "unknown": lambda lines: [*lines, b'{"type": "RENAMED", "object": {}}'],
    "410": gone,
    "nothing": lambda lines: [],
}


class Watched(httpx.BaseTransport):
    """Counts lists and watches, and mangles what watches tell, each `mangle` once a watch."""

    def __init__(self, inner: InProcess) -> None:
        self.inner = inner
        self.lists: list[str] = []
        self.mangle: Callable[[Lines], Lines] | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.inner.handle_request(request)
        query = request.url.params
        if request.method != "GET" or query.get("limit") == "1":
            return answer
        if "watch" not in query:
            self.lists.append(request.url.path.rpartition("/")[2])
        elif self.mangle is not None and answer.status_code == 200:
            lines = [line for line in answer.read().split(b"\n") if line]
            return httpx.Response(200, content=b"\n".join(self.mangle(lines)) + b"\n")
        return answer


class Site:
    def __init__(self) -> None:
        self.lab = Lab()
        self.wire = Watched(InProcess(self.lab.cluster))
        self.now_ms = 0
        self.nodes = tuple(one.name for one in self.observe().nodes)

    def backend(self, **options: str) -> VolcanoBackend:
        given = {"namespaces": "team, other", "relist_s": "600", **options}
        connection = Connection("volc", "http://lab", b"root-token", "", given)
        return VolcanoBackend(KubernetesClient(connection, transport=self.wire))

    def observe(self, **options: str) -> Observation:
        self.now_ms += 5_000
        self.wire.lists.clear()
        return self.backend(**options).observe(self.now_ms, [])

    def job(self, seconds: float = 0) -> GangSeen:
        self.lab.wait(seconds)
        (seen,) = self.observe().gangs
        return seen


@pytest.fixture
def site() -> Iterator[Site]:
    forget()
    yield Site()
    forget()


def test_after_the_first_lists_only_what_changed_is_read(site: Site) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    assert site.job(6).state is GangState.RUNNING
    assert site.wire.lists == []
    site.backend().drain([site.nodes[5]], "fans")
    (shut,) = [one for one in site.observe().nodes if one.state is NodeState.DRAINING]
    assert shut.name == site.nodes[5]
    site.lab.client.delete(f"{NODES}/{site.nodes[7]}")
    seen = site.observe()
    assert site.nodes[7] not in {one.name for one in seen.nodes}
    assert {queue.nodes for queue in seen.queues} == {15}
    site.lab.client.delete(f"{JOBS}/{FENCE}")
    site.lab.wait(60)
    assert site.observe().gangs == ()
    assert site.wire.lists == []


def test_a_list_once_in_a_while_and_none_is_trusted_for_longer(site: Site) -> None:
    site.now_ms += 590_000
    site.observe()
    assert site.wire.lists == []
    site.now_ms += 10_000
    site.observe()
    assert len(site.wire.lists) == 8
    site.now_ms -= 100_000  # the clock was set back
    site.observe()
    assert len(site.wire.lists) == 8
    site.observe(relist_s="0")
    site.observe(relist_s="0")
    assert len(site.wire.lists) == 8


def test_other_settings_are_another_reading(site: Site) -> None:
    site.observe(tolerate="fans")
    assert len(site.wire.lists) == 8


def test_an_api_server_that_starts_again_is_listed_again(site: Site) -> None:
    site.lab.control("api/restart")
    site.backend().submit(gang(*site.nodes[:2]))
    assert site.job(6).state is GangState.RUNNING
    assert "jobs" in site.wire.lists
    site.observe()
    assert site.wire.lists == []


def test_a_server_that_went_back_in_time_is_listed_again(site: Site) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    assert site.job(6).state is GangState.RUNNING
    site.lab.control("reset")
    assert site.observe().gangs == ()


@pytest.mark.parametrize("how", MANGLED)
def test_whatever_a_watch_tells_the_state_is_the_lists(site: Site, how: str) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    site.lab.wait(6)
    site.wire.mangle = MANGLED[how]
    site.observe()
    site.wire.mangle = None
    assert site.job().state is GangState.RUNNING
    assert [run.end_ms for run in site.job().runs] == [None]


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "truncate", "bad_gateway"])
def test_a_watch_that_is_lost_is_a_list(site: Site, kind: str) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    site.lab.wait(6)
    site.lab.control("faults/add", kind=kind, method="GET", path="/jobs", times=1)
    assert site.job().state is GangState.RUNNING
    assert "jobs" in site.wire.lists
    assert "pods" not in site.wire.lists  # they were looked at once more


def test_a_right_to_watch_that_is_missing_costs_lists_only(site: Site) -> None:
    gone = {"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403}
    site.lab.control(
        "faults/add", kind="reply_before", method="GET", path="/pods", status=403,
        text=json.dumps(gone), times=1,
    )  # fmt: skip
    site.observe()
    assert site.wire.lists == ["pods"]


def test_a_server_that_is_away_is_told_and_nothing_is_forgotten(site: Site) -> None:
    site.lab.control("wire/refuse", ms=1_000)
    with pytest.raises(BackendError):
        site.observe()
    site.lab.wait(2)
    assert len(site.observe().nodes) == 16
    assert site.wire.lists == []


def test_a_pod_that_is_killed_between_two_looks_is_told_by_its_end(site: Site) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    before = site.job(6)
    site.lab.client.request(
        "DELETE", f"{PODS}/{FENCE}-r0-0", content=json.dumps({"gracePeriodSeconds": 0})
    )
    after = site.job(300)
    assert after.state.is_final
    assert [(run.start_ms, run.gpus) for run in after.runs] == [(before.started_ms, 16)]


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_job_that_goes_before_its_end_was_read_is_there_no_more(
    site: Site, by_hand: bool
) -> None:
    """By hand, or by Volcano a week after it succeeded or failed; its node is free."""
    brief = Container("train:1", ("sh", "-c", "sleep 20"))
    site.backend().submit(replace(gang(site.nodes[0]), container=brief))
    assert site.job(6).state is GangState.RUNNING
    if by_hand:
        site.lab.client.delete(f"{JOBS}/{FENCE}")
        site.lab.wait(400)
    else:
        site.lab.wait(KEPT_S - 60)
        assert FENCE in {job["metadata"]["name"] for job in site.lab.get(JOBS)["items"]}
        site.lab.wait(400)
    seen = site.observe()
    assert (seen.gangs, seen.namesakes, seen.foreign.gpus) == ((), (), {})
    assert site.lab.get(PODS)["items"] == []


def test_a_job_of_the_same_name_has_pods_of_its_own(site: Site) -> None:
    site.backend().submit(gang(*site.nodes[:2]))
    first = site.job(6)
    site.lab.client.delete(f"{JOBS}/{FENCE}")
    site.backend().submit(gang(*site.nodes[2:4]))
    second = site.job(6)  # those of the first one leave
    assert first.backend_id != second.backend_id
    assert (second.state, second.nodes, second.runs) == (GangState.PENDING, (), ())


def same(seen: Observation) -> Observation:
    return replace(seen, begun_ms=0, cluster_ms=0)


def bare(name: str, gpus: int) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": str(gpus), "cpu": "1500m", "memory": "1G"}
    spec = {
        "containers": [
            {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
        ]
    }
    return {"metadata": {"name": name}, "spec": {**spec, "schedulerName": "volcano"}}


DEEDS = st.one_of(
    st.tuples(st.just("submit"), st.integers(0, 5)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("delete job"), st.integers(0, 5)),
    st.tuples(st.just("delete pod"), st.integers(0, 40)),
    st.tuples(st.just("pod"), st.integers(0, 5)),
    st.tuples(st.just("cordon"), st.integers(0, 15)),
    st.tuples(st.just("delete node"), st.integers(0, 15)),
    st.tuples(st.just("wait"), st.integers(1, 30)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("look"), st.sampled_from([None, *MANGLED])),
    st.tuples(st.just("lose"), st.sampled_from(["drop_after", "truncate", "half_json"])),
)  # fmt: skip


def submit(site: Site, which: int) -> None:
    nodes = (site.nodes[which], site.nodes[which + 6])
    with suppress(BackendError):  # its namesake is just leaving
        site.backend().submit(gang(*nodes, name=f"mst-x{which}-a1", gpus=4))


def kill_pod(site: Site, which: int) -> None:
    pods = site.lab.get(PODS)["items"]
    if pods:
        site.lab.client.delete(f"{PODS}/{pods[which % len(pods)]['metadata']['name']}")


def cordon(site: Site, which: int) -> None:
    site.lab.merge(f"{NODES}/{site.nodes[which]}", {"spec": {"unschedulable": True}})


DO: dict[str, Callable[[Site, Any], object]] = {
    "submit": submit,
    "cancel": lambda site, which: site.backend().cancel(f"mst-x{which}-a1", "team"),
    "delete job": lambda site, which: site.lab.client.delete(f"{JOBS}/mst-x{which}-a1"),
    "delete pod": kill_pod,
    "pod": lambda site, which: site.lab.client.post(PODS, json=bare(f"bare-{which}", which % 3)),
    "cordon": cordon,
    "delete node": lambda site, which: site.lab.client.delete(f"{NODES}/{site.nodes[which]}"),
    "wait": lambda site, which: site.lab.wait(which),
    "restart": lambda site, _: site.lab.control("api/restart"),
    "look": lambda site, which: look(site, "look", which),
    "lose": lambda site, which: look(site, "lose", which),
}


def look(site: Site, what: str, which: Any) -> None:
    """Observe, with a fault."""
    if what == "lose":
        site.lab.control("faults/add", kind=which, method="GET", path="/(jobs|pods|nodes)", times=2)
    site.wire.mangle = MANGLED[which] if what == "look" and which else None
    with suppress(BackendError) if what == "lose" else nullcontext():
        site.observe()
    site.wire.mangle = None
    site.lab.control("faults/clear")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(DEEDS, max_size=25))
def test_whatever_happened_a_list_says_the_same(deeds: list[tuple[str, Any]]) -> None:
    forget()
    site = Site()
    for what, which in deeds:
        DO[what](site, which)
    site.lab.wait(400)
    site.observe()
    warm = site.observe()
    assert site.wire.lists == []
    site.now_ms += 600_000
    listed = site.observe()
    assert len(site.wire.lists) == 8
    assert same(warm) == same(listed)
    forget()  # another process: it knows all but pods that were killed
    new = site.observe()
    assert same(replace(warm, gangs=())) == same(replace(new, gangs=()))
    assert [(one.fence, one.backend_id) for one in warm.gangs] == [
        (one.fence, one.backend_id) for one in new.gangs
    ]

"""Gangs that lost a node: told as broken, cancelled, and freed only of what is known dead."""

from dataclasses import replace
from email.utils import formatdate
from itertools import count
from typing import Any

import httpx
import pytest

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.dead import DEAD_MS, is_dead
from clusters.core.backend import Connection
from clusters.core.observation import GangSeen, GangState
from simulator.config import Cluster
from simulator.inprocess import InProcess
from simulator.volcano.cluster import VolcanoCluster
from tests.clusters.backends.volcano.test_backend import FENCE
from tests.clusters.backends.volcano.test_backend import Site as Bare
from tests.clusters.backends.volcano.test_simulated import gang
from tests.simulator.volcano.harness import NODES, PODS

_NUMBERS = count()
NOW_MS = 1_800_000_000_000


class Dated(httpx.BaseTransport):
    """The simulated cluster, which tells its clock as a server does; `said`: answers of others' by path."""

    def __init__(self, cluster: VolcanoCluster, said: dict[str, tuple[int, str]]) -> None:
        self.cluster, self.inner, self.said = cluster, InProcess(cluster), said

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        for path, (code, text) in self.said.items():
            if path in request.url.path:
                return httpx.Response(code, text=text)
        answer = self.inner.handle_request(request)
        answer.headers["date"] = formatdate(self.cluster.now_ms() / 1000, usegmt=True)
        return answer


class Site(Bare):
    """A place whose API server says what time it is; a new cluster each, of which nothing is known."""

    def __init__(self, config: Cluster | None = None) -> None:
        self.name = f"volc-{next(_NUMBERS)}"
        self.said: dict[str, tuple[int, str]] = {}
        super().__init__(config)

    def connection(self, token: bytes = b"root-token", **options: str) -> Connection:
        options = {"namespaces": "team, other", **options}
        return Connection(self.name, "http://lab", token, "", options)

    def backend(self, token: bytes = b"root-token", **options: str) -> VolcanoBackend:
        connection = self.connection(token, **options)
        client = KubernetesClient(connection, transport=Dated(self.lab.cluster, self.said))
        return VolcanoBackend(client)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def running(site: Site) -> Site:
    """A gang that runs on the first two nodes; its pods have five seconds to end."""
    site.backend().submit(replace(gang(*site.nodes[:2]), grace_s=5))
    assert site.state(6) is GangState.RUNNING
    return site


def seen(site: Site, seconds: float = 0) -> GangSeen:
    site.lab.wait(seconds)
    (found,) = site.backend().observe(0, [FENCE]).gangs
    return found


def pods(site: Site) -> list[str]:
    return [pod["metadata"]["name"] for pod in site.lab.get(PODS)["items"]]


def node(status: str, since: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": since}
    return {"metadata": {"name": "n"}, "status": {"conditions": [ready]}}


LONG_AGO, JUST_NOW = "2027-01-15T07:54:59Z", "2027-01-15T07:55:01Z"


@pytest.mark.parametrize(
    ("found", "dead"),
    [
        (None, True),
        (node("Unknown", LONG_AGO), True),
        (node("Unknown", JUST_NOW), False),
        (node("False", LONG_AGO), False),  # it says itself that it is not ready: it answers
        (node("True", LONG_AGO), False),
        (node("Unknown", ""), False),
        ({"metadata": {"name": "n"}, "status": {}}, False),
    ],
)
def test_when_a_node_is_known_dead(found: Any, *, dead: bool) -> None:
    assert is_dead(found, NOW_MS) is dead
    assert DEAD_MS == 300_000


def test_a_cancel_waits_for_nodes_that_answer(running: Site) -> None:
    running.lab.control("nodes/silent", nodes=running.nodes[0])
    running.backend().cancel(FENCE, "team")
    assert seen(running, 40).state is GangState.ENDING
    running.backend().cancel(FENCE, "team")
    assert pods(running) == [f"{FENCE}-r0-0"]  # not heard of for less than a minute: not dead
    running.lab.control("nodes/speak", nodes=running.nodes[0])
    running.backend().cancel(FENCE, "team")
    assert seen(running, 130).state is GangState.CANCELLED  # it ended its pod by itself


def test_a_pod_of_a_dead_node_is_taken_away_by_a_cancel_that_is_asked_again(running: Site) -> None:
    running.lab.control("nodes/silent", nodes=running.nodes[0])
    running.backend().cancel(FENCE, "team")
    stuck = seen(running, 200)
    assert (stuck.state, stuck.broken) == (GangState.ENDING, GangState.NODE_FAILED)
    running.lab.wait(DEAD_MS / 1000)
    assert seen(running).state is GangState.ENDING  # nobody there ends it
    running.backend().cancel(FENCE, "team")
    assert pods(running) == []
    ended = seen(running, 2)
    assert (ended.state, ended.runs[0].end_ms is not None) == (GangState.CANCELLED, True)


def test_a_silent_node_breaks_the_gang_though_its_job_says_running(running: Site) -> None:
    """volcano-observed 9: the job is `Running` for ever, no policy fires."""
    running.lab.control("nodes/silent", nodes=running.nodes[1])
    assert (seen(running, 60).broken, running.lab.phase(FENCE)) == (None, "Running")
    lost = seen(running, 300)
    assert (lost.state, lost.broken) == (GangState.RUNNING, GangState.NODE_FAILED)
    running.backend().cancel(FENCE, "team")
    for _ in range(2):
        running.lab.wait(60)
        running.backend().cancel(FENCE, "team")
    assert seen(running, 2).state is GangState.NODE_FAILED


def test_a_node_that_was_removed(running: Site) -> None:
    running.lab.client.delete(f"{NODES}/{running.nodes[0]}")
    running.backend().cancel(FENCE, "team")
    for _ in range(4):
        running.lab.wait(60)
        running.backend().cancel(FENCE, "team")
    assert seen(running).state in (GangState.NODE_FAILED, GangState.CANCELLED)
    assert pods(running) == []


def test_nothing_is_taken_away_that_nobody_cancelled(running: Site) -> None:
    running.lab.control("nodes/silent", nodes=running.nodes[0])
    running.lab.wait(DEAD_MS / 1000 + 400)
    assert f"{FENCE}-r0-0" in pods(running)


def test_a_gang_that_waits_for_an_image_says_where_and_why(site: Site) -> None:
    """Muster's own start timer takes it back: the job is `Pending` for ever (volcano-observed 3)."""
    made = gang(*site.nodes[:2])
    site.lab.control("scheduling/pause")
    site.backend().submit(made)
    site.lab.control("scheduling/resume")
    site.lab.wait(1)
    job = site.lab.job(FENCE)
    assert job["status"]["state"]["phase"] == "Pending"
    site.lab.wait(0.2)
    note = {"metadata": {"annotations": {"muster-sim/image": "missing"}}}
    for name in pods(site)[:1]:
        site.lab.merge(f"{PODS}/{name}", note)
    waits = seen(site, 6)
    assert waits.state is GangState.STARTING
    assert waits.reason.startswith("image_unavailable: 1 of 2 pods run")
    assert f"{FENCE}-r0-0 on {site.nodes[0]}: ImagePullBackOff" in waits.reason
    site.backend().cancel(FENCE, "team")
    assert seen(site, 200).state is GangState.CANCELLED

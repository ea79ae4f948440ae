"""Our objects on the simulated Volcano, and its objects in our words: both halves against each other."""

from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.volcano.translate import vcjob
from clusters.core.container import Container
from clusters.core.gang import Gang
from clusters.core.observation import GangSeen, GangState, NodeState, Observation
from clusters.core.resources import GangShape, NodeShape
from tests.clusters.backends.volcano.listed import Lists, fresh, observation
from tests.clusters.backends.volcano.test_translate import GANG
from tests.simulator.volcano.harness import COMMANDS, GROUPS, JOBS, NODES, PODS, QUEUES, Lab

HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


def gang(*nodes: str, name: str = "mst-x-a1", gpus: int = 8) -> Gang:
    return replace(
        GANG,
        fence=name,
        account="team",
        queue="team-g",
        service_class="high",
        shape=GangShape(len(nodes), NodeShape(gpus, 8, 65_536), exclusive=False),
        device="nvidia.com/gpu:h100",
        nodes=nodes,
        container=Container("train:1", ("torchrun",), ("train.py",), shm_mib=1024),
    )


class Site:
    """The laboratory of the recordings, and what we read of it."""

    def __init__(self) -> None:
        self.lab, self.pods = Lab(), fresh()

    def submit(self, one: Gang, **annotations: str) -> dict[str, Any]:
        job = vcjob(one, {}, "volc")
        for task in job["spec"]["tasks"]:
            task["template"]["metadata"]["annotations"] |= annotations
        dry = self.lab.client.post(f"{JOBS}?dryRun=All", json=job)
        assert dry.status_code == 201, dry.text
        answer = self.lab.client.post(JOBS, json=job)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def abort(self, made: dict[str, Any]) -> None:
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "controller": True}
        target |= {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
        body = {"metadata": {"generateName": "mst-abort-"}, "action": "AbortJob", "target": target}
        answer = self.lab.client.post(COMMANDS, json=body)
        assert answer.status_code == 201, answer.text

    def look(self) -> Observation:
        paths = (NODES, HYPERNODES, QUEUES, JOBS, GROUPS, PODS)
        found = [self.lab.client.get(path).json()["items"] for path in paths]
        now_ms = self.lab.cluster.now_ms()
        return observation(Lists(*found), self.pods, begun_ms=0, cluster_ms=now_ms)

    def seen(self, seconds: float = 0) -> GangSeen:
        self.lab.cluster.advance_ms(round(seconds * 1000))
        (one,) = self.look().gangs
        return one


@pytest.fixture
def site() -> Site:
    return Site()


def test_the_fleet(site: Site) -> None:
    seen = site.look()
    assert {one.state for one in seen.nodes} == {NodeState.UP}
    assert {(one.device, one.gpus) for one in seen.nodes} == {("nvidia.com/gpu:h100", 8)}
    paths = [one.path for one in sorted(seen.nodes, key=lambda one: one.name)]
    assert [dict(path)["leaf"] for path in paths] == [f"leaf{n // 4:03d}" for n in range(16)]
    assert {"team-g", "team-s", "small"} <= {one.name for one in seen.queues if one.is_open}


def test_a_gang_lands_exactly_where_it_was_bound_runs_and_succeeds(site: Site) -> None:
    nodes = tuple(sorted(one.name for one in site.look().nodes))
    chosen = (nodes[9], nodes[2], nodes[5])
    made = site.submit(gang(*chosen), **{"muster-sim/run-for": "20s"})
    first = site.seen()
    assert (first.state, first.backend_id) == (GangState.PENDING, made["metadata"]["uid"])
    running = site.seen(8)
    assert (running.state, running.reason) == (GangState.RUNNING, "")
    assert running.nodes == running.pinned == chosen
    assert running.gpus == 24
    assert not site.look().foreign.gpus
    done = site.seen(30)
    assert (done.state, done.exit_code) == (GangState.SUCCEEDED, 0)
    (run,) = done.runs
    assert run.end_ms is not None
    assert 20_000 <= run.end_ms - run.start_ms <= 22_000
    assert (run.gpus, run.nodes) == (24, chosen)


def test_one_rank_fails_and_all_leave(site: Site) -> None:
    nodes = tuple(sorted(one.name for one in site.look().nodes))[:4]
    site.submit(gang(*nodes), **{"muster-sim/run-for": "10s", "muster-sim/exit-code": "3"})
    assert site.seen(6).state is GangState.RUNNING
    failed = site.seen(200)
    assert (failed.state, failed.exit_code) == (GangState.FAILED, 3)
    assert "exit code 3" in failed.reason


def test_an_aborted_gang_is_billed_until_its_last_pod_is_gone(site: Site) -> None:
    nodes = tuple(sorted(one.name for one in site.look().nodes))[:2]
    made = site.submit(gang(*nodes))
    started = site.seen(6)
    assert started.state is GangState.RUNNING
    site.abort(made)
    leaving = site.seen(1)
    assert leaving.state is GangState.ENDING
    assert [run.end_ms for run in leaving.runs] == [None]
    for _ in range(60):
        ended = site.seen(3)
        if ended.state.is_final:
            break
    assert ended.state is GangState.CANCELLED
    (run,) = ended.runs
    assert run.end_ms is not None
    assert run.end_ms - run.start_ms > 5_000
    assert site.seen(60).runs == ended.runs  # looking again later changes nothing


def test_what_waits_for_nodes_says_so_and_foreign_pods_are_seen(site: Site) -> None:
    nodes = tuple(sorted(one.name for one in site.look().nodes))[:2]
    site.submit(gang(*nodes, name="mst-first-a1"))
    site.lab.cluster.advance_ms(6_000)
    site.submit(gang(*nodes, name="mst-second-a1"))
    site.lab.cluster.advance_ms(6_000)
    states = {one.fence: one for one in site.look().gangs}
    assert states["mst-first-a1"].state is GangState.RUNNING
    second = states["mst-second-a1"]
    assert second.state is GangState.PENDING
    assert "unschedulable" in second.reason
    assert (second.runs, second.nodes) == ((), ())


def test_a_second_object_of_the_name_is_refused_and_the_first_is_ours(site: Site) -> None:
    nodes = tuple(sorted(one.name for one in site.look().nodes))[:1]
    made = site.submit(gang(*nodes))
    again = site.lab.client.post(JOBS, json=vcjob(gang(*nodes), {}, "volc"))
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    found = site.lab.client.get(f"{JOBS}/mst-x-a1").json()
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["labels"]["muster/fence"] == "mst-x-a1"

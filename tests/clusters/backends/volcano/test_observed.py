"""The sixteen things that a broker must not rely on (volcano-observed 0), a test each.

Each makes the simulated Volcano behave as was observed, and fails if the backend believed it.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.volcano.attempt import attempt_seen
from clusters.backends.volcano.translate import vcjob
from clusters.core.observation import GangSeen, GangState
from tests.clusters.backends.volcano.test_attempt import gone, job, pod_seen, pods
from tests.clusters.backends.volcano.test_attempt import pod as raw_pod
from tests.clusters.backends.volcano.test_backend import FENCE
from tests.clusters.backends.volcano.test_dead import Site
from tests.clusters.backends.volcano.test_simulated import gang
from tests.simulator.volcano.harness import GROUPS, JOBS, PODS, QUEUES


@pytest.fixture
def site() -> Site:
    return Site()


def begin(site: Site, nodes: int = 2, name: str = FENCE) -> None:
    site.backend().submit(replace(gang(*site.nodes[:nodes], name=name), grace_s=5))


def seen(site: Site, seconds: float = 0, name: str = FENCE) -> GangSeen:
    site.lab.wait(seconds)
    return {one.fence: one for one in site.backend().observe(0, []).gangs}[name]


def ended(site: Site) -> GangSeen:
    for _ in range(60):
        if (found := seen(site, 3)).state.is_final:
            return found
    raise AssertionError(f"it never ends: {found}")


def made(site: Site) -> dict[str, Any]:
    return vcjob(gang(*site.nodes[:2]), {}, "volc")


def test_01_no_policy_with_a_timeout_ends_a_stuck_gang(site: Site) -> None:
    """The start timer is Muster's own: the gang says that it starts, and a Command ends it."""
    policies = made(site)["spec"]["policies"]
    assert all("timeout" not in one and one["event"] != "PodPending" for one in policies)
    stuck = attempt_seen(
        job("Pending"),
        None,
        [
            *pods("Running", "Running", "Running"),
            pod_seen(raw_pod(3, "Pending", waiting="ErrImagePull")),
        ],
    )
    assert stuck.state is GangState.STARTING  # not PENDING: it holds GPUs, and the timer runs


def test_02_a_failure_that_no_policy_saw_is_told(site: Site) -> None:
    failed = pod_seen(raw_pod(0, "Failed", code=3))
    found = attempt_seen(job("Running"), None, [failed, *pods("Running", "Running", "Running")])
    assert (found.state, found.broken) == (GangState.RUNNING, GangState.FAILED)


def test_03_a_dead_node_is_told_though_its_policy_never_fires(site: Site) -> None:
    begin(site)
    assert seen(site, 6).state is GangState.RUNNING
    site.lab.control("nodes/silent", nodes=site.nodes[0])
    found = seen(site, 400)
    assert (site.lab.phase(FENCE), found.broken) == ("Running", GangState.NODE_FAILED)


def test_04_how_many_pods_succeeded_is_counted_not_read(site: Site) -> None:
    done = job("Completed", 10)
    assert {"succeeded", "failed"}.isdisjoint(done["status"])
    found = attempt_seen(done, None, pods(*["Succeeded"] * 4, code=0))
    assert (found.state, found.exit_code) == (GangState.SUCCEEDED, 0)


def test_05_completed_is_no_success_where_pods_were_killed(site: Site) -> None:
    begin(site)
    assert seen(site, 6).state is GangState.RUNNING
    site.lab.command("CompleteJob", FENCE)
    found = ended(site)
    assert (site.lab.phase(FENCE), found.state) == ("Completed", GangState.CANCELLED)
    assert found.exit_code is None


def test_06_terminated_is_not_always_somebodys_wish() -> None:
    given_up = attempt_seen(job("Terminated", 165), None, [])
    assert given_up.state is GangState.FAILED


def test_07_a_command_never_hits_a_later_attempt(site: Site) -> None:
    """Its uid is not compared, but the names of attempts differ, and the job is looked at before."""
    begin(site, 1, "mst-y-a1")
    site.backend().cancel("mst-y-a1", "team")
    begin(site, 1, "mst-y-a2")
    site.backend().cancel("mst-y-a1", "team")
    site.lab.wait(30)
    assert seen(site, 0, "mst-y-a1").state is GangState.CANCELLED
    assert not seen(site, 0, "mst-y-a2").state.is_final


def test_08_a_name_is_made_once(site: Site) -> None:
    first = site.backend().submit(gang(*site.nodes[:1]))
    site.lab.client.delete(f"{JOBS}/{FENCE}")
    site.lab.wait(60)
    assert site.backend().submit(gang(*site.nodes[:1]), known_as=first.backend_id) == first
    assert site.jobs() == []


def test_09_what_a_queue_says_of_its_load_is_not_read(site: Site) -> None:
    begin(site)
    before = site.backend().observe(0, []).foreign
    lies = {"allocated": {"nvidia.com/gpu": "999"}, "running": 77, "pending": 5, "inqueue": 3}
    queue = site.lab.get(f"{QUEUES}/team-g")
    site.said[QUEUES] = (200, json.dumps({
        "kind": "QueueList", "metadata": {"resourceVersion": "1"},
        "items": [{**queue, "status": {**queue["status"], **lies}}],
    }))  # fmt: skip
    after = site.backend().observe(0, [])
    assert after.foreign == before
    assert [(one.name, one.is_open) for one in after.queues] == [("team-g", True)]


def test_10_a_gang_is_pinned_so_that_an_overfull_queue_costs_nobody_else(site: Site) -> None:
    """While pods of an aborted gang end, the queue is filled again: the nodes decide, not the limit."""
    for number, first in enumerate((0, 2)):
        one = gang(*site.nodes[first : first + 2], name=f"mst-q{number}-a1")
        site.backend().submit(replace(one, queue="small", grace_s=30))
        site.lab.wait(6)
        site.backend().cancel(f"mst-q{number}-a1", "team")
    places = [pod["spec"].get("nodeName") for pod in site.lab.get(PODS)["items"]]
    assert len(set(places)) == len(places)
    both = site.backend().observe(0, []).gangs
    assert all(one.state is GangState.ENDING or one.state.is_final for one in both)


def test_11_no_capacity_is_read_from_a_guarantee(site: Site) -> None:
    before = site.backend().observe(0, [])
    queue = site.lab.get(f"{QUEUES}/team-g")
    queue["spec"]["guarantee"] = {"resource": {"nvidia.com/gpu": "128"}}
    site.said[QUEUES] = (200, json.dumps({
        "kind": "QueueList", "metadata": {"resourceVersion": "1"}, "items": [queue],
    }))  # fmt: skip
    after = site.backend().observe(0, [])
    assert (after.foreign, [one.gpus for one in after.nodes]) == (
        before.foreign, [one.gpus for one in before.nodes],
    )  # fmt: skip
    (told,) = after.queues
    assert told == next(one for one in before.queues if one.name == "team-g")


def test_12_a_gang_that_the_member_broke_is_preempted_whole(site: Site) -> None:
    evicted = gone(0, 7, disrupted="PreemptionByScheduler")
    found = attempt_seen(job("Aborted", 9), None, [evicted, *(gone(n, 9) for n in (1, 2, 3))])
    assert found.state is GangState.PREEMPTED
    spec = made(site)["spec"]
    assert {"event": "PodEvicted", "action": "AbortJob"} in spec["policies"]
    assert all(task["minAvailable"] == task["replicas"] for task in spec["tasks"])


def test_13_an_old_condition_is_no_present_state(site: Site) -> None:
    begin(site)
    assert seen(site, 6).state is GangState.RUNNING
    (group,) = site.lab.get(GROUPS)["items"]
    stale = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}
    group["status"]["conditions"] = [stale]
    found = attempt_seen(job("Running"), group, pods(*["Running"] * 4))
    assert (found.state, found.reason) == (GangState.RUNNING, "")


def test_14_events_are_not_read(site: Site) -> None:
    """Every healthy start makes two Warnings: none of them is asked for."""
    begin(site)
    site.said["/events"] = (500, "who asks?")
    assert seen(site, 6).state is GangState.RUNNING
    assert site.lab.events("Unschedulable") or site.lab.events("FailedScheduling")


def test_15_no_tier_is_asked_for_and_a_class_that_is_not_there_is_found_before(site: Site) -> None:
    assert "networkTopology" not in made(site)["spec"]  # pinned by host name instead
    report = site.backend(**{"qos.spot": "high", "qos.guaranteed": "nope"}).probe(0)
    (told,) = [one for one in report.findings if one.capability == "classes"]
    assert (told.is_on, told.detail) == (False, "no such priority class: nope")
    report = site.backend(**{"qos.spot": "high"}).probe(0)
    assert report.capabilities["classes"]


def test_16_no_version_outlives_a_restart_of_the_api_server(site: Site) -> None:
    backend = site.backend(relist_s="600")
    begin(site)
    backend.observe(0, [])
    site.lab.control("api/restart")
    site.lab.wait(6)
    (found,) = backend.observe(0, []).gangs
    assert found.state is GangState.RUNNING

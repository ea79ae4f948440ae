"""Gangs from create to end, beside the recordings 01, 02, 03, 08 and 19."""

import re
from typing import Any

import pytest

from tests.simulator.volcano.harness import (
    ABORT,
    EVENTS,
    JOBS,
    PODS,
    Lab,
    gang,
    lab_cluster,
    recording,
    task,
)


@pytest.fixture
def lab() -> Lab:
    return Lab()


# One kill more or less, one second more or less.
LOOSE = ("version", "runningDuration")


def recorded_gang() -> dict[str, Any]:
    """The job of recording 01, steered as our kubelets are."""
    told = recording("01-gang-succeeds")["objects"]["job as the create call answers it"]
    spec = told["spec"]
    master, worker = spec["tasks"]
    master["template"]["metadata"]["annotations"] = {"muster-sim/run-for": "8s"}
    worker["template"] = master["template"]
    meta = {key: told["metadata"][key] for key in ("name", "annotations", "labels")}
    return {**told, "metadata": meta}


def without(thing: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in thing.items() if key not in names}


def shape(thing: Any) -> Any:
    """What two runs have in common: no times, versions or uids."""
    if isinstance(thing, dict):
        loose = {"lastTransitionTime", "creationTimestamp", "resourceVersion", "transitionID"}
        loose |= {"generation", "startedAt", "startTime", "uid", "lastProbeTime"}
        return {k: shape(v) for k, v in thing.items() if k not in loose}
    if isinstance(thing, list):
        return [shape(value) for value in thing]
    return (
        re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>", thing)
        if isinstance(thing, str)
        else thing
    )


def test_a_gang_lives_as_recorded(lab: Lab) -> None:
    told = recording("01-gang-succeeds")["objects"]
    made = lab.post(JOBS, recorded_gang())
    assert made["spec"]["maxRetry"] == 1
    assert [t["maxRetry"] for t in made["spec"]["tasks"]] == [3, 3]
    lab.wait(4)
    pods = {pod["metadata"]["name"]: pod for pod in lab.pods("mst-j1-a1")}
    group = shape(lab.group("mst-j1-a1"))
    assert group["metadata"] == shape(told["podgroup running"]["metadata"])
    assert group["spec"] == told["podgroup running"]["spec"]
    assert group["status"] == shape(told["podgroup running"]["status"])
    master = shape(pods["mst-j1-a1-master-0"])
    real = shape(told["pod master running"])
    assert master["metadata"]["labels"] == real["metadata"]["labels"]
    assert without(master["metadata"]["annotations"], "muster-sim/run-for") == without(
        real["metadata"]["annotations"], "lab/run-for"
    )
    assert master["metadata"]["ownerReferences"] == real["metadata"]["ownerReferences"]
    assert master["status"] == real["status"]
    assert without(master["spec"], "containers", "tolerations") == without(
        real["spec"], "containers", "serviceAccount"
    )
    ours, theirs = master["spec"]["containers"][0], real["spec"]["containers"][0]
    assert by_name(ours["env"]) == by_name(theirs["env"])
    assert ours["ports"] == theirs["ports"]
    assert ours["volumeMounts"] == theirs["volumeMounts"]


def by_name(variables: list[dict[str, Any]]) -> dict[str, Any]:
    return {v["name"]: v for v in variables}


def test_a_worker_has_its_own_rank(lab: Lab) -> None:
    told = recording("01-gang-succeeds")["objects"]["pod worker-2, only what differs"]
    lab.post(JOBS, recorded_gang())
    lab.wait(3)
    pod = lab.get(f"{PODS}/mst-j1-a1-worker-2")
    assert pod["metadata"]["labels"] == told["labels"]
    own = by_name(pod["spec"]["containers"][0]["env"])
    assert {name: own[name] for name in by_name(told["env"])} == by_name(told["env"])
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (
        told["hostname"],
        told["subdomain"],
    )


def test_what_plugins_make_goes_at_the_end_and_pods_stay(lab: Lab) -> None:
    told = recording("01-gang-succeeds")["objects"]
    lab.post(JOBS, recorded_gang())
    lab.wait(1)
    books = lab.get("/api/v1/namespaces/team/configmaps")["items"]
    assert books[0]["data"] == told["configmap"]["data"]
    policies = "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies"
    assert lab.get(policies)["items"][0]["spec"] == told["networkpolicy"]["spec"]
    lab.wait(10)
    status = shape(lab.job("mst-j1-a1")["status"])
    real = shape(told["job completed"]["status"])
    assert without(status, *LOOSE) == without(real, *LOOSE)
    assert lab.group("mst-j1-a1") is None
    assert lab.get("/api/v1/namespaces/team/services")["items"] == []
    assert len(lab.pods("mst-j1-a1")) == 4
    lab.call("DELETE", f"{JOBS}/mst-j1-a1")
    assert lab.get(PODS)["items"] == []


def test_the_phases_come_one_cycle_after_the_other(lab: Lab) -> None:
    lab.post(JOBS, gang("a", task(run_for="8s")))
    seen = []
    for _ in range(12):
        group = lab.group("a")
        seen.append((lab.phase("a"), group and group.get("status", {}).get("phase")))
        lab.wait(1)
    assert seen[0] == ("Pending", None)
    assert seen[1] == ("Pending", "Inqueue")
    assert seen[2] == ("Running", "Inqueue")
    assert seen[3] == ("Running", "Running")
    assert seen[10] == ("Completed", None)


def test_every_healthy_start_warns_twice(lab: Lab) -> None:
    lab.post(JOBS, gang("a"))
    lab.wait(4)
    events = lab.get(EVENTS)["items"]
    warnings = [e for e in events if e["type"] == "Warning"]
    assert [e["message"] for e in sorted(warnings, key=lambda e: e["firstTimestamp"])] == [
        "0/0 tasks in gang unschedulable: pod group is not ready, 4 minAvailable",
        "0/4 tasks in gang unschedulable: pod group is ready, 4 Binding, 4 minAvailable",
    ]
    assert {e["involvedObject"]["kind"] for e in warnings} == {"PodGroup"}


def failing(**spec: Any) -> dict[str, Any]:
    """A gang of 4 of which x-0 exits 3 after 3 s."""
    x = task("x", 1, run_for="3s", exit_code="3")
    return gang("f", x, task("w", 3, run_for="10s"), **spec)


def test_a_failed_pod_aborts_the_gang(lab: Lab) -> None:
    lab.post(JOBS, failing(policies=ABORT))
    lab.wait(5)
    status = lab.job("f")["status"]
    assert status["state"]["phase"] == "Aborting"
    assert (status["terminating"], status["version"]) == (3, 1)
    lab.wait(3)
    status = lab.job("f")["status"]
    real = recording("02-worker-fails")["objects"]["a: job"]["status"]
    assert without(shape(status), *LOOSE) == without(shape(real), *LOOSE)
    assert [pod["metadata"]["name"] for pod in lab.pods("f")] == ["f-x-0"]
    assert "Start to execute action AbortJob " in lab.events("ExecuteAction")


def test_without_a_policy_the_others_compute_on(lab: Lab) -> None:
    lab.post(JOBS, failing())
    lab.wait(8)
    assert lab.phase("f") == "Running"
    group = lab.group("f")["status"]
    assert (group["phase"], group["running"], group["failed"]) == ("Unknown", 3, 1)
    told = [c["message"] for c in group["conditions"] if c["type"] == "Unschedulable"]
    assert told == [
        "1/4 tasks in gang unschedulable: pod group is not ready, 1 Failed, 3 Running, "
        "4 minAvailable"
    ]
    lab.wait(6)
    status = lab.job("f")["status"]
    assert status["state"]["phase"] == "Failed"
    assert "failed" not in status
    assert "succeeded" not in status


def test_enough_successes_complete_a_job(lab: Lab) -> None:
    lab.post(JOBS, failing(minAvailable=3))
    lab.wait(14)
    assert lab.phase("f") == "Completed"
    lab.post(JOBS, gang("m", task(run_for="3s"), task("slow", 1), minSuccess=4))
    lab.wait(8)
    assert lab.phase("m") == "Completed"
    assert [p["metadata"]["name"] for p in lab.pods("m")] == [f"m-w-{n}" for n in range(4)]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_restarts_end_after_as_many_runs(lab: Lab, most: int) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    lab.post(JOBS, failing(policies=policies, maxRetry=most))
    runs: set[tuple[str, str]] = set()
    for _ in range(40):
        lab.wait(0.5)
        for pod in lab.pods("f"):
            if pod["metadata"]["name"] == "f-x-0" and pod["status"]["phase"] == "Running":
                notes = pod["metadata"]["annotations"]
                runs.add((notes["volcano.sh/job-retry-count"], pod["metadata"]["uid"]))
    assert sorted(retry for retry, _ in runs) == [str(n) for n in range(most)]
    status = lab.job("f")["status"]
    assert (status["state"]["phase"], status["retryCount"]) == ("Failed", most)
    assert [pod["metadata"]["name"] for pod in lab.pods("f")] == ["f-x-0"]


def test_one_pod_is_restarted(lab: Lab) -> None:
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    lab.post(JOBS, failing(policies=policies, maxRetry=3))
    lab.wait(4.6)
    assert lab.job("f")["status"]["retryCount"] == 1
    assert lab.phase("f") == "Pending"
    lab.wait(30)
    status = lab.job("f")["status"]
    assert (status["state"]["phase"], status["retryCount"]) == ("Failed", 3)


def test_the_first_policy_that_fits_wins(lab: Lab) -> None:
    policies = [
        {"exitCode": 3, "action": "TerminateJob"},
        {"event": "PodFailed", "action": "RestartJob"},
    ]
    lab.post(JOBS, failing(policies=policies, maxRetry=3))
    lab.wait(8)
    assert lab.phase("f") == "Terminated"


def test_a_missing_image_holds_the_gang_for_ever(lab: Lab) -> None:
    told = recording("03-one-pod-never-starts")["objects"]
    x = task("x", 1, image="missing")
    lab.post(JOBS, gang("i", x, task("w", 3, run_for="40s")))
    lab.wait(8)
    job, group = shape(lab.job("i")["status"]), shape(lab.group("i")["status"])
    assert job == shape(told["a: job after 8 s"]["status"])
    assert group == shape(told["a: podgroup after 8 s"]["status"])
    pod = shape(lab.get(f"{PODS}/i-x-0")["status"])
    assert pod == shape(told["a: pod x-0"]["status"])
    lab.wait(40)
    job, group = shape(lab.job("i")["status"]), shape(lab.group("i")["status"])
    assert job == shape(told["a: job after the others ended"]["status"])
    assert group == shape(told["a: podgroup after the others ended"]["status"])
    lab.post(JOBS, gang("b", x, task("w", 3), minAvailable=3))
    lab.wait(4)
    assert shape(lab.job("b")["status"]) == shape(told["b: job"]["status"])


def test_a_pod_starts_after_a_while(lab: Lab) -> None:
    lab.post(JOBS, gang("a", task(start_after="10s")))
    lab.wait(8)
    assert lab.phase("a") == "Pending"
    assert lab.nodes_of("a") == ["000", "001", "002", "003"]
    lab.wait(5)
    assert lab.phase("a") == "Running"


def test_time_of_jobs_is_divided_by_speed() -> None:
    lab = Lab(lab_cluster(speed=60.0))
    lab.post(JOBS, gang("a", task(run_for="10m")))
    lab.wait(11.3)
    assert lab.phase("a") == "Running"
    lab.wait(0.2)
    assert lab.phase("a") == "Completed"


def test_an_evicted_pod_aborts_the_gang_when_it_is_gone(lab: Lab) -> None:
    lab.post(JOBS, gang("e", task(replicas=3), policies=ABORT))
    lab.wait(3)
    answer = lab.post(f"{PODS}/e-w-1/eviction", {"metadata": {"name": "e-w-1"}})
    assert answer["status"] == "Success"
    pod = lab.get(f"{PODS}/e-w-1")
    assert pod["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    status = lab.job("e")["status"]
    assert (status["state"]["phase"], status["terminating"], status["running"]) == ("Running", 1, 2)
    lab.wait(2)
    assert lab.phase("e") == "Aborting"
    lab.wait(2)
    assert lab.phase("e") == "Aborted"
    assert lab.pods("e") == []


def test_a_deleted_pod_comes_back_without_a_policy(lab: Lab) -> None:
    lab.post(JOBS, gang("e", task(replicas=3)))
    lab.wait(4)
    lab.call("DELETE", f"{PODS}/e-w-1")
    lab.wait(2)
    assert lab.phase("e") == "Pending"
    lab.wait(3)
    assert lab.phase("e") == "Running"
    assert lab.group("e")["status"]["phase"] == "Running"


def test_a_pod_that_ended_and_is_deleted_counts_as_evicted(lab: Lab) -> None:
    lab.post(JOBS, gang("e", task("x", 1, run_for="2s"), task("w", 2), policies=ABORT))
    lab.wait(5)
    lab.call("DELETE", f"{PODS}/e-x-0")
    lab.wait(3)
    assert lab.phase("e") == "Aborted"


def test_a_finished_job_goes_when_its_time_is_over(lab: Lab) -> None:
    lab.post(JOBS, gang("t", task(run_for="2s"), ttlSecondsAfterFinished=5))
    lab.wait(6)
    assert lab.phase("t") == "Completed"
    lab.wait(4)
    assert lab.call("GET", f"{JOBS}/t").status_code == 404
    assert lab.get(PODS)["items"] == []


def test_logs(lab: Lab) -> None:
    lab.post(JOBS, gang("l", task(replicas=1, log="one\ntwo\nthree")))
    assert lab.call("GET", f"{PODS}/l-w-0/log").status_code == 404
    lab.wait(1)
    assert lab.call("GET", f"{PODS}/l-w-0/log").status_code == 400
    lab.wait(2)
    assert lab.call("GET", f"{PODS}/l-w-0/log?tailLines=2").text == "two\nthree\n"


def test_the_same_calls_make_the_same_history() -> None:
    histories = []
    for _ in range(2):
        lab = Lab()
        lab.post(JOBS, failing(policies=ABORT))
        lab.wait(4.5)
        lab.command("ResumeJob", "f")
        lab.wait(20)
        histories.append((lab.get(JOBS), lab.get(PODS), lab.get(EVENTS)))
    assert histories[0] == histories[1]

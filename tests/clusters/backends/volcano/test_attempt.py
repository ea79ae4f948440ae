"""What came of an attempt: as recorded from a running Volcano (volcano-samples), told in objects."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clusters.backends.volcano.attempt import PodSeen, attempt_seen, moment, pod_seen
from clusters.core.observation import GangState as G
from kit.intervals import to_ms

BEGAN = datetime(2026, 11, 29, 19, 22, 20, tzinfo=UTC)
NODES = ("volc-n012", "volc-n013", "volc-n014", "volc-n015")


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=int(seconds))).isoformat()


def at_ms(seconds: float) -> int:
    return to_ms(BEGAN) + int(seconds) * 1000


def job(phase: str, ended: float = 0, tasks: int = 4) -> dict[str, Any]:
    status = {"state": {"phase": phase, "lastTransitionTime": at(ended)}} if phase else {}
    return {
        "metadata": {
            "name": "mst-f-a1", "namespace": "team", "uid": "5b529b2f", "creationTimestamp": at(0),
            "labels": {"muster/fence": "mst-f-a1"},
            "annotations": {"muster/nodes": ",".join(NODES)},
        },
        "spec": {"tasks": [{"name": f"r{n}", "replicas": 1} for n in range(tasks)]},
        "status": status,
    }  # fmt: skip


def pod(number: int, phase: str = "Running", **more: Any) -> dict[str, Any]:
    """A pod bound at second 1 to its node; `code` and `ended` end its container."""
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(1)}
    status: dict[str, Any] = {"phase": phase, "conditions": [scheduled]}
    if "code" in more:
        terminated = {"exitCode": more["code"], "finishedAt": at(more.get("ended", 10))}
        status["containerStatuses"] = [{"state": {"terminated": terminated}}]
    if "waiting" in more:
        status["containerStatuses"] = [{"state": {"waiting": {"reason": more["waiting"]}}}]
    if "disrupted" in more:
        why = {"type": "DisruptionTarget", "status": "True", "reason": more["disrupted"]}
        status["conditions"].append(why)
    if "reason" in more:
        status["reason"] = more["reason"]
    spec: dict[str, Any] = {
        "containers": [{"resources": {"requests": {"nvidia.com/gpu": "8", "cpu": "8"}}}]
    }
    if more.get("bound", True):
        spec["nodeName"] = NODES[number]
    else:
        words = {"message": "0/16 nodes are unavailable", "reason": "Unschedulable"}
        status["conditions"] = [{"type": "PodScheduled", "status": "False", **words}]
    meta = {
        "name": f"mst-f-a1-r{number}-0",
        "annotations": {"volcano.sh/job-version": str(more.get("version", 0))},
    }
    if more.get("leaves"):
        meta["deletionTimestamp"] = at(12)
    return {"metadata": meta, "spec": spec, "status": status}


def pods(*phases: str, **more: Any) -> list[PodSeen]:
    return [pod_seen(pod(number, phase, **more)) for number, phase in enumerate(phases)]


def gone(number: int, seconds: float, **more: Any) -> PodSeen:
    return pod_seen(pod(number, **more), at_ms(seconds))


GROUP = {
    "status": {
        "phase": "Inqueue",
        "conditions": [
            {"type": "Scheduled", "status": "True", "lastTransitionTime": at(0), "message": "old"},
            {"type": "Unschedulable", "status": "True", "lastTransitionTime": at(3),
             "message": "10/10 tasks in gang unschedulable"},
        ],
    }
}  # fmt: skip
RUNNING4 = ("Running",) * 4
FAILED = pod_seen(pod(0, "Failed", code=3, ended=4))
# What the recording shows (file and case) -> the state, and a word of the reason.
TABLE: dict[str, tuple[dict[str, Any], list[PodSeen], dict[str, Any] | None, G, str]] = {
    "17 controllers down: no status at all": (job(""), [], None, G.PENDING, ""),
    "04 waits for its queue": (job("Pending"), [], {"status": {"phase": "Pending"}}, G.PENDING,
                               "Pending"),
    "04 waits for room, pods made": (
        job("Pending"), pods(*["Pending"] * 4, bound=False), GROUP, G.PENDING, "unschedulable"),
    "01 bound, not started": (job("Pending"), pods(*["Pending"] * 4), GROUP, G.STARTING, "0 of 4"),
    "01 all run, the job does not say so yet": (job("Pending"), pods(*RUNNING4), None, G.RUNNING, ""),
    "01 runs": (job("Running"), pods(*RUNNING4), None, G.RUNNING, ""),
    "01 one is done before the others": (
        job("Running"), [*pods("Running", "Running", "Running"), pod_seen(pod(3, "Succeeded", code=0))],
        None, G.RUNNING, ""),
    "01 completed": (
        job("Completed", 10), pods(*["Succeeded"] * 4, code=0), None, G.SUCCEEDED, ""),
    "02a one fails, all leave": (
        job("Aborting"), [FAILED, *(pod_seen(pod(n, leaves=True)) for n in (1, 2, 3))],
        None, G.ENDING, "Aborting"),
    "02a aborted, as one failed": (
        job("Aborted", 6), [FAILED, *(gone(n, 6, leaves=True) for n in (1, 2, 3))],
        None, G.FAILED, "r0-0: exit code 3"),
    "02b failed without a policy": (
        job("Failed", 12), [FAILED, *(pod_seen(pod(n, "Succeeded", code=0)) for n in (1, 2, 3))],
        None, G.FAILED, "exit code 3"),
    "02c failed is said while pods leave": (
        job("Failed"), [FAILED, *(pod_seen(pod(n, leaves=True)) for n in (1, 2, 3))],
        None, G.ENDING, "3 pods still leave"),
    "02d terminated by a policy": (
        job("Terminated", 7), [FAILED, *(gone(n, 7) for n in (1, 2, 3))], None, G.FAILED, "exit"),
    "17 a failure that no policy saw": (
        job("Running"), [FAILED, *pods(*RUNNING4)[1:]], None, G.RUNNING, "r0-0: exit code 3"),
    "03 an image is missing": (
        job("Pending"), [*pods(*RUNNING4)[:3], pod_seen(pod(3, "Pending", waiting="ImagePullBackOff"))],
        None, G.STARTING, "3 of 4 pods run; mst-f-a1-r3-0 on volc-n015: ImagePullBackOff"),
    "06 aborted by a command": (
        job("Aborted", 9), [gone(n, 9, leaves=True) for n in range(4)], None, G.CANCELLED, "Aborted"),
    "06 completed by a command: every pod was killed": (
        job("Completed", 9), [gone(n, 9, leaves=True) for n in range(4)], None, G.CANCELLED,
        "0 of 4 pods succeeded"),
    "06 aborted before it had pods": (job("Aborted", 1), [], None, G.CANCELLED, ""),
    "08 evicted": (
        job("Aborted", 9), [gone(0, 7, disrupted="EvictionByEvictionAPI"),
                            *(gone(n, 9, leaves=True) for n in (1, 2, 3))],
        None, G.PREEMPTED, "EvictionByEvictionAPI"),
    "10 reclaimed by the member": (
        job("Aborted", 9), [gone(0, 7, disrupted="PreemptionByScheduler"),
                            *(gone(n, 9) for n in (1, 2, 3))], None, G.PREEMPTED, "Preemption"),
    "09 a silent node: the job says Running, one leaves": (
        job("Running"), [pod_seen(pod(0, disrupted="DeletionByTaintManager", leaves=True)),
                         *pods(*RUNNING4)[1:]], None, G.RUNNING, "DeletionByTaintManager"),
    "09 a dead node": (
        job("Aborted", 65), [gone(0, 63, disrupted="DeletionByTaintManager"),
                             *(gone(n, 65, leaves=True) for n in (1, 2, 3))],
        None, G.NODE_FAILED, "r0-0"),
    "09 a node that was removed": (
        job("Aborted", 47), [gone(0, 45, phase="Failed", disrupted="DeletionByPodGC"),
                             *(gone(n, 47) for n in (1, 2, 3))], None, G.NODE_FAILED, "PodGC"),
    "its time limit was over": (
        job("Aborted", 9), pods(*["Failed"] * 4, reason="DeadlineExceeded"), None, G.TIMED_OUT,
        "time limit"),
    "19 running, and no pod runs": (job("Running"), [gone(n, 9) for n in range(4)], None, G.ENDING,
                                    "none of its pods"),
    "23 given up after 165 s": (job("Terminated", 165), [], None, G.FAILED, "gave up"),
    "23 given up, some pods were made": (
        job("Terminated", 165), [gone(0, 165, bound=False)], None, G.FAILED, "gave up"),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_what_the_objects_say(case: str) -> None:
    told, found, group, state, words = TABLE[case]
    seen = attempt_seen(told, group, found)
    assert (seen.state, words in seen.reason) == (state, True), seen.reason
    assert (seen.fence, seen.account, seen.backend_id) == ("mst-f-a1", "team", "5b529b2f")
    assert seen.pinned == NODES
    assert (seen.exit_code == 3) == any(one.exit_code == 3 for one in found)


def test_gpu_time_is_from_the_first_pod_bound_to_the_last_one_gone() -> None:
    found = [FAILED, *(gone(n, 4 + n, leaves=True) for n in (1, 2, 3))]
    (run,) = attempt_seen(job("Aborted", 8), None, found).runs
    assert (run.start_ms, run.end_ms) == (at_ms(1), at_ms(8))  # a moment after the last one went
    assert (run.gpus, run.nodes, run.state) == (32, NODES, G.FAILED)
    (late,) = attempt_seen(job("Aborted", 100), None, found).runs
    assert late.end_ms == at_ms(17), (
        "its controllers were away; a reading takes ten seconds at most"
    )


def test_it_lasts_while_one_pod_holds_its_gpus() -> None:
    found = [FAILED, *(pod_seen(pod(n, leaves=True)) for n in (1, 2, 3))]
    seen = attempt_seen(job("Aborting"), None, found)
    assert [(run.start_ms, run.end_ms) for run in seen.runs] == [(at_ms(1), None)]
    assert (seen.started_ms, seen.ended_ms) == (at_ms(1), None)


def test_where_nobody_saw_the_last_pods_go_the_job_says_when() -> None:
    """A process that begins to watch now: the killed pods have left nothing."""
    (run,) = attempt_seen(job("Aborted", 8), None, [FAILED]).runs
    assert (run.start_ms, run.end_ms) == (at_ms(1), at_ms(4))
    seen = attempt_seen(job("Aborted", 8), None, [])
    assert (seen.runs, seen.ended_ms) == ((), at_ms(8))


def test_pods_of_an_older_version_are_an_earlier_run() -> None:
    first = [gone(n, 9, version=0) for n in range(4)]
    second = pods(*RUNNING4, version=1)
    seen = attempt_seen(job("Running"), None, [*first, *second])
    assert [(run.end_ms, run.gpus, run.state) for run in seen.runs] == [
        (at_ms(9), 32, G.CANCELLED),
        (None, 32, G.RUNNING),
    ]
    assert seen.gpus == 32


def test_times() -> None:
    assert moment("2026-11-29T19:22:20Z") == at_ms(0)
    assert moment(None) is moment("") is None

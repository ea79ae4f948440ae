"""The pods and the PodGroup of a vcjob, as recorded (01, 11)."""

from simulator.kubernetes.errors import Json
from simulator.kubernetes.objects import at
from simulator.kubernetes.pods import requests
from simulator.kubernetes.quantities import as_text, number, total
from simulator.volcano.plugins import equip, pod_name
from simulator.volcano.writes import owner

_PASSED_ON = ("volcano.sh/preemptable", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")


def podgroup_name(job: Json) -> str:
    """`<job>-<job uid>`."""
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def make_pod(job: Json, task: Json, index: int) -> Json:
    """One pod of a task, with labels, annotations and what plugins inject."""
    meta, spec = job["metadata"], job["spec"]
    status = job.get("status") or {}
    template = task.get("template") or {}
    common = {
        "volcano.sh/job-name": meta["name"],
        "volcano.sh/queue-name": spec["queue"],
        "volcano.sh/task-index": str(index),
        "volcano.sh/task-spec": task["name"],
    }
    partition = at(task, "partitionPolicy", "partitionSize")
    if partition:
        common["volcano.sh/partition-id"] = str(index // partition)
    given = at(template, "metadata", "annotations") or {}
    passed = {k: v for k, v in (meta.get("annotations") or {}).items() if k in _PASSED_ON}
    pod: Json = {
        "metadata": {
            "name": pod_name(job, task, index),
            "namespace": meta["namespace"],
            "labels": {
                **(at(template, "metadata", "labels") or {}),
                **common,
                "volcano.sh/job-namespace": meta["namespace"],
            },
            "annotations": {
                **given,
                **passed,
                **common,
                "scheduling.k8s.io/group-name": podgroup_name(job),
                "volcano.sh/job-version": str(status.get("version", 0)),
                "volcano.sh/job-retry-count": str(status.get("retryCount", 0)),
                "volcano.sh/template-uid": f"{meta['name']}-{task['name']}",
            },
            "ownerReferences": owner(job),
        },
        "spec": {**(template.get("spec") or {}), "schedulerName": spec["schedulerName"]},
    }
    if spec.get("priorityClassName"):
        pod["spec"].setdefault("priorityClassName", spec["priorityClassName"])
    return equip(job, task, index, pod)


def make_podgroup(job: Json) -> Json:
    """The PodGroup of a job; it takes the job's labels and annotations as they are now."""
    meta, spec = job["metadata"], job["spec"]
    made: Json = {
        "minMember": spec["minAvailable"],
        "minTaskMember": {t["name"]: t["minAvailable"] for t in spec["tasks"]},
        "minResources": _min_resources(job),
        "queue": spec["queue"],
    }
    for name in ("networkTopology", "priorityClassName"):
        if spec.get(name):
            made[name] = spec[name]
    groups = [_sub_group(task) for task in spec["tasks"] if task.get("partitionPolicy")]
    if groups:
        made["subGroupPolicy"] = groups
    head = {
        "name": podgroup_name(job),
        "namespace": meta["namespace"],
        "labels": meta.get("labels"),
        "annotations": meta.get("annotations"),
        "ownerReferences": owner(job),
    }
    return {"metadata": {k: v for k, v in head.items() if v}, "spec": made}


def _sub_group(task: Json) -> Json:
    policy = task["partitionPolicy"]
    group = {
        "name": task["name"],
        "subGroupSize": policy["partitionSize"],
        "minSubGroups": policy.get("minPartitions") or policy["totalPartitions"],
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": task["name"]}},
        "matchLabelKeys": ["volcano.sh/partition-id"],
        "networkTopology": policy.get("networkTopology"),
    }
    return {key: value for key, value in group.items() if value}


def _min_resources(job: Json) -> Json:
    """What the first `minAvailable` pods ask for, in the order of tasks."""
    left = job["spec"]["minAvailable"]
    asked: list[dict[str, float]] = []
    limits: list[dict[str, float]] = []
    for task in job["spec"]["tasks"]:
        count = min(left, task["replicas"])
        left -= count
        spec = at(task, "template", "spec") or {}
        asked += [requests(spec)] * count
        limits += [_limits(spec)] * count
    found = {k: as_text(v) for k, v in total(asked).items()}
    return {
        "count/pods": str(len(asked)),
        "pods": str(len(asked)),
        **found,
        **{f"requests.{k}": v for k, v in found.items()},
        **{f"limits.{k}": as_text(v) for k, v in total(limits).items() if k in {"cpu", "memory"}},
    }


def _limits(spec: Json) -> dict[str, float]:
    return total(
        {k: number(v) for k, v in (at(c, "resources", "limits") or {}).items()}
        for c in spec.get("containers", [])
    )

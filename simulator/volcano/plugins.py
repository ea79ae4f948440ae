"""The job plugins svc, env, pytorch and hcclrank: what they add to pods, and objects of their own.

mpi, tensorflow and ray only bring svc with them here.
"""

from typing import Any

from simulator.kubernetes.errors import Json
from simulator.volcano.writes import owner

KNOWN = {"svc", "env", "ssh", "pytorch", "mpi", "tensorflow", "ray", "hcclrank"}
_BRING_SVC = {"svc", "pytorch", "mpi", "tensorflow", "ray"}
_PORT = "23456"


def has_svc(job: Json) -> bool:
    """Does the job get a Service and host names?"""
    return bool(_BRING_SVC & set(job["spec"].get("plugins") or {}))


def pod_name(job: Json, task: Json, index: int) -> str:
    """`<job>-<task>-<index>`."""
    return f"{job['metadata']['name']}-{task['name']}-{index}"


def hosts(job: Json, task: Json) -> list[str]:
    """The host names of a task's pods."""
    name = job["metadata"]["name"]
    return [f"{pod_name(job, task, index)}.{name}" for index in range(task["replicas"])]


def owned_objects(job: Json) -> list[tuple[str, Json]]:
    """The Service, ConfigMap and NetworkPolicy of a job, by plural."""
    if not has_svc(job):
        return []
    meta = job["metadata"]
    name = meta["name"]
    mine = {"volcano.sh/job-name": name, "volcano.sh/job-namespace": meta["namespace"]}

    def belonging(called: str, body: Json) -> Json:
        head = {"name": called, "namespace": meta["namespace"], "ownerReferences": owner(job)}
        return {"metadata": head, **body}

    service = {"clusterIP": "None", "clusterIPs": ["None"], "selector": mine, "type": "ClusterIP"}
    found = [
        ("configmaps", belonging(f"{name}-svc", {"data": _host_files(job)})),
        ("services", belonging(name, {"spec": service})),
    ]
    if "--disable-network-policy=true" not in ((job["spec"].get("plugins") or {}).get("svc") or []):
        own = {"podSelector": {"matchLabels": mine}}
        policy = {**own, "ingress": [{"from": [own]}], "policyTypes": ["Ingress"]}
        found.append(("networkpolicies", belonging(name, {"spec": policy})))
    return found


def _host_files(job: Json) -> Json:
    data: Json = {}
    for task in job["spec"]["tasks"]:
        called = _variable(task["name"])
        data[f"{task['name']}.host"] = "\n".join(hosts(job, task))
        data[f"VC_{called}_HOSTS"] = ",".join(hosts(job, task))
        data[f"VC_{called}_NUM"] = str(task["replicas"])
    return data


def _variable(task: str) -> str:
    return task.upper().replace("-", "_")


def equip(job: Json, task: Json, index: int, pod: Json) -> Json:
    """The pod with what the job's plugins give it."""
    plugins: dict[str, Any] = job["spec"].get("plugins") or {}
    spec = pod["spec"]
    variables: list[Json] = []
    ports: list[Json] = []
    if "pytorch" in plugins:
        variables, ports = _pytorch(job, task, index, plugins["pytorch"] or [])
    if has_svc(job):
        spec = _named(job, task, index, spec)
        variables += _host_variables(job)
    if "env" in plugins:
        variables += [{"name": f"{v}_TASK_INDEX", "value": str(index)} for v in ("VK", "VC")]
    containers = [_equipped(job, c, variables, ports) for c in spec.get("containers", [])]
    equipped = {**pod, "spec": {**spec, "containers": containers}}
    if "hcclrank" in plugins:
        notes = {**pod["metadata"]["annotations"], "hccl/rankIndex": str(_rank(job, task, index))}
        equipped["metadata"] = {**pod["metadata"], "annotations": notes}
    return equipped


def _equipped(job: Json, container: Json, variables: list[Json], ports: list[Json]) -> Json:
    made = {**container}
    if variables:
        made["env"] = [*(container.get("env") or []), *variables]
    if ports:
        made["ports"] = [*(container.get("ports") or []), *ports]
    if has_svc(job):
        mount = {"name": f"{job['metadata']['name']}-svc", "mountPath": "/etc/volcano"}
        made["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    return made


def _named(job: Json, task: Json, index: int, spec: Json) -> Json:
    name = job["metadata"]["name"]
    volume = {"name": f"{name}-svc", "configMap": {"name": f"{name}-svc", "defaultMode": 420}}
    return {
        **spec,
        "hostname": spec.get("hostname") or pod_name(job, task, index),
        "subdomain": spec.get("subdomain") or name,
        "volumes": [*(spec.get("volumes") or []), volume],
    }


def _host_variables(job: Json) -> list[Json]:
    book = f"{job['metadata']['name']}-svc"
    names = [
        f"VC_{_variable(task['name'])}_{what}"
        for task in job["spec"]["tasks"]
        for what in ("HOSTS", "NUM")
    ]
    return [
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": book, "key": name}}}
        for name in names
    ]


def _rank(job: Json, task: Json, index: int) -> int:
    before = 0
    for other in job["spec"]["tasks"]:
        if other["name"] == task["name"]:
            break
        before += other["replicas"]
    return before + index


def _pytorch(
    job: Json, task: Json, index: int, arguments: list[str]
) -> tuple[list[Json], list[Json]]:
    """Variables and ports; the ranks are of pods, not of processes. None without a master."""
    given = dict(a.lstrip("-").split("=", 1) for a in arguments if "=" in a)
    tasks = {t["name"]: t for t in job["spec"]["tasks"]}
    master = tasks.get(given.get("master", "master"))
    worker = given.get("worker", "worker")
    if master is None or task["name"] not in {master["name"], worker}:
        return [], []
    port = given.get("port", _PORT)
    rank = index if task is master or task["name"] == master["name"] else index + master["replicas"]
    world = master["replicas"] + tasks.get(worker, {"replicas": 0})["replicas"]
    values = {
        "MASTER_ADDR": hosts(job, master)[0],
        "MASTER_PORT": port,
        "WORLD_SIZE": str(world),
        "RANK": str(rank),
    }
    opened = {"name": "pytorchjob-port", "containerPort": int(port), "protocol": "TCP"}
    return [{"name": k, "value": v} for k, v in values.items()], [opened]

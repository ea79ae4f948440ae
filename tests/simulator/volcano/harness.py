"""A simulated Volcano cluster in the same process, with a clock that tests move by hand."""

import json
from pathlib import Path
from typing import Any

import httpx

from simulator.config import Cluster, Queue, Tier, Token, Volcano
from simulator.inprocess import InProcess
from simulator.volcano.cluster import VolcanoCluster

RECORDINGS = Path(__file__).parent / "recordings"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs"
PODS = "/api/v1/namespaces/team/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/team/commands"
EVENTS = "/api/v1/namespaces/team/events"
NODES = "/api/v1/nodes"
ABORT = [
    {"event": "PodEvicted", "action": "AbortJob"},
    {"event": "PodFailed", "action": "AbortJob"},
]


def lab_cluster(**changes: Any) -> Cluster:
    """The cluster of the recordings: 16 nodes of 8 GPUs, leaves of 4, a spine."""
    volcano = Volcano(
        tokens=[Token("root-token")],
        namespaces=["team", "other"],
        queues=[
            Queue("team-g", capability={"nvidia.com/gpu": "128"}),
            Queue("team-s"),
            Queue("small", capability={"nvidia.com/gpu": "16"}),
        ],
        priority_classes={"high": 1000},
    )
    settings: dict[str, Any] = {
        "nodes": 16,
        "tiers": [Tier("leaf", 4), Tier("spine", 16, digits=1)],
        "clock": "manual",
        "control": True,
        "volcano": volcano,
        **changes,
    }
    return Cluster(name="volc", kind="volcano", **settings)


class Lab:
    """A cluster, a client for it, and the calls that tests repeat."""

    def __init__(self, config: Cluster | None = None) -> None:
        self.cluster = VolcanoCluster(config or lab_cluster())
        self.client = httpx.Client(
            transport=InProcess(self.cluster),
            base_url="http://lab",
            headers={"Authorization": "Bearer root-token"},
            timeout=1000,
        )

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        return self.client.request(method, path, content=content, headers=headers)

    def get(self, path: str) -> Any:
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any, code: int = 201) -> Any:
        answer = self.call("POST", path, body)
        assert answer.status_code == code, answer.text
        return answer.json()

    def merge(self, path: str, body: Any) -> httpx.Response:
        return self.call("PATCH", path, body, **{"Content-Type": "application/merge-patch+json"})

    def wait(self, seconds: float) -> None:
        self.cluster.advance_ms(round(seconds * 1000))

    def job(self, name: str) -> Any:
        return self.get(f"{JOBS}/{name}")

    def phase(self, name: str) -> str:
        return str(self.job(name)["status"]["state"]["phase"])

    def pods(self, name: str) -> list[Any]:
        found: list[Any] = self.get(f"{PODS}?labelSelector=volcano.sh/job-name={name}")["items"]
        return found

    def group(self, name: str) -> Any:
        found = [g for g in self.get(GROUPS)["items"] if g["metadata"]["name"].startswith(name)]
        return found[0] if found else None

    def nodes_of(self, name: str) -> list[str]:
        return sorted(pod["spec"].get("nodeName", "-")[-3:] for pod in self.pods(name))

    def command(self, action: str, name: str, kind: str = "Job") -> Any:
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": kind, "name": name}
        target["uid"] = "any"
        return self.post(
            COMMANDS, {"metadata": {"generateName": "cmd-"}, "action": action, "target": target}
        )

    def events(self, reason: str) -> list[str]:
        return [e["message"] for e in self.get(EVENTS)["items"] if e["reason"] == reason]

    def why(self, name: str) -> str:
        """What the gang's Unschedulable condition says."""
        conditions = self.group(name)["status"].get("conditions", [])
        return next((c["message"] for c in conditions if c["type"] == "Unschedulable"), "")

    def control(self, deed: str, **data: Any) -> Any:
        answer = self.client.post(f"/_control/{deed}", json=data)
        assert answer.status_code == 200, answer.text
        return answer.json()


def task(
    name: str = "w", replicas: int = 4, gpus: int = 8, grace: int = 2, **notes: str
) -> dict[str, Any]:
    """One task; notes are annotations of its pods: `run_for="8s"`."""
    amounts = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
    annotations = {f"muster-sim/{key.replace('_', '-')}": value for key, value in notes.items()}
    container = {
        "name": "train",
        "image": "train:1",
        "resources": {"limits": amounts, "requests": amounts},
    }
    spec = {
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace,
    }
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    return {"name": name, "replicas": replicas, "template": template}


def pinned(*numbers: int, **more: Any) -> dict[str, Any]:
    """A task for exactly these nodes."""
    names = [f"volc-n{number:03d}" for number in numbers]
    wanted = {"key": "kubernetes.io/hostname", "operator": "In", "values": names}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    made = task(replicas=len(numbers), **more)
    made["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    }
    return made


def gang(name: str, *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A vcjob of these tasks, in queue team-g."""
    body = {"queue": "team-g", "maxRetry": 1, "tasks": list(tasks) or [task()], **spec}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": body,
    }


def recording(name: str) -> Any:
    """What a real Volcano did."""
    return json.loads((RECORDINGS / f"{name}.json").read_text())

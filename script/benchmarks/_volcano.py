"""A Volcano cluster that stands still, of any size, served from a process of its own; and its CPU.

Objects are as large as real ones (10 kB a pod, 20 kB a node): what nobody reads fills them up.
`python -m script.benchmarks._volcano NODES PODS` serves it and says its port.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from simulator.config import Cluster, Config, Queue, Tier, Token, Volcano
from simulator.kubernetes.resources import BY_PLURAL
from simulator.server import ClusterServer, Fleet
from simulator.volcano.cluster import VolcanoCluster

NAMESPACE, TOKEN = "team", "bench-token"
RANKS = 8  # pods of a gang of ours: one of four pods is of such a one
_AMOUNTS = {"nvidia.com/gpu": "2", "cpu": "8", "memory": "64Gi"}
_POD_FILL = {f"note.example/{number}": "x" * 230 for number in range(38)}
_IMAGES = [{"names": ["registry.example/" + "x" * 180], "sizeBytes": 10**9}] * 85
_OWNS = {"muster/mark": "muster"}
_BEGAN = "2026-11-29T19:22:20Z"


def cluster(nodes: int, pods: int) -> VolcanoCluster:
    """The cluster, all its pods running; nothing in it moves by itself."""
    volcano = Volcano(tokens=[Token(TOKEN)], namespaces=[NAMESPACE], queues=[Queue("team-g")])
    tiers = [Tier("leaf", 16), Tier("spine", 512, digits=2)]
    made = VolcanoCluster(
        Cluster(name="volc", kind="volcano", port=0, nodes=nodes, tiers=tiers, volcano=volcano)
    )
    made.store.hearers.clear()
    names = sorted(name for _, name in made.store.items[BY_PLURAL["nodes"]])
    for shown in list(made.store.all(BY_PLURAL["nodes"])):
        status = {**shown["status"], "images": _IMAGES}
        made.store.update(BY_PLURAL["nodes"], {**shown, "status": status})
    for number in range(pods):
        node = names[number * nodes // pods]
        thing = _own_pod(made, number, node) if number < pods // 4 else _pod(f"p{number:06}", node)
        made.store.create(BY_PLURAL["pods"], thing, made.now_ms())
    return made


def _pod(name: str, node: str, labels: Any = None, owner: Any = None) -> dict[str, Any]:
    running = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _BEGAN}
    meta = {"name": name, "namespace": NAMESPACE, "labels": labels or {}, "annotations": _POD_FILL}
    if owner:
        meta["ownerReferences"] = [{"kind": "Job", "uid": owner}]
    container = {"name": "train", "image": "train:1", "resources": {"requests": _AMOUNTS}}
    return {
        "metadata": meta,
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running", "conditions": [running]},
    }


def _own_pod(made: VolcanoCluster, number: int, node: str) -> dict[str, Any]:
    """A pod of a gang of ours; the first one of each brings the job and its PodGroup."""
    gang, rank = divmod(number, RANKS)
    name = f"mst-b{gang:05}-a1"
    labels = {**_OWNS, "muster/fence": name}
    if rank == 0:
        _job(made, name, labels)
    job = made.store.get(BY_PLURAL["jobs"], (NAMESPACE, name))
    return _pod(f"{name}-r{rank}-0", node, labels, job["metadata"]["uid"])


def _job(made: VolcanoCluster, name: str, labels: dict[str, str]) -> None:
    meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
    template = {"metadata": {"labels": labels, "annotations": _POD_FILL}}
    tasks = [{"name": f"r{rank}", "replicas": 1, "template": template} for rank in range(RANKS)]
    state = {"state": {"phase": "Running", "lastTransitionTime": _BEGAN}}
    thing = {"metadata": meta, "spec": {"tasks": tasks}, "status": state}
    job = made.store.create(BY_PLURAL["jobs"], thing, made.now_ms())
    owned = {"name": f"pg-{name}", "namespace": NAMESPACE}
    group = {
        "metadata": {**owned, "ownerReferences": [{"uid": job["metadata"]["uid"]}]},
        "spec": {"minMember": RANKS},
        "status": {"phase": "Running"},
    }
    made.store.create(BY_PLURAL["podgroups"], group, made.now_ms())


@contextmanager
def served(nodes: int, pods: int) -> Iterator[str]:
    """Such a cluster in a process of its own; its address."""
    command = [sys.executable, "-m", "script.benchmarks._volcano", str(nodes), str(pods)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(60)


def main(nodes: int, pods: int) -> None:
    """Serve until the process is ended."""

    class Standing(Fleet):
        def __init__(self) -> None:
            super().__init__(Config(clusters=[]))
            self.servers = [ClusterServer(cluster(nodes, pods))]

    def ready(ports: dict[str, int]) -> None:
        sys.stdout.write(f"{ports['volc']}\n")
        sys.stdout.flush()

    asyncio.run(Standing().run(ready))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

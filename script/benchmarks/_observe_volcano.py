"""Observing a Volcano cluster: CPU and memory of this process for a list of all, and from then on."""

import json
import resource
import time
from collections.abc import Mapping
from typing import Any

import httpx

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.warm import RELIST_S, forget
from clusters.core.backend import Connection
from clusters.core.observation import Observation
from script.benchmarks._volcano import NAMESPACE, TOKEN, served

CHANGES = 20  # pods and nodes that are written before a warm pass
PASSES = 5
LIMITS = {"cpu_s_relist": 6, "rss_mb": 400, "cpu_ms_warm": 50}


def measure(nodes: int, pods: int) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Metrics and context. A pass makes its backend anew, as each task does."""
    with served(nodes, pods) as endpoint, _writer(endpoint) as writer:
        forget()
        first_s, seen = _pass(endpoint)
        idle = sorted(_pass(endpoint)[0] for _ in range(PASSES))
        changed = []
        for turn in range(PASSES):
            _write(writer, [node.name for node in seen.nodes], turn)
            changed.append(_pass(endpoint)[0])
        changed.sort()
        again_s, _ = _pass(endpoint, later_ms=1000 * RELIST_S)
        rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    own = len(seen.gangs)
    return (
        {
            "cpu_s_relist": round(first_s, 2),
            "cpu_s_relist_again": round(again_s, 2),
            "rss_mb": round(rss_mb, 1),
            "cpu_ms_warm": round(changed[PASSES // 2] * 1000, 1),
            "cpu_ms_warm_worst": round(changed[-1] * 1000, 1),
            "cpu_ms_warm_without_changes": round(idle[PASSES // 2] * 1000, 1),
        },
        {"nodes": nodes, "pods": pods, "gangs": own, "changes": 2 * CHANGES, "limits": LIMITS},
    )


def _pass(endpoint: str, later_ms: int = 0) -> tuple[float, Observation]:
    connection = Connection("volc", endpoint, TOKEN.encode(), "", {"namespaces": NAMESPACE})
    before = time.process_time()
    backend = VolcanoBackend(KubernetesClient(connection))
    seen = backend.observe(round(time.monotonic() * 1000) + later_ms, [])
    backend.close()
    return time.process_time() - before, seen


def _writer(endpoint: str) -> httpx.Client:
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/merge-patch+json",
    }
    return httpx.Client(base_url=endpoint, headers=headers, timeout=60)


def _write(writer: httpx.Client, nodes: list[str], turn: int) -> None:
    """Nodes are cordoned and given back, pods of ours and of others get a note."""
    shut = {"spec": {"unschedulable": turn % 2 == 0 or None}}
    note = {"metadata": {"annotations": {"muster/checkpoint": str(turn + 1)}}}
    for number in range(CHANGES):
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/mst-b{number:05}-a1-r0-0"
        for where, body in ((f"/api/v1/nodes/{nodes[number]}", shut), (path, note)):
            writer.patch(where, content=json.dumps(body)).raise_for_status()

"""A fleet in the lab cluster with Volcano played inside it: nodes, leaves, queues, a namespace."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import httpx

from simulator.config import Cluster, Tier
from simulator.kubernetes.resources import BY_PLURAL
from simulator.volcano.furnishing import things
from simulator.volcano.player import Player
from tests.live.kubernetes.lab import Json, LabCluster, eventually, make, path_of
from tests.live.kubernetes.test_played_nodes import MERGE, ready

NODES, GPUS, LEAF = 16, 8, 4
GPU_TYPE = "h100"


@contextmanager
def played(cluster: LabCluster, admin: httpx.Client) -> Iterator[list[str]]:
    """Sixteen nodes of eight GPUs in leaves of four, and Volcano at work; the nodes' names."""
    config = Cluster(
        name="played", kind="volcano", node_prefix="played-n", nodes=NODES, gpus_per_node=GPUS,
        gpu_type=GPU_TYPE, tiers=[Tier("leaf", LEAF), Tier("spine", NODES, digits=1)],
    )  # fmt: skip
    made = [
        (plural, thing)
        for plural, thing in things(config, 0)
        if plural in ("nodes", "hypernodes", "queues")
    ]
    for plural, thing in made:
        _make(admin, plural, thing)
    names = [thing["metadata"]["name"] for plural, thing in made if plural == "nodes"]
    paths = [f"{path_of('Node')}/{name}" for name in names]
    eventually(lambda: all(ready(admin.get(path).json()) for path in paths), "all nodes are ready")
    stop = Event()
    with cluster.client(cluster.admin_token) as client:
        thread = Player(client).in_background(stop)
        try:
            eventually(lambda: _is_open(admin, "default"), "the queue is open")
            yield names
        finally:
            stop.set()
            thread.join(10)
            for plural, thing in made:
                kind = BY_PLURAL[plural].kind
                admin.delete(f"{path_of(kind)}/{thing['metadata']['name']}")


def _make(admin: httpx.Client, plural: str, thing: Json) -> None:
    resource = BY_PLURAL[plural]
    made = make(admin, {"apiVersion": resource.api_version, "kind": resource.kind, **thing})
    if plural == "nodes":
        amounts = {name: thing["status"][name] for name in ("capacity", "allocatable")}
        address = f"{path_of('Node')}/{made['metadata']['name']}/status"
        answer = admin.patch(address, json={"status": amounts}, headers=MERGE)
        assert answer.status_code == 200, answer.text


def _is_open(admin: httpx.Client, queue: str) -> bool:
    told = admin.get(f"{path_of('Queue')}/{queue}").json()
    return bool((told.get("status") or {}).get("state") == "Open")

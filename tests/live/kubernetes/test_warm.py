"""A real API server followed by watches: what is written is seen, whatever becomes of old versions."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.warm import forget
from clusters.core.backend import Connection
from clusters.core.observation import GangState, NodeState, Observation
from tests.live.kubernetes import test_backend
from tests.live.kubernetes.lab import LabCluster, eventually, path_of

pytestmark = pytest.mark.live
nodes = test_backend.nodes  # of this file, too


class Follower:
    """One process's view, task after task; `lists` are the paths that the last one listed."""

    def __init__(self, gamma: LabCluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
        authority = (gamma.directory / "ca.crt").read_text()
        options = {"namespaces": namespace, "authority": authority}
        token = gamma.admin_token.encode()
        self.connection = Connection("gamma", gamma.endpoint, token, "", options)
        self.lists: list[str] = []
        self.now_ms = 0
        listing = KubernetesClient.listing

        def counted(client: KubernetesClient, path: str, read: Any, **query: str) -> Any:
            self.lists.append(path.rpartition("/")[2])
            return listing(client, path, read, **query)

        monkeypatch.setattr(KubernetesClient, "listing", counted)

    def backend(self) -> VolcanoBackend:
        return VolcanoBackend(KubernetesClient(self.connection))

    def observe(self) -> Observation:
        self.lists.clear()
        self.now_ms += 1_000
        backend = self.backend()
        try:
            return backend.observe(self.now_ms, [])
        finally:
            backend.close()


@pytest.fixture
def follower(
    gamma: LabCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Follower]:
    forget()
    made = Follower(gamma, namespace, monkeypatch)
    made.observe()
    assert len(made.lists) == 6
    yield made
    forget()


def same(seen: Observation) -> Observation:
    return replace(seen, begun_ms=0, cluster_ms=0)


def listed(follower: Follower) -> Observation:
    """What a process sees that begins now."""
    forget()
    return follower.observe()


def test_what_is_written_is_seen_without_a_list(
    follower: Follower, admin: httpx.Client, namespace: str, nodes: tuple[str, ...]
) -> None:
    one = test_backend.asked(namespace, "mst-warm-a1", *nodes[:2])
    made = follower.backend().submit(one)
    (seen,) = follower.observe().gangs
    assert (seen.backend_id, seen.state) == (made.backend_id, GangState.PENDING)
    follower.backend().drain(nodes[:1], "fans")
    (shut,) = [one for one in follower.observe().nodes if one.name == nodes[0]]
    assert shut.state is NodeState.DRAINING
    follower.backend().undrain(nodes[:1])
    admin.delete(f"{path_of('Job', namespace)}/mst-warm-a1")
    assert follower.observe().gangs == ()
    assert follower.lists == []


def test_versions_that_etcd_forgot_and_a_server_that_starts_again(
    follower: Follower,
    gamma: LabCluster,
    admin: httpx.Client,
    namespace: str,
    nodes: tuple[str, ...],
) -> None:
    follower.backend().submit(test_backend.asked(namespace, "mst-again-a1", *nodes[:2]))
    gamma.kill("kube-apiserver")
    gamma.up()
    eventually(lambda: admin.get("/readyz").status_code == 200, "the API server is back")
    version = admin.get(path_of("Node")).json()["metadata"]["resourceVersion"]
    gamma.forget(version)
    seen = follower.observe()
    assert [gang.fence for gang in seen.gangs] == ["mst-again-a1"]
    follower.observe()
    assert follower.lists == []
    admin.delete(f"{path_of('Job', namespace)}/mst-again-a1")
    assert follower.observe().gangs == ()
    assert same(follower.observe()) == same(listed(follower))

"""The Volcano backend against a real API server: what the server itself decides, it decides here.

Nobody plays Volcano there yet, so that jobs wait: that is for the simulated one.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.warm import forget
from clusters.core.backend import (
    BackendError,
    BackendRejectedError,
    BackendUnavailableError,
    Connection,
)
from clusters.core.gang import Gang
from clusters.core.observation import GangState, NodeState
from tests.clusters.backends.volcano.test_simulated import gang
from tests.live.kubernetes.lab import Json, LabCluster, eventually, make, path_of

pytestmark = pytest.mark.live
GPUS = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1Ti", "pods": "110"}
MERGE = {"content-type": "application/merge-patch+json"}
Connects = Callable[..., VolcanoBackend]


@pytest.fixture(scope="module")
def nodes(admin: httpx.Client) -> Iterator[tuple[str, ...]]:
    """Four nodes of eight GPUs on one leaf, ready."""
    names = tuple(f"backend-n{number}" for number in range(4))
    for name in names:
        labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "H100"}
        make(admin, node_of(name, labels))
        status = {"status": {"capacity": GPUS, "allocatable": GPUS}}
        address = f"{path_of('Node')}/{name}/status"
        assert admin.patch(address, json=status, headers=MERGE).status_code == 200
    members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]
    leaf = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode"}
    make(
        admin,
        {**leaf, "metadata": {"name": "backend-leaf"}, "spec": {"tier": 1, "members": members}},
    )
    yield names
    admin.delete(f"{path_of('HyperNode')}/backend-leaf")
    for name in names:
        admin.delete(f"{path_of('Node')}/{name}")


def node_of(name: str, labels: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@pytest.fixture
def connect(gamma: LabCluster, namespace: str) -> Iterator[Connects]:
    """Makes a backend; by default as the admin, with the lab's own authority."""
    made: list[VolcanoBackend] = []
    authority = (gamma.directory / "ca.crt").read_text()

    def backend(token: str = "", **options: str) -> VolcanoBackend:
        connection = Connection(
            name="gamma",
            endpoint=gamma.endpoint,
            secret=(token or gamma.admin_token).encode(),
            account="",
            options={"namespaces": namespace, "authority": authority, **options},
        )
        made.append(VolcanoBackend(KubernetesClient(connection)))
        return made[-1]

    forget()
    yield backend
    for one in made:
        one.close()


def asked(namespace: str, name: str, *nodes: str) -> Gang:
    return replace(gang(*nodes, name=name), account=namespace)


def test_a_submit_is_one_job_whatever_is_repeated(
    connect: Connects, admin: httpx.Client, namespace: str, nodes: tuple[str, ...]
) -> None:
    one = asked(namespace, "mst-once-a1", *nodes[:2])
    made = connect().submit(one, is_repeat=False)
    assert connect().submit(one) == connect().submit(one, is_repeat=False) == made
    address = f"{path_of('Job', namespace)}/mst-once-a1"
    stored = admin.get(address).json()
    assert stored["metadata"]["uid"] == made.backend_id
    (seen,) = connect().observe(0, []).gangs
    assert (seen.fence, seen.state, seen.backend_id) == (
        one.fence,
        GangState.PENDING,
        made.backend_id,
    )
    assert seen.pinned == nodes[:2]
    admin.delete(address)
    assert connect().submit(one, known_as=made.backend_id) == made
    assert admin.get(address).status_code == 404


def test_a_job_of_somebody_else_is_left_alone(
    connect: Connects, namespace: str, nodes: tuple[str, ...]
) -> None:
    one = asked(namespace, "mst-theirs-a1", *nodes[:1])
    connect(mark="another").submit(one)
    with pytest.raises(BackendRejectedError) as refused:
        connect().submit(one)
    assert refused.value.code == "not_ours"
    connect().cancel(one.fence, namespace)
    assert [seen.fence for seen in connect().observe(0, []).namesakes] == [one.fence]


def test_a_cancel_is_a_command_that_volcano_will_find(
    connect: Connects, admin: httpx.Client, namespace: str, nodes: tuple[str, ...]
) -> None:
    one = asked(namespace, "mst-cancel-a1", *nodes[:1])
    made = connect().submit(one)
    connect().cancel(one.fence, namespace)
    (command,) = admin.get(path_of("Command", namespace)).json()["items"]
    assert command["action"] == "AbortJob"
    assert command["target"]["uid"] == made.backend_id
    connect().cancel("mst-absent-a1", namespace)


def test_the_fleet_in_pages(
    connect: Connects, nodes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ours() -> list[str]:
        seen = connect().observe(0, []).nodes
        assert {one.device for one in seen if one.name in nodes} == {"nvidia.com/gpu:H100"}
        assert {one.path for one in seen if one.name in nodes} == {(("leaf", "backend-leaf"),)}
        return sorted(one.name for one in seen if one.name in nodes and one.state is NodeState.UP)

    eventually(lambda: ours() == list(nodes), "all are ready")
    monkeypatch.setattr("clusters.backends.volcano.client.PAGE", 1)
    assert ours() == list(nodes)


def test_a_node_is_cordoned_and_given_back(connect: Connects, nodes: tuple[str, ...]) -> None:
    def state() -> tuple[NodeState, str]:
        found = {one.name: one for one in connect().observe(0, []).nodes}[nodes[3]]
        return found.state, found.reason

    connect().drain([nodes[3]], "fans")
    assert state() == (NodeState.DRAINING, "cordoned")
    connect().undrain([nodes[3]])
    assert state() == (NodeState.UP, "")


def test_what_the_server_refuses_is_told_in_its_words(
    connect: Connects, namespace: str, nodes: tuple[str, ...]
) -> None:
    with pytest.raises(BackendRejectedError, match='namespaces "nowhere" not found'):
        connect().submit(asked("nowhere", "mst-lost-a1", *nodes[:1]), is_repeat=False)
    with pytest.raises(BackendRejectedError) as refused:
        connect().submit(asked(namespace, "Not_A_Name", *nodes[:1]), is_repeat=False)
    assert refused.value.code == "Invalid"


@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        ({"token": "wrong"}, "unauthorized", "Unauthorized"),
        ({"authority": ""}, "unreachable", "certificate is refused"),
    ],
)
def test_what_is_wrong_with_the_connection(
    connect: Connects, wrong: dict[str, str], code: str, words: str
) -> None:
    with pytest.raises(BackendUnavailableError) as refused:
        connect(**wrong).observe(0, [])
    assert (refused.value.code, words in refused.value.words) == (code, True)


def test_a_server_that_dies_and_comes_back(connect: Connects, gamma: LabCluster) -> None:
    backend = connect()  # one that keeps its connections
    before = backend.observe(0, [])
    gamma.kill("kube-apiserver")
    try:
        with pytest.raises(BackendUnavailableError):
            backend.observe(0, [])
    finally:
        gamma.up()

    def answers() -> bool:
        try:
            return len(backend.observe(0, []).nodes) == len(before.nodes)
        except BackendError:
            return False

    eventually(answers, "it answers again")


def test_the_probe_finds_what_is_there(connect: Connects, nodes: tuple[str, ...]) -> None:
    found = {one.capability: one for one in connect().probe(0).findings}
    assert all(found[name].is_on for name in ("reachable", "definitions", "rights", "devices"))
    assert nodes

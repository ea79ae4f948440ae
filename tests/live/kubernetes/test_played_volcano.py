"""The backend against a real API server in which Volcano is played: a gang's whole life."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from clusters.backends.volcano import warm
from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.core.backend import Connection
from clusters.core.container import Container
from clusters.core.gang import Gang
from clusters.core.observation import GangSeen, GangState
from clusters.core.resources import GangShape, NodeShape
from tests.clusters.backends.volcano.test_translate import GANG
from tests.live.kubernetes.lab import LabCluster, eventually
from tests.live.kubernetes.played import GPUS, played

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def fleet(gamma: LabCluster, admin: httpx.Client) -> Iterator[list[str]]:
    with played(gamma, admin) as nodes:
        yield nodes


@pytest.fixture
def backend(gamma: LabCluster, namespace: str, fleet: list[str]) -> Iterator[VolcanoBackend]:
    warm.forget()
    authority = (gamma.directory / "ca.crt").read_text()
    options = {"namespaces": namespace, "authority": authority}
    token = gamma.admin_token.encode()
    made = VolcanoBackend(KubernetesClient(Connection("gamma", gamma.endpoint, token, "", options)))
    yield made
    made.close()


def gang(namespace: str, name: str, nodes: list[str], **more: str) -> Gang:
    return replace(
        GANG,
        fence=f"mst-{name}-a1",
        account=namespace,
        queue="default",
        service_class="",
        shape=GangShape(len(nodes), NodeShape(GPUS, 8, 65_536), exclusive=False),
        device="nvidia.com/gpu:h100",
        nodes=tuple(nodes),
        container=Container("train:1", ("bash", "-c", "sleep 4")),
        grace_s=1,
        **more,
    )


def seen(backend: VolcanoBackend, fence: str) -> GangSeen | None:
    found = [one for one in backend.observe(0, [fence]).gangs if one.fence == fence]
    return found[0] if found else None


def until(backend: VolcanoBackend, fence: str, state: GangState) -> GangSeen:
    def there() -> bool:
        one = seen(backend, fence)
        return one is not None and one.state is state

    eventually(there, f"{fence} is {state}")
    one = seen(backend, fence)
    assert one is not None
    return one


def test_a_gang_of_all_nodes_runs_in_rank_order_and_ends(
    backend: VolcanoBackend, namespace: str, fleet: list[str]
) -> None:
    nodes = fleet[8:] + fleet[:8]
    one = gang(namespace, "whole", nodes)
    made = backend.submit(one)
    assert backend.submit(one) == made
    running = until(backend, one.fence, GangState.RUNNING)
    assert (running.nodes, running.gpus) == (tuple(nodes), GPUS * len(nodes))
    done = until(backend, one.fence, GangState.SUCCEEDED)
    (run,) = done.runs
    assert run.end_ms is not None
    assert 3_000 <= run.end_ms - run.start_ms <= 9_000


def test_a_gang_that_is_cancelled_leaves_its_nodes(
    backend: VolcanoBackend, namespace: str, fleet: list[str]
) -> None:
    one = gang(namespace, "stopped", fleet[:3])
    backend.submit(one)
    until(backend, one.fence, GangState.RUNNING)
    backend.cancel(one.fence, namespace)
    assert until(backend, one.fence, GangState.CANCELLED).runs[0].end_ms is not None

"""The backend against a real API server in which Volcano is played: a gang's whole life."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from threading import Timer

import httpx
import pytest

from clusters.backends.volcano import warm
from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.core.backend import (
    BackendAmbiguousError,
    BackendRejectedError,
    BackendUnavailableError,
    Connection,
)
from clusters.core.container import Container
from clusters.core.gang import Gang
from clusters.core.observation import GangSeen, GangState
from clusters.core.resources import GangShape, NodeShape
from tests.clusters.backends.volcano.test_translate import GANG
from tests.live.kubernetes.lab import LabCluster, apply, eventually, make, path_of
from tests.live.kubernetes.played import GPUS, played
from tests.live.kubernetes.test_rights import CLUSTER, MERGE, TENANT, request_token

pytestmark = pytest.mark.live
HELD = {"generateName": "going-", "finalizers": ["muster.test/hold"]}


@pytest.fixture(scope="module")
def fleet(gamma: LabCluster, admin: httpx.Client) -> Iterator[list[str]]:
    with played(gamma, admin) as nodes:
        yield nodes


@pytest.fixture
def backend(gamma: LabCluster, namespace: str, fleet: list[str]) -> Iterator[VolcanoBackend]:
    warm.forget()
    made = connected(gamma, namespace, gamma.admin_token)
    yield made
    made.close()


def connected(gamma: LabCluster, namespace: str, token: str) -> VolcanoBackend:
    authority = (gamma.directory / "ca.crt").read_text()
    options = {"namespaces": namespace, "authority": authority}
    connection = Connection("gamma", gamma.endpoint, token.encode(), "", options)
    return VolcanoBackend(KubernetesClient(connection))


def gang(namespace: str, name: str, nodes: list[str], seconds: int = 4) -> Gang:
    return replace(
        GANG,
        fence=f"mst-{name}-a1",
        account=namespace,
        queue="default",
        service_class="",
        shape=GangShape(len(nodes), NodeShape(GPUS, 8, 65_536), exclusive=False),
        device="nvidia.com/gpu:h100",
        nodes=tuple(nodes),
        container=Container("train:1", ("bash", "-c", f"sleep {seconds}")),
        grace_s=1,
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


def test_pods_that_are_deleted_by_hand_end_the_gang_whole(
    backend: VolcanoBackend, admin: httpx.Client, namespace: str, fleet: list[str]
) -> None:
    one = gang(namespace, "robbed", fleet[:3], seconds=600)
    backend.submit(one)
    until(backend, one.fence, GangState.RUNNING)
    assert admin.delete(f"{path_of('Pod', namespace)}/{one.fence}-r1-0").status_code == 200
    until(backend, one.fence, GangState.CANCELLED)
    assert pods_of(admin, namespace, one.fence) == []


def test_a_job_that_is_deleted_by_hand_is_absent_and_never_made_anew(
    backend: VolcanoBackend, admin: httpx.Client, namespace: str, fleet: list[str]
) -> None:
    one = gang(namespace, "deleted", fleet[:2], seconds=600)
    made = backend.submit(one)
    until(backend, one.fence, GangState.RUNNING)
    address = f"{path_of('Job', namespace)}/{one.fence}"
    assert admin.delete(address).status_code == 200
    eventually(lambda: pods_of(admin, namespace, one.fence) == [], "its pods went with it")
    assert backend.submit(one, known_as=made.backend_id) == made
    assert admin.get(address).status_code == 404


def test_a_node_that_is_removed_under_a_gang(
    backend: VolcanoBackend, admin: httpx.Client, namespace: str, fleet: list[str]
) -> None:
    """No policy of the job's fires; a cancel that is asked again gives its other nodes back."""
    one = gang(namespace, "uprooted", [fleet[15], fleet[14]], seconds=600)
    backend.submit(one)
    until(backend, one.fence, GangState.RUNNING)
    assert admin.delete(f"{path_of('Node')}/{fleet[15]}").status_code == 200

    def is_over() -> bool:
        backend.cancel(one.fence, namespace)
        found = seen(backend, one.fence)
        return found is not None and found.state.is_final

    eventually(is_over, "it is over", within_s=90)
    assert pods_of(admin, namespace, one.fence) == []


def test_a_namespace_that_goes_refuses_in_the_servers_words(
    backend: VolcanoBackend, admin: httpx.Client, fleet: list[str]
) -> None:
    going = make(admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": HELD})
    name = str(going["metadata"]["name"])
    made = make(admin, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": HELD}, name)
    held = f"{path_of('ConfigMap', name)}/{made['metadata']['name']}"
    assert admin.delete(f"{path_of('Namespace')}/{name}").status_code == 200
    with pytest.raises(BackendRejectedError, match="being terminated"):
        backend.submit(gang(name, "late", fleet[:1]))
    free = admin.patch(held, json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert free.status_code == 200


def test_rights_and_then_the_account_are_taken_away_while_it_runs(
    gamma: LabCluster, admin: httpx.Client, namespace: str, fleet: list[str]
) -> None:
    """What the cluster's admin undoes is the cluster's trouble, never the job's."""
    for manifest in CLUSTER:
        apply(admin, manifest)
    for manifest in TENANT:
        apply(admin, manifest, namespace)
    token = request_token(admin, 600).json()["status"]["token"]
    narrow = connected(gamma, namespace, token)
    one = gang(namespace, "narrow", fleet[:1])
    try:
        eventually(lambda: code_of(lambda: narrow.submit(one)) == "", "it has its rights")
        binding = next(one for one in TENANT if one["kind"] == "RoleBinding")
        address = path_of("RoleBinding", namespace)
        admin.delete(f"{address}/{binding['metadata']['name']}")
        late = gang(namespace, "narrower", fleet[1:2])
        eventually(lambda: code_of(lambda: narrow.submit(late)) == "Forbidden", "it lacks a right")
        account = next(one for one in CLUSTER if one["kind"] == "ServiceAccount")
        admin.delete(f"{path_of('ServiceAccount', 'muster')}/{account['metadata']['name']}")
        eventually(
            lambda: code_of(lambda: narrow.submit(late)) == "unauthorized", "its token is void"
        )
        assert code_of(lambda: narrow.observe(0, [])) == "unauthorized"
        assert pods_of(admin, namespace, late.fence) == []
    finally:
        narrow.close()
        for manifest in reversed(CLUSTER):
            admin.delete(f"{path_of(manifest['kind'], 'muster')}/{manifest['metadata']['name']}")


def test_a_server_that_dies_while_gangs_are_submitted_has_each_of_them_once(
    backend: VolcanoBackend,
    gamma: LabCluster,
    admin: httpx.Client,
    namespace: str,
    fleet: list[str],
) -> None:
    """Volcano's player goes on when the server is back, and so does whoever asks again."""
    gangs = [gang(namespace, f"many-{number}", fleet[:1]) for number in range(60)]
    killer = Timer(0.15, gamma.kill, ["kube-apiserver"])
    killer.start()
    told = [code_of(partial(backend.submit, one, is_repeat=False)) for one in gangs]
    killer.join()
    gamma.up()
    assert {""} < set(told), "some came through and some did not"
    again = [partial(backend.submit, one) for one in gangs]
    eventually(lambda: not any(code_of(call) for call in again), "each of them is there")
    found = admin.get(path_of("Job", namespace)).json()["items"]
    names = [job["metadata"]["name"] for job in found if "many" in job["metadata"]["name"]]
    assert sorted(names) == sorted(one.fence for one in gangs)
    until(backend, gangs[0].fence, GangState.RUNNING)
    for name in names:
        admin.delete(f"{path_of('Job', namespace)}/{name}")


def code_of(call: Callable[[], object]) -> str:
    """How a call fails for now; nothing if it does not."""
    try:
        call()
    except (BackendUnavailableError, BackendAmbiguousError) as refused:
        return refused.code
    return ""


def pods_of(admin: httpx.Client, namespace: str, fence: str) -> list[str]:
    """The pods that a gang holds nodes with."""
    path = f"{path_of('Pod', namespace)}?labelSelector=muster/fence={fence}"
    return [pod["metadata"]["name"] for pod in admin.get(path).json()["items"]]

"""The protocol's cases on a real API server in which Volcano is played."""

import ssl
import time
from collections.abc import Iterator

import httpx
import pytest

from clusters.core.backend import Connection
from tests.clusters.backends.places import VolcanoPlace
from tests.clusters.backends.protocol import CASES, Case
from tests.live.kubernetes.lab import LabCluster
from tests.live.kubernetes.played import played

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def fleet(gamma: LabCluster, admin: httpx.Client) -> Iterator[list[str]]:
    with played(gamma, admin) as nodes:
        yield nodes


@pytest.fixture
def place(gamma: LabCluster, namespace: str, fleet: list[str]) -> Iterator[VolcanoPlace]:
    trusted = ssl.create_default_context(cafile=str(gamma.directory / "ca.crt"))
    token = gamma.admin_token.encode()
    connection = Connection("gamma", gamma.endpoint, token, "", {"namespaces": namespace})
    made = VolcanoPlace(
        connection,
        fleet,
        "default",
        httpx.HTTPTransport(verify=trusted, trust_env=False),
        lambda: time.sleep(0.3),
    )
    yield made
    made.close()


@pytest.mark.parametrize("scenario", CASES, ids=lambda case: case.__name__)
def test_real_api_server(place: VolcanoPlace, scenario: Case) -> None:
    scenario(place)

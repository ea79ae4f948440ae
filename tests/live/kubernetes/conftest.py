"""The lab cluster. Without it these tests are skipped, and say how to have it."""

from collections.abc import Iterator

import httpx
import pytest

from tests.live.kubernetes.lab import HOW, LabCluster, eventually, lab_directory, make, path_of


@pytest.fixture(scope="session")
def gamma() -> LabCluster:
    directory = lab_directory()
    if directory is None:
        pytest.skip(HOW)
    return LabCluster(directory / "clusters" / "gamma")


@pytest.fixture(scope="session")
def admin(gamma: LabCluster) -> Iterator[httpx.Client]:
    with gamma.client(gamma.admin_token) as client:
        yield client


@pytest.fixture(scope="module")
def namespace(admin: httpx.Client) -> Iterator[str]:
    """A namespace of the module's own, for pods too; it goes with all in it."""
    made = make(
        admin, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "team-"}}
    )
    name = str(made["metadata"]["name"])
    account = f"{path_of('ServiceAccount', name)}/default"
    eventually(lambda: admin.get(account).status_code == 200, "it has its default account")
    yield name
    admin.delete(f"{path_of('Namespace')}/{name}")

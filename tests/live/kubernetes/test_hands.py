"""What the backend does at a real API server in need: dead nodes, narrowed rights, other credentials."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from clusters.backends.volcano.backend import VolcanoBackend
from clusters.backends.volcano.client import KubernetesClient
from clusters.core.backend import BackendRejectedError, BackendUnavailableError, Connection
from tests.clusters.backends.volcano.test_simulated import gang
from tests.live.kubernetes.lab import Json, LabCluster, eventually, make, path_of
from tests.live.kubernetes.test_rights import Broker, broker

__all__ = ["broker"]  # a fixture
pytestmark = pytest.mark.live
MERGE = {"content-type": "application/merge-patch+json"}


@pytest.fixture
def connection(gamma: LabCluster, namespace: str) -> Connection:
    authority = (gamma.directory / "ca.crt").read_text()
    options = {"namespaces": namespace, "authority": authority}
    return Connection("gamma", gamma.endpoint, gamma.admin_token.encode(), "", options)


@pytest.fixture
def backend(connection: Connection) -> Iterator[VolcanoBackend]:
    made = VolcanoBackend(KubernetesClient(connection))
    yield made
    made.close()


def stuck_pod(admin: httpx.Client, namespace: str, fence: str) -> str:
    """A pod of the attempt that leaves, on a node that is no more; its path."""
    labels = {"muster/fence": fence, "muster/mark": "muster"}
    container = {"name": "train", "image": "train:1"}
    spec = {"nodeName": "ghost", "containers": [container], "terminationGracePeriodSeconds": 1}
    meta = {"name": f"{fence}-r0-0", "labels": labels}
    make(admin, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, namespace)
    path = f"{path_of('Pod', namespace)}/{fence}-r0-0"
    assert admin.delete(path).status_code == 200
    assert admin.get(path).json()["metadata"]["deletionTimestamp"]  # its kubelet never answers
    return path


def set_phase(admin: httpx.Client, namespace: str, fence: str, phase: str) -> None:
    body = {"status": {"state": {"phase": phase}}}
    path = f"{path_of('Job', namespace)}/{fence}/status"
    answer = admin.patch(path, json=body, headers=MERGE)
    assert answer.status_code == 200, answer.text


def test_a_pod_of_a_dead_node_goes_only_when_its_cancel_is_asked_again(
    backend: VolcanoBackend, admin: httpx.Client, namespace: str
) -> None:
    fence = "mst-dead-a1"
    backend.submit(replace(gang("ghost", name=fence), account=namespace, queue="default"))
    path = stuck_pod(admin, namespace, fence)
    backend.cancel(fence, namespace)  # a Command, and no more: the job does not end yet
    assert admin.get(path).status_code == 200
    set_phase(admin, namespace, fence, "Aborting")

    def gone() -> bool:
        backend.cancel(fence, namespace)
        return admin.get(path).status_code == 404

    eventually(gone, "its grace is over and it is taken away")


def test_a_kubeconfig_is_as_good_as_the_token_in_it(
    connection: Connection, gamma: LabCluster
) -> None:
    authority = base64.b64encode((gamma.directory / "ca.crt").read_bytes()).decode()
    cluster: Json = {"server": gamma.endpoint, "certificate-authority-data": authority}
    config: Json = {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": gamma.admin_token}}],
    }
    secret = yaml.safe_dump(config).encode()
    made = KubernetesClient(replace(connection, secret=secret, options={}))
    assert made.get("/version")["gitVersion"]
    made.close()


def test_a_quota_refuses_and_a_right_that_lacks_makes_wait(
    backend: VolcanoBackend, connection: Connection, admin: httpx.Client, broker: Broker
) -> None:
    """Both are 403 from the same server; it is asked which of the two it is."""
    space = broker.namespace
    hard = {"count/jobs.batch.volcano.sh": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    make(admin, {**quota, "spec": {"hard": hard}}, space)
    one = replace(gang("n", name="mst-quota-a1"), account=space, queue="default")
    place = f"{path_of('ResourceQuota', space)}/none"
    eventually(lambda: bool(admin.get(place).json().get("status")), "the quota is in force")
    with pytest.raises(BackendRejectedError, match="exceeded quota: none") as refused:
        backend.submit(one)
    assert refused.value.code == "Forbidden"
    admin.delete(place)
    token = str(broker.client.headers["authorization"]).removeprefix("Bearer ").encode()
    poor = VolcanoBackend(KubernetesClient(replace(connection, secret=token)))
    with pytest.raises(BackendUnavailableError, match="cannot get resource") as told:
        poor.submit(replace(one, account="default"))  # a namespace that was not given to it
    assert told.value.code == "Forbidden"
    poor.close()


def test_a_client_certificate_is_known_there(connection: Connection, gamma: LabCluster) -> None:
    """Signed as `openssl` would by the authority that the API server takes clients from."""
    pem = (gamma.directory / "certs" / "ca.key").read_bytes()
    signer = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(signer, rsa.RSAPrivateKey)
    authority = x509.load_pem_x509_certificate((gamma.directory / "ca.crt").read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
        x509.NameAttribute(NameOID.COMMON_NAME, "muster-by-certificate"),
    ]
    now = datetime.now(UTC)
    signed = x509.CertificateBuilder(
        issuer_name=authority.subject,
        subject_name=x509.Name(parts),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(minutes=5),
        not_valid_after=now + timedelta(hours=1),
    ).sign(signer, hashes.SHA256())
    secret = signed.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    made = KubernetesClient(replace(connection, secret=secret))
    assert made.items(path_of("Namespace"))
    made.close()

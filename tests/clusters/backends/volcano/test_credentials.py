"""What a cluster is shown of us: tokens, kubeconfigs and certificates; what is refused, by its name."""

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.backends import secret_fault
from clusters.backends.volcano.client import KubernetesClient
from clusters.backends.volcano.credentials import CredentialsError, credentials_of
from clusters.backends.volcano.probe import unreached
from clusters.core.backend import BackendUnavailableError, Connection
from kit.wire import KeptWire, WireError
from tests.clusters.backends.test_tls import make_certificates, serving
from tests.clusters.backends.test_wire import ASK, OK, heard

ENDPOINT = "https://k8s.example:6443"


@pytest.fixture
def identity(tmp_path: Path) -> str:
    """A certificate with its key."""
    make_certificates(tmp_path, "localhost")
    return (tmp_path / "server.pem").read_text()


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def parts(identity: str) -> tuple[str, str]:
    """Certificate and key apart."""
    at = identity.index("-----BEGIN PRIVATE")
    return identity[:at], identity[at:]


def config(cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "contexts": [{"name": "away", "context": {"cluster": "x", "user": "x"}},
                     {"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": ENDPOINT, **cluster}}],
        "users": [{"name": "u", "user": user}],
        **more,
    }  # fmt: skip


def refused(document: Any) -> str:
    text = document if isinstance(document, str) else yaml.safe_dump(document)
    with pytest.raises(CredentialsError) as error:
        credentials_of(text.encode(), ENDPOINT)
    return str(error.value)


def test_a_token() -> None:
    assert credentials_of(b"eyJhbGciOi.x.y\n", ENDPOINT).token == "eyJhbGciOi.x.y"
    for wrong in (b"", b" ", b"two words", "töken".encode(), b"\xff\xfe", b"a\x00b"):
        with pytest.raises(CredentialsError):
            credentials_of(wrong, ENDPOINT)


def test_a_kubeconfig(identity: str) -> None:
    certificate, key = parts(identity)
    cluster = {"certificate-authority-data": data(certificate), "tls-server-name": "kube"}
    user = {"client-certificate-data": data(certificate), "client-key-data": data(key)}
    for server in (ENDPOINT, f"{ENDPOINT}/", "HTTPS://K8S.example:6443"):
        text = yaml.safe_dump(config({**cluster, "server": server}, user))
        found = credentials_of(text.encode(), ENDPOINT)
        assert (found.authority, found.server_name) == (certificate, "kube")
        assert certificate in found.identity
        assert key in found.identity
        assert found.token == ""
    found = credentials_of(yaml.safe_dump(config({}, {"token": "t0ken"})).encode(), ENDPOINT)
    assert (found.token, found.identity) == ("t0ken", "")
    assert "t0ken" not in repr(found)


def test_a_certificate_with_its_key(identity: str) -> None:
    certificate, key = parts(identity)
    for text in (identity, key + certificate):
        assert credentials_of(text.encode(), ENDPOINT).identity == text.strip()
    assert refused(certificate) == "the certificate comes without its key"
    assert refused(key) == "the certificate cannot be read"
    with pytest.raises(CredentialsError, match="over https only"):
        credentials_of(identity.encode(), "http://k8s.example")


def test_a_key_of_another_certificate(identity: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    make_certificates(tmp_path / "other", "localhost")
    other = (tmp_path / "other" / "server.pem").read_text()
    mixed = parts(identity)[0] + parts(other)[1]
    assert refused(mixed) == "the key is not that of the certificate"


TOKEN = {"token": "t"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "exec": (config({}, {"exec": {"command": "aws"}}), "users[u].user.exec is refused: it runs"),
    "auth-provider": (config({}, {"auth-provider": {"name": "gcp"}}), "users[u].user.auth-provider"),
    "token file": (config({}, {"tokenFile": "/etc/shadow"}), "users[u].user.tokenFile is refused"),
    "key file": (config({}, {"client-key": "/k"}), "users[u].user.client-key is refused: it reads"),
    "password": (config({}, {"username": "a", "password": "b"}), "users[u].user.username is refused"),
    "impersonation": (config({}, {**TOKEN, "as": "root"}), "users[u].user.as is refused"),
    "authority file": (config({"certificate-authority": "/ca"}, TOKEN),
                       "clusters[c].cluster.certificate-authority is refused: it reads"),
    "no check": (config({"insecure-skip-tls-verify": True}, TOKEN),
                 "clusters[c].cluster.insecure-skip-tls-verify is refused: anybody"),
    "proxy": (config({"proxy-url": "http://p"}, TOKEN), "clusters[c].cluster.proxy-url is refused"),
    "another server": (config({"server": "https://other:6443"}, TOKEN),
                       f"is https://other:6443, and the cluster's endpoint is {ENDPOINT}"),
    "another port": (config({"server": "https://k8s.example"}, TOKEN), "must be the same"),
    "no user": (config({}, TOKEN, users=[]), "users[u].user is missing"),
    "no cluster": (config({}, TOKEN, clusters="c"), "clusters[c].cluster is missing"),
    "no context": (config({}, TOKEN, **{"current-context": ""}), "current-context is missing"),
    "unknown context": (config({}, TOKEN, **{"current-context": "z"}), "contexts[z].context"),
    "nothing": (config({}, {}), "users[u].user needs a token, or client-certificate-data"),
    "half": (config({}, {"client-key-data": data("-----BEGIN X")}), "users[u].user needs a token"),
    "no base64": (config({"certificate-authority-data": "?"}, TOKEN),
                  "certificate-authority-data is no PEM in base64"),
    "a number": (config({}, {"token": 5}), "users[u].user.token is no word"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_named(case: str) -> None:
    document, words = REFUSED[case]
    assert words in refused(document)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [x]\nb: [*a, *a]", "without aliases"),
        ("a: [\nb: 1", "it is no YAML, line 2"),
        ("- a\n- b", "neither a token, nor a kubeconfig"),
        ("a:\n " + "[" * 5000, "it is no YAML"),
        ("a: !!python/object/apply:os.system ['id']\nb: 1", "it is no YAML"),
        ("a: 1\n\x01", "it is no YAML"),
    ],
)
def test_what_is_no_kubeconfig(text: str, words: str) -> None:
    assert words in refused(text)


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_is_given_is_known_or_refused_and_never_repeated(secret: bytes) -> None:
    words = secret_fault("volcano", secret, ENDPOINT)
    assert words or credentials_of(secret, ENDPOINT).token
    assert len(secret) < 20 or secret.decode(errors="replace") not in words


def test_it_is_told_before_it_is_used_and_when_it_is() -> None:
    text = yaml.safe_dump(REFUSED["exec"][0]).encode()
    assert "users[u].user.exec is refused" in secret_fault("volcano", text, ENDPOINT)
    assert secret_fault("volcano", b"token", ENDPOINT) == ""
    assert secret_fault("slurm", text, ENDPOINT) == ""
    client = KubernetesClient(Connection("k", ENDPOINT, text, "", {}))
    with pytest.raises(BackendUnavailableError) as refusal:
        client.get("/version")
    assert refusal.value.code == "credentials"
    assert "kubeconfig" in unreached(refusal.value).findings[0].fix


def test_a_certificate_is_shown_and_the_servers_name_is_another(tmp_path: Path) -> None:
    ca = make_certificates(tmp_path, "kube.internal")
    authority, identity = ca.read_text(), (tmp_path / "server.pem").read_text()
    shown: list[object] = []

    def serve(peer: ssl.SSLSocket) -> None:
        shown.append(peer.getpeercert(binary_form=True))
        heard(peer)
        peer.sendall(OK)

    with serving(tmp_path, serve, trusted=ca) as endpoint:
        wire = KeptWire(endpoint, 3, authority, identity=identity, server_name="kube.internal")
        assert wire.exchange(ASK, 5).status == 200
        wire.close()
    certificate = parts(identity)[0]
    assert shown == [ssl.PEM_cert_to_DER_cert(certificate.strip())]
    with (
        serving(tmp_path, serve) as endpoint,
        pytest.raises(WireError, match="certificate is refused"),
    ):
        KeptWire(endpoint, 3, authority).exchange(ASK, 5)

"""Exchanges over TLS with an authority of one's own: what is trusted, refused, and cut off."""

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from clusters.backends.slurm.client import SlurmClient
from clusters.core.backend import BackendAmbiguousError, BackendUnavailableError, Connection
from kit.wire import KeptWire, WireError
from tests.clusters.backends.test_wire import ASK, OK, heard

DAY = timedelta(days=1)
Serve = Callable[[ssl.SSLSocket], None]


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def make_certificates(directory: Path, host: str, life: timedelta = DAY) -> Path:
    """An authority, `ca.pem`, and a server's certificate for a host, `server.pem` with its key."""
    authority, server = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    now = datetime.now(UTC)

    def signed(key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        is_ca = key is authority
        builder = x509.CertificateBuilder(
            issuer_name=_name("an authority"),
            subject_name=_name("an authority" if is_ca else "a server"),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - 2 * DAY,
            not_valid_after=now + (DAY if is_ca else life),
        ).add_extension(extension, critical=is_ca)
        return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    key = server.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (directory / "ca.pem").write_bytes(signed(authority, x509.BasicConstraints(True, None)))
    names = x509.SubjectAlternativeName([x509.DNSName(host)])
    (directory / "server.pem").write_bytes(signed(server, names) + key)
    return directory / "ca.pem"


@contextmanager
def serving(directory: Path, serve: Serve, trusted: Path | None = None) -> Iterator[str]:
    """A TLS server on `localhost` that treats one connection so, if it gets that far.

    With an authority to be `trusted` it asks for a certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    if trusted is not None:
        context.load_verify_locations(trusted)
        context.verify_mode = ssl.CERT_REQUIRED
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def run() -> None:
            peer = listener.accept()[0]
            with (
                closing(peer),
                suppress(OSError),  # the client may refuse the handshake
                context.wrap_socket(peer, server_side=True) as secured,
            ):
                serve(secured)

        thread = Thread(target=run, daemon=True)
        thread.start()
        yield f"https://localhost:{listener.getsockname()[1]}/base"
        thread.join(60)
        assert not thread.is_alive()


def answer_three(peer: ssl.SSLSocket) -> None:
    for _ in range(3):
        heard(peer)
        peer.sendall(OK)


def reset(peer: ssl.SSLSocket) -> None:
    """One exchange, then the connection is torn down in the middle of the next."""
    heard(peer)
    peer.sendall(OK)
    heard(peer)
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Certificates for `localhost` of an authority that this machine trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(make_certificates(tmp_path, "localhost")))
    return tmp_path


def test_an_authority_of_the_machine_is_trusted_and_the_connection_kept(trusted: Path) -> None:
    with serving(trusted, answer_three) as url, closing(KeptWire(url, 60)) as wire:
        assert [wire.exchange(ASK, 60).content for _ in range(3)] == [b"{}"] * 3


@pytest.mark.parametrize(
    ("host", "life", "is_known", "words"),
    [
        ("localhost", DAY, False, "unable to get local issuer certificate"),
        ("elsewhere.example", DAY, True, "Hostname mismatch.* 'localhost'"),
        ("localhost", -DAY, True, "certificate has expired"),
    ],
    ids=["unknown authority", "another host", "expired"],
)
def test_a_certificate_that_proves_nothing_is_refused_before_anything_is_sent(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    life: timedelta,
    is_known: bool,
    words: str,
) -> None:
    authority = make_certificates(tmp_path, host, life)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    told: list[bytes] = []
    with serving(tmp_path, lambda peer: told.append(peer.recv(1))) as url:
        options = {"api_version": "v0.0.38"}
        client = SlurmClient(Connection("made", url, b"k" * 32, "slurm", options))
        with pytest.raises(BackendUnavailableError, match=f"certificate is refused: {words}") as no:
            client.write("POST", "job/submit", "mia", {}, fine=())
        client.close()
    assert no.value.code == "unreachable"  # so nothing is ambiguous
    assert told == []


def test_a_connection_torn_down_in_the_middle_was_sent_all_the_same(trusted: Path) -> None:
    with serving(trusted, reset) as url, closing(KeptWire(url, 60)) as wire:
        assert wire.exchange(ASK, 60).status == 200
        with pytest.raises(WireError) as caught:
            wire.exchange(ASK, 60)
    assert caught.value.was_sent


def test_a_write_that_is_torn_down_is_ambiguous(trusted: Path) -> None:
    def tear(peer: ssl.SSLSocket) -> None:
        peer.recv(65536)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with serving(trusted, tear) as url:
        options = {"api_version": "v0.0.38"}
        client = SlurmClient(Connection("made", url, b"k" * 32, "slurm", options))
        with pytest.raises(BackendAmbiguousError):
            client.write("POST", "job/submit", "mia", {}, fine=())
        client.close()

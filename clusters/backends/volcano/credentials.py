"""What a Kubernetes cluster is shown of us: a bearer token, a kubeconfig, or a certificate with its key.

A kubeconfig is a program as much as a file: it may name commands to run, files to read and a server of
its own. Of it only what is written in it counts; all else is refused by its name.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

_RUNS = "it runs a command here"
_READS = "it reads a file of this host; give what is in it"
_ELSE = "it is not supported"
_OF_CLUSTER = {
    "certificate-authority": _READS,
    "insecure-skip-tls-verify": "anybody could answer in the cluster's place",
    "proxy-url": _ELSE,
}
_OF_USER = {
    "exec": _RUNS,
    "auth-provider": _RUNS,
    "tokenFile": _READS,
    "client-certificate": _READS,
    "client-key": _READS,
    "username": _ELSE,
    "password": _ELSE,
    "as": _ELSE,
    "as-uid": _ELSE,
    "as-groups": _ELSE,
    "as-user-extra": _ELSE,
}
_PEM = "-----BEGIN "
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----")
_PORTS = {"https": 443, "http": 80}


class CredentialsError(ValueError):
    """The secret cannot be used; the words name the field and say why, and show nothing of it."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to be known there, and whom to trust; "" = not said.

    `identity` are certificates and their key in PEM, `authority` those that sign the server's
    certificate, `server_name` the name that it bears where that is not the host's.
    """

    token: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)
    authority: str = ""
    server_name: str = ""


def credentials_of(secret: bytes, endpoint: str) -> Credentials:
    """The credentials in a cluster's secret; `endpoint` is where the cluster answers.

    Raises:
        CredentialsError: it is none of the three, or asks for what is not done.
    """
    try:
        text = secret.decode().strip()
    except UnicodeDecodeError:
        raise CredentialsError("it is no text") from None
    if text.startswith(_PEM):
        found = Credentials(identity=text)
    elif "\n" in text or text.startswith("{"):
        found = _of_kubeconfig(text, endpoint)
    elif text and text.isascii() and text.isprintable() and " " not in text:
        return Credentials(token=text)
    else:
        raise CredentialsError("a token is one word of printable letters")
    if found.identity:
        _check(found.identity, endpoint)
    return found


def _of_kubeconfig(text: str, endpoint: str) -> Credentials:
    config = _loaded(text)
    name = _text(config, "current-context", "current-context")
    if not name:
        raise CredentialsError("kubeconfig: current-context is missing")
    context = _named(config, "contexts", name, "context")
    where, who = f"contexts[{name}].context", ("cluster", "user")
    cluster_name, user_name = (_text(context, one, f"{where}.{one}") for one in who)
    cluster = _named(config, "clusters", cluster_name, "cluster")
    user = _named(config, "users", user_name, "user")
    _refuse(cluster, f"clusters[{cluster_name}].cluster", _OF_CLUSTER)
    _refuse(user, f"users[{user_name}].user", _OF_USER)
    server = _text(cluster, "server", f"clusters[{cluster_name}].cluster.server")
    if _place(server) != _place(endpoint):
        raise CredentialsError(
            f"kubeconfig: clusters[{cluster_name}].cluster.server is {server or 'missing'}, and the"
            f" cluster's endpoint is {endpoint}; they must be the same"
        )
    here = f"users[{user_name}].user"
    parts = [_data(user, one, here) for one in ("client-certificate-data", "client-key-data")]
    token = _text(user, "token", f"{here}.token")
    if bool(parts[0]) != bool(parts[1]) or not (token or parts[0]):
        words = "needs a token, or client-certificate-data and client-key-data"
        raise CredentialsError(f"kubeconfig: {here} {words}")
    return Credentials(
        token=token,
        identity="\n".join(filter(None, parts)),
        authority=_data(cluster, "certificate-authority-data", f"clusters[{cluster_name}].cluster"),
        server_name=_text(cluster, "tls-server-name", "tls-server-name"),
    )


def _loaded(text: str) -> Mapping[str, Any]:
    """The document. One that refers to itself is none: it may unfold without end."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise CredentialsError("kubeconfig: write it without aliases (*)")
        config = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, CredentialsError):
            raise
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise CredentialsError(f"kubeconfig: it is no YAML{line}") from None
    if not isinstance(config, Mapping):
        raise CredentialsError("it is neither a token, nor a kubeconfig, nor a certificate in PEM")
    return config


def _named(config: Mapping[str, Any], kind: str, name: str, part: str) -> Mapping[str, Any]:
    """`part` of the entry of that name in a list of the kubeconfig."""
    listed = config.get(kind)
    rows = listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()
    for row in rows:
        if isinstance(row, Mapping) and row.get("name") == name:
            found = row.get(part)
            if isinstance(found, Mapping):
                return found
    raise CredentialsError(f"kubeconfig: {kind}[{name}].{part} is missing")


def _refuse(entry: Mapping[str, Any], where: str, refused: Mapping[str, str]) -> None:
    for name, why in refused.items():
        if entry.get(name):
            raise CredentialsError(f"kubeconfig: {where}.{name} is refused: {why}")


def _text(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = entry.get(name) or ""
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        raise CredentialsError(f"kubeconfig: {where} is no word")
    return value


def _data(entry: Mapping[str, Any], name: str, where: str) -> str:
    """What is written in base64: PEM."""
    try:
        text = base64.b64decode(_text(entry, name, f"{where}.{name}"), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        text = "?"
    if text and _PEM not in text:
        raise CredentialsError(f"kubeconfig: {where}.{name} is no PEM in base64")
    return text


def _place(address: str) -> tuple[str, str, int | None, str]:
    """An address without the ways to write it."""
    try:
        parts = urlsplit(address)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return (address, "", None, "")
    return parts.scheme, parts.hostname or "", port, parts.path.rstrip("/")


def _check(identity: str, endpoint: str) -> None:
    """That it is a certificate and its own key, which can be used there."""
    if urlsplit(endpoint).scheme != "https":
        raise CredentialsError("a certificate is shown over https only, and the endpoint is not")
    try:
        certificate = x509.load_pem_x509_certificates(identity.encode())[0]
    except ValueError:
        raise CredentialsError("the certificate cannot be read") from None
    key = _key(identity)
    try:
        own = load_pem_private_key(key.encode(), password=None).public_key()
    except TypeError:
        raise CredentialsError("the key is encrypted; give it without a password") from None
    except ValueError:
        raise CredentialsError("the key cannot be read") from None
    if own != certificate.public_key():
        raise CredentialsError("the key is not that of the certificate")


def _key(identity: str) -> str:
    """The block of the private key."""
    found = _KEY.search(identity)
    if found is None:
        raise CredentialsError("the certificate comes without its key")
    return found[0]

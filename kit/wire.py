"""One HTTP exchange: over kept connections, or over any httpx transport (recordings).

The standard library's client costs a third of the CPU of a general one, and forwarding a job is
three exchanges. Redirects, cookies and proxies are of no use here.
"""

import select
import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import socket
from tempfile import NamedTemporaryFile
from typing import Protocol
from urllib.parse import urlsplit

import httpx

_CHUNK = 1 << 16


class WireError(Exception):
    """No whole answer came. `was_sent`: the request may have arrived all the same."""

    def __init__(self, words: str, *, was_sent: bool) -> None:
        super().__init__(words)
        self.was_sent = was_sent


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent. `target` is path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Wire(Protocol):
    """Exchanges with one server; safe to share between threads."""

    def exchange(self, request: Request, timeout_s: float) -> Answer:
        """Sends and reads to the end within the time, connecting included.

        Raises:
            WireError: no whole answer in time.
        """
        ...

    def close(self) -> None:
        """Ends the connections that are kept."""
        ...


class KeptWire:
    """Plain HTTP/1.1 with connections kept between exchanges."""

    def __init__(
        self,
        endpoint: str,
        connect_s: float,
        authority: str = "",
        *,
        identity: str = "",
        server_name: str = "",
    ) -> None:
        """`authority` is the one to trust (PEM), "" = the public ones and this machine's.

        `identity` are the certificates and the key to be known by (PEM), "" = none; `server_name` is
        the name that the server's certificate bears, "" = the host's.
        """
        self._authority = authority
        self._identity = identity
        self._server_name = server_name
        self._url = urlsplit(endpoint)
        self._base = self._url.path.rstrip("/")
        self._connect_s = connect_s
        self._idle: deque[HTTPConnection] = deque()

    def exchange(self, request: Request, timeout_s: float) -> Answer:
        """As the protocol says."""
        deadline = time.monotonic() + timeout_s
        connection = self._connected()
        try:
            answer, is_kept = self._over(connection, request, deadline)
        except (OSError, HTTPException) as error:
            connection.close()
            raise WireError(f"{type(error).__name__}: {error}", was_sent=True) from error
        except BaseException:
            connection.close()
            raise
        if is_kept:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        """As the protocol says."""
        while self._idle:
            self._idle.pop().close()

    def _connected(self) -> HTTPConnection:
        """A kept connection that the server has not closed meanwhile, or a new one."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last
                break
            if not _is_readable(connection):  # bytes or an end where none is due: it is over
                return connection
            connection.close()
        connection = self._new()
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            words = f"its certificate is refused: {error.verify_message}"
            raise WireError(words, was_sent=False) from error
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            raise WireError(f"{type(error).__name__}: {error}", was_sent=False) from error
        return connection

    def _new(self) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme != "https":
            return HTTPConnection(host, port, timeout=self._connect_s)
        if self._server_name:
            return _NamedConnection(host, port, self._connect_s, self._trust, self._server_name)
        return HTTPSConnection(host, port, timeout=self._connect_s, context=self._trust)

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        """The cluster's own authority; without one the public ones, and those of this machine or
        of SSL_CERT_FILE.
        """
        if self._authority:
            context = ssl.create_default_context(cadata=self._authority)
        else:
            context = httpx.create_ssl_context(trust_env=False)
            context.load_default_certs()
        if self._identity:
            _show(context, self._identity)
        return context

    def _over(
        self, connection: HTTPConnection, request: Request, deadline: float
    ) -> tuple[Answer, bool]:
        """The answer, and whether the connection may be used again."""
        sock: socket = connection.sock
        _limit(sock, deadline)
        connection.request(
            request.method, self._base + request.target, request.body, dict(request.headers)
        )
        response = connection.getresponse()
        chunks = []
        while not response.isclosed():
            _limit(sock, deadline)
            # what is there already, so that no read waits for longer than the limit just set
            ahead = response.peek(_CHUNK) if response.length != 0 else b""
            chunks.append(response.read(len(ahead) or None))  # the end: raises where more was due
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, b"".join(chunks)), not response.will_close


class _NamedConnection(HTTPSConnection):
    """To a host whose certificate bears another name."""

    def __init__(
        self, host: str, port: int | None, timeout: float, context: ssl.SSLContext, name: str
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._trust, self._name = context, name

    def connect(self) -> None:
        """The connection, and who answers there."""
        HTTPConnection.connect(self)
        self.sock = self._trust.wrap_socket(self.sock, server_hostname=self._name)


def _show(context: ssl.SSLContext, identity: str) -> None:
    """Certificates and key to be known by; the standard library reads them from a file only."""
    with NamedTemporaryFile("w", suffix=".pem") as file:  # for this account alone, and gone at once
        file.write(identity)
        file.flush()
        context.load_cert_chain(file.name)


def _limit(sock: socket, deadline: float) -> None:
    """The next wait ends at the deadline."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the reply did not end in time")
    sock.settimeout(left_s)


def _is_readable(connection: HTTPConnection) -> bool:
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


class HttpxWire:
    """Exchanges over an httpx transport."""

    def __init__(self, endpoint: str, connect_s: float, transport: httpx.BaseTransport) -> None:
        self._connect_s = connect_s
        self._http = httpx.Client(
            base_url=endpoint.rstrip("/"),
            transport=transport,
            trust_env=False,
            follow_redirects=False,
        )

    def exchange(self, request: Request, timeout_s: float) -> Answer:
        """As the protocol says; httpx limits single reads, the deadline limits them all."""
        deadline = time.monotonic() + timeout_s
        sent = self._http.build_request(
            request.method,
            request.target,
            headers=dict(request.headers),
            content=request.body,
            timeout=httpx.Timeout(timeout_s, connect=self._connect_s),
        )
        try:
            with closing(self._http.send(sent, stream=True)) as response:
                chunks = []
                for chunk in response.iter_bytes():
                    chunks.append(chunk)
                    if time.monotonic() > deadline:
                        raise httpx.ReadTimeout("the reply did not end in time", request=sent)
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise WireError(
                f"{type(error).__name__}: {error}", was_sent=not isinstance(error, _NOT_SENT)
            ) from error
        return Answer(response.status_code, dict(response.headers), b"".join(chunks))

    def close(self) -> None:
        """As the protocol says."""
        self._http.close()


_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
)

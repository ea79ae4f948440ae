"""Forwards to the web process what is not an event stream, so that both have one origin.

For one host and the demo. Behind an ingress that routes by path it is not needed.
"""

from collections.abc import AsyncIterator, Iterable

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from config.stream import answer
from kit.errors import WebAwayError

Headers = list[tuple[bytes, bytes]]

# RFC 9110, 7.6.1: for one connection only. The forwarded ones are ours to say.
HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
FORWARDED = frozenset({b"forwarded", b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"})
TIMEOUT = httpx.Timeout(60.0, connect=5.0)
CONNECTIONS = httpx.Limits(max_connections=200, max_keepalive_connections=20, keepalive_expiry=1.0)


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers that travel on: not hop-by-hop, nor named by `Connection`. Names lower case."""
    pairs = [(name.lower(), value) for name, value in headers]
    named = {
        word.strip().lower()
        for name, value in pairs
        if name == b"connection"
        for word in value.split(b",")
    }
    return [pair for pair in pairs if pair[0] not in HOP_BY_HOP | named]


class Proxy:
    """The ASGI application that forwards to `upstream` (`http://host:port`), bodies streamed."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream.rstrip("/")
        self._client = httpx.AsyncClient(timeout=TIMEOUT, limits=CONNECTIONS, trust_env=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request; 502 while nothing of an answer has come."""
        request = Request(scope, receive)
        try:
            response = await self._client.send(self._outgoing(request), stream=True)
        except ClientDisconnect:
            return
        except httpx.TransportError:
            error = WebAwayError("Try again in a moment.", retry_after_s=2)
            await answer(error)(scope, receive, send)
            return
        try:
            await _pass_on(response, send)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close the connections to the web process."""
        await self._client.aclose()

    def _outgoing(self, request: Request) -> httpx.Request:
        scope = request.scope
        headers = [pair for pair in end_to_end(scope["headers"]) if pair[0] not in FORWARDED]
        client = scope.get("client")
        if client:
            headers.append((b"x-forwarded-for", client[0].encode()))
        headers.append((b"x-forwarded-proto", scope["scheme"].encode()))
        target = scope.get("raw_path", scope["path"].encode())
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        url = httpx.URL(self._upstream).copy_with(raw_path=target)
        given = {name.lower() for name, _ in scope["headers"]}
        has_body = bool(given & {b"content-length", b"transfer-encoding"})
        content = _body(request) if has_body else None
        return httpx.Request(request.method, url, headers=headers, content=content)


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        if chunk:
            yield chunk


async def _pass_on(response: httpx.Response, send: Send) -> None:
    headers = end_to_end(response.headers.raw)
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    async for chunk in response.aiter_raw():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})

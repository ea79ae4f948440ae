"""All clusters of a configuration in one process: an HTTP server each, one event loop."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from simulator.config import Cluster, Config, ConfigError
from simulator.control import answer_control
from simulator.runtime import SAVE_INTERVAL_MS, Running
from simulator.slurm.app import DropConnection, serve

Transports = dict[tuple[str, int], asyncio.Transport]


def build_app(cluster: Running, transports: Transports | None = None) -> ASGIApp:
    """The ASGI application of one cluster. `transports` lets faults cut connections."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await _respond(cluster, request)
        except DropConnection as drop:
            await _drop(drop, request, transports or {}, send)
            return
        await response(scope, receive, send)

    root = Starlette()
    root.mount("/", app)
    return root


async def _respond(cluster: Running, request: Request) -> Response:
    if cluster.config.control and request.url.path.startswith("/_control"):
        body = await request.body()
        result = answer_control(cluster, request.method, request.url.path, body)
        return Response(result.text, result.status, media_type=result.content_type)
    return await serve(cluster, request)


async def _drop(drop: DropConnection, request: Request, transports: Transports, send: Send) -> None:
    """Close the connection, after half of the answer if there is one."""
    if drop.sent is not None:
        data = drop.sent.text.encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": drop.sent.status, "headers": headers})
        body = {"type": "http.response.body", "body": data[: len(data) // 2], "more_body": True}
        await send(body)
    client = request.client
    transport = transports.get((client.host, client.port)) if client is not None else None
    if transport is not None:
        transport.close() if drop.sent is not None else transport.abort()
        # Let the server notice before it asks why there was no answer.
        await asyncio.sleep(0.01)


def _protocol(transports: Transports) -> type[asyncio.Protocol]:
    """uvicorn's protocol, keeping note of open connections by the client's address."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if self.client is not None:
                transports[self.client] = transport

        def connection_lost(self, exc: Exception | None) -> None:
            if self.client is not None:
                transports.pop(self.client, None)
            super().connection_lost(exc)

    return Protocol


class ClusterServer(uvicorn.Server):
    """One cluster's server; signals are handled once for all, by `run`."""

    def __init__(self, cluster: Running) -> None:
        """Prepare to listen where the cluster's configuration says."""
        transports: Transports = {}
        self.cluster = cluster
        self.listener = _listen(cluster.config)
        super().__init__(
            uvicorn.Config(
                build_app(cluster, transports),
                http=_protocol(transports),
                log_level="warning",
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=1,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Leave signals to `run`."""
        yield

    @property
    def port(self) -> int:
        """The port it listens on."""
        number: int = self.listener.getsockname()[1]
        return number


def _listen(config: Cluster) -> socket.socket:
    """A listening socket; ConfigError if the port is taken."""
    # Named as TCP, or asyncio would not switch off Nagle's delay on its connections.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cluster {config.name}: port {config.port}: {error}") from error
    return listener


class Fleet:
    """All clusters of a configuration, to be run in one event loop."""

    def __init__(self, config: Config) -> None:
        """Read keys and saved states; ConfigError if one cannot be read."""
        self.servers = [ClusterServer(Running(cluster)) for cluster in config.clusters]
        self._stopping = asyncio.Event()

    async def run(self, ready: Callable[[dict[str, int]], None]) -> None:
        """Serve until `stop`; `ready` is told each cluster's port once all listen."""
        tasks = [
            asyncio.create_task(server.serve(sockets=[server.listener])) for server in self.servers
        ]
        try:
            while not all(server.started for server in self.servers):
                await asyncio.sleep(0.01)
            ready({s.cluster.config.name: s.port for s in self.servers})
            while not self._stopping.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), SAVE_INTERVAL_MS / 1000)
                self._keep()
        finally:
            for server in self.servers:
                server.should_exit = True
            await asyncio.gather(*tasks, return_exceptions=True)
            self._keep()

    def stop(self) -> None:
        """Ask for a clean end."""
        self._stopping.set()

    def _keep(self) -> None:
        """Let time pass on clusters nobody asks, and write their files."""
        for server in self.servers:
            server.cluster.now_ms()
            server.cluster.save()


async def run(config: Config) -> None:
    """Serve all clusters until SIGTERM or SIGINT; one line on stdout says they are ready."""
    fleet = Fleet(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, fleet.stop)

    def ready(ports: dict[str, int]) -> None:
        sys.stdout.write(f"ready {json.dumps(ports)}\n")
        sys.stdout.flush()

    await fleet.run(ready)

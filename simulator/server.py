"""All clusters of a configuration in one process: an HTTP server each, one event loop."""

import asyncio
import contextlib
import json
import signal
import socket
import struct
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
from simulator.kubernetes import app as kubernetes
from simulator.runtime import SAVE_INTERVAL_MS, Running, Timed
from simulator.slurm.app import serve
from simulator.slurm.calls import DropConnection
from simulator.volcano.cluster import VolcanoCluster

Transports = dict[tuple[str, int], asyncio.Transport]


def begin(config: Cluster) -> Timed:
    """A cluster of the configured kind in operation."""
    return VolcanoCluster(config) if config.kind == "volcano" else Running(config)


def build_app(
    cluster: Timed,
    transports: Transports | None = None,
    shut: Callable[[int], None] | None = None,
) -> ASGIApp:
    """The ASGI application of one cluster.

    `transports` lets faults cut connections, `shut` shuts the door for so many milliseconds.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await respond(cluster, request)
            await response(scope, receive, send)
        except DropConnection as drop:
            await _drop(drop, request, transports or {}, send)
            return
        if cluster.faults.refuse_ms and shut is not None:
            shut(cluster.faults.refuse_ms)
            cluster.faults.refuse_ms = 0

    root = Starlette()
    root.mount("/", app)
    return root


async def respond(cluster: Timed, request: Request) -> Response:
    """Answer a request to the cluster or its side door; DropConnection if there is no answer."""
    if cluster.config.control and request.url.path.startswith("/_control"):
        body = await request.body()
        result = answer_control(cluster, request.method, request.url.path, body)
        return Response(result.text, result.status, media_type=result.content_type)
    if isinstance(cluster, VolcanoCluster):
        return await kubernetes.serve(cluster, request)
    if not isinstance(cluster, Running):
        raise TypeError(f"no server for {type(cluster).__name__}")
    return await serve(cluster, request)


async def _drop(drop: DropConnection, request: Request, transports: Transports, send: Send) -> None:
    """Close or reset the connection, after half of the answer if there is one."""
    if drop.sent is not None:
        data = drop.sent.text.encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": drop.sent.status, "headers": headers})
        body = {"type": "http.response.body", "body": data[: len(data) // 2], "more_body": True}
        await send(body)
    client = request.client
    transport = transports.get((client.host, client.port)) if client is not None else None
    if transport is not None:
        if drop.reset:
            _reset_on_close(transport)
        transport.close() if drop.sent is not None else transport.abort()
        # Let the server notice before it asks why there was no answer.
        await asyncio.sleep(0.01)


def _reset_on_close(transport: asyncio.Transport) -> None:
    """Closing shall send RST: with a linger time of zero, TCP does not say goodbye."""
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


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

    def __init__(self, cluster: Timed) -> None:
        """Prepare to listen where the cluster's configuration says."""
        self.transports: Transports = {}
        self.cluster = cluster
        self.listener = _listen(cluster.config, cluster.config.port)
        self.port: int = self.listener.getsockname()[1]
        self._shut: asyncio.Task[None] | None = None
        super().__init__(
            uvicorn.Config(
                build_app(cluster, self.transports, self.shut),
                http=_protocol(self.transports),
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

    def shut(self, ms: int) -> None:
        """End all connections and refuse new ones for so long; a door that is shut stays so."""
        if self._shut is None or self._shut.done():
            self._shut = asyncio.create_task(self._stay_shut(ms))

    async def _stay_shut(self, ms: int) -> None:
        self.servers.pop().close()
        # Bound again and not listening: the port stays ours, and who knocks is refused.
        held = _listen(self.cluster.config, self.port)
        for transport in list(self.transports.values()):
            transport.close()
        try:
            await asyncio.sleep(ms / 1000)
            loop = asyncio.get_running_loop()
            self.servers.append(await loop.create_server(self._protocol, sock=held))
        except asyncio.CancelledError:
            held.close()
            raise

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, also behind a door that is shut."""
        if self._shut is not None and not self._shut.done():
            self._shut.cancel()
            await asyncio.gather(self._shut, return_exceptions=True)
        await super().shutdown(sockets)


def _listen(config: Cluster, port: int) -> socket.socket:
    """A socket bound to listen; ConfigError if the port is taken."""
    # Named as TCP, or asyncio would not switch off Nagle's delay on its connections.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(f"cluster {config.name}: port {port}: {error}") from error
    return listener


class Fleet:
    """All clusters of a configuration, to be run in one event loop."""

    def __init__(self, config: Config) -> None:
        """Read keys and saved states; ConfigError if one cannot be read."""
        self.servers = [ClusterServer(begin(cluster)) for cluster in config.clusters]
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

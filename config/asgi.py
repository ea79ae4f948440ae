"""The `stream` process: the event stream; the rest goes to `web` when MUSTER_WEB_UPSTREAM is set."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import FrameType

import django
from django.conf import settings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from config.stream import Pace, Stream, answer  # noqa: E402
from config.stream_feed import Feed  # noqa: E402
from config.stream_proxy import Proxy  # noqa: E402
from kit.errors import NotFoundError, StreamUnavailableError  # noqa: E402

EVENTS = "/api/v1/events"


def _also_on_stop(work: Callable[[], None]) -> None:
    """Run `work` when the process is told to stop, before the server's own handler.

    A server waits for open answers before it stops; an event stream must therefore hear of the
    stop first.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)

        def handle(received: int, frame: FrameType | None, before: object = before) -> None:
            loop.call_soon_threadsafe(work)
            if callable(before):
                before(received, frame)

        signal.signal(number, handle)


async def _not_here(request: Request) -> Response:
    return answer(NotFoundError(f"{request.method} {request.url.path} is not to be had."))


def build(*, database_url: str, upstream: str, pace: Pace, memory: int = 10_000) -> ASGIApp:
    """The application: events here, the rest to `upstream` (or 404 when it is empty)."""
    feed = Feed(database_url, memory=memory)
    stream = Stream(feed, pace)
    proxy = Proxy(upstream) if upstream else None

    async def readyz(_: Request) -> Response:
        if feed.is_up:
            return JSONResponse({"status": "ok"})
        return answer(StreamUnavailableError("The event table cannot be read."))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        _also_on_stop(stream.close)
        reading = asyncio.create_task(feed.run())
        yield
        stream.close()
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        if proxy is not None:
            await proxy.close()

    routes: list[Route | Mount] = [Route(EVENTS, stream)]
    if proxy is not None:
        routes.append(Mount("", proxy))
    else:
        routes += [Route("/readyz", readyz), Route("/{path:path}", _not_here, methods=None)]
    return Starlette(routes=routes, lifespan=lifespan)


application = build(
    database_url=settings.DATABASE_DIRECT_URL,
    upstream=settings.ENVIRONMENT.web_upstream,
    pace=Pace(),
)

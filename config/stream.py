"""`GET /api/v1/events`: server-sent events of the changes a caller may see.

Each client is a cursor into the one feed (`config.stream_feed`): no queue and no database
connection of its own. A client that does not read is dropped when a write has waited too long; it
resumes with `Last-Event-ID`. Who the caller is, is looked up once and again every minute, so a
revoked token, an ended session or a lost membership ends or narrows the stream.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user
from django.db import close_old_connections
from django.http import HttpRequest
from django.utils import timezone
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from config.stream_feed import Entry, Feed, FeedDownError, Position
from kit.errors import (
    FieldProblem,
    MethodNotAllowedError,
    MusterError,
    NotAuthenticatedError,
    PermissionDeniedError,
    StreamUnavailableError,
    UnknownParameterError,
)
from kit.pagination import refuse_unknown
from kit.problem import PROBLEM_JSON, problem, problem_headers
from tenancy.models import Scope, User
from tenancy.selectors.access import token_principal, visible_tenant_ids

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
RETRY_MS = 2_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen on a stream, in seconds."""

    heartbeat_s: float = 15.0
    recheck_s: float = 60.0
    stall_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Viewer:
    """What a caller may see: events of these tenants; None = all, and those of no tenant."""

    tenants: frozenset[UUID] | None

    def sees(self, item: Entry) -> bool:
        """Whether the caller may know of the event."""
        return self.tenants is None or item.tenant_id in self.tenants


def answer(error: MusterError) -> JSONResponse:
    """An error as the API writes it."""
    return JSONResponse(
        problem(error), error.status, problem_headers(error), media_type=PROBLEM_JSON
    )


def _token_user(token: str) -> User | None:
    principal = token_principal(token, timezone.now())  # noqa: TID251 - the edge
    if principal is None:
        return None
    if Scope.READ not in principal.scopes:
        raise PermissionDeniedError("The token lacks the scope 'read'.")
    return principal.user


def _session_user(key: str) -> User | None:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = get_user(request)
    return user if isinstance(user, User) else None


def find_viewer(authorization: str, session_key: str) -> Viewer:
    """Who asks, by bearer token or session, and what they may see now. Reads the database.

    Raises:
        NotAuthenticatedError: neither is valid now.
        PermissionDeniedError: the token lacks the scope `read`.
    """
    kind, _, token = authorization.partition(" ")
    if kind.lower() == "bearer":
        user = _token_user(token.strip())
    else:
        user = _session_user(session_key) if session_key else None
    if user is None:
        raise NotAuthenticatedError("Send a bearer token, or sign in.")
    visible = visible_tenant_ids(user)
    return Viewer(None if visible is None else frozenset(visible))


def last_event_id(request: Request) -> int | None:
    """The id to go on behind: `Last-Event-ID` (a reconnect) before `since`; None = from now on.

    Raises:
        UnknownParameterError: not a number, or another parameter.
    """
    refuse_unknown(request.query_params, ["since"])
    raw = request.headers.get("last-event-id") or request.query_params.get("since")
    if raw is None:
        return None
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 18):
        detail = "since (or Last-Event-ID) must be the id of an event, or 0."
        raise UnknownParameterError(
            detail, errors=[FieldProblem("?since", "invalid_parameter", detail)]
        )
    return int(raw)


class Stream:
    """The ASGI endpoint. `feed` must be running."""

    def __init__(self, feed: Feed, pace: Pace) -> None:
        self._feed = feed
        self._pace = pace
        self._threads = ThreadPoolExecutor(2, "stream-orm")

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request: a problem, or a stream that lasts until either side ends it."""
        request = Request(scope)
        try:
            if request.method != "GET":
                raise MethodNotAllowedError("Events can only be read (GET).")
            viewer = await self._viewer(request)
            since = last_event_id(request)
            feed = self._feed
            position = await (feed.end() if since is None else feed.position_of(since))
        except MusterError as error:
            await answer(error)(scope, receive, send)
            return
        except FeedDownError:
            away = StreamUnavailableError("Try again in a moment.", retry_after_s=2)
            await answer(away)(scope, receive, send)
            return
        await self._serve(receive, send, self._frames(request, viewer, position))

    def close(self) -> None:
        """End the streams and the threads (the process stops)."""
        self._feed.close()
        self._threads.shutdown(wait=False)

    async def _viewer(self, request: Request) -> Viewer:
        authorization = request.headers.get("authorization", "")
        session = request.cookies.get(settings.SESSION_COOKIE_NAME, "")

        def look() -> Viewer:
            close_old_connections()
            try:
                return find_viewer(authorization, session)
            finally:
                close_old_connections()

        return await asyncio.get_running_loop().run_in_executor(self._threads, look)

    async def _frames(
        self, request: Request, viewer: Viewer, position: Position
    ) -> AsyncIterator[bytes]:
        """What one client is sent, from `position` on, until its stream must end.

        A heartbeat also moves the client's last id on, so that a quiet client resumes from here
        and not from its last own event.
        """
        clock, pace = asyncio.get_running_loop().time, self._pace
        recheck_at = clock() + pace.recheck_s
        heartbeat_at = clock() + pace.heartbeat_s
        yield f"retry: {RETRY_MS}\nid: {position.id}\n\n".encode()
        while not self._feed.is_closed:
            if clock() >= recheck_at:
                viewer = await self._viewer(request)
                recheck_at = clock() + pace.recheck_s
            page = await self._feed.after(position)
            position = page[-1].position if page else position
            if seen := b"".join(item.frame for item in page if viewer.sees(item)):
                yield seen
                heartbeat_at = clock() + pace.heartbeat_s
            elif clock() >= heartbeat_at:
                yield f": still here\nid: {position.id}\n\n".encode()
                heartbeat_at = clock() + pace.heartbeat_s
            if not page:
                await self._feed.wait(min(heartbeat_at, recheck_at) - clock())

    async def _serve(self, receive: Receive, send: Send, frames: AsyncIterator[bytes]) -> None:
        """Send the frames until they end, the client leaves, or a write stalls."""
        sender = asyncio.create_task(self._send_all(send, frames))
        left = asyncio.create_task(_until_left(receive))
        await asyncio.wait({sender, left}, return_when=asyncio.FIRST_COMPLETED)
        for task in (sender, left):
            task.cancel()
        await asyncio.gather(sender, left, return_exceptions=True)
        if not sender.cancelled():
            sender.result()

    async def _send_all(self, send: Send, frames: AsyncIterator[bytes]) -> None:
        """Send the frames, each within its time, and a last comment that says why it ends."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        why = "the server stops; resume in a moment"
        try:
            async for frame in frames:
                async with asyncio.timeout(self._pace.stall_s):
                    await _send_body(send, frame, more=True)
        except TimeoutError:
            why = "you read too slowly; resume with Last-Event-ID"
        except MusterError:
            why = "your access has ended"
        except FeedDownError:
            why = "the event table cannot be read now; resume in a moment"
        with suppress(TimeoutError):  # a full socket takes no last words either
            async with asyncio.timeout(self._pace.stall_s):
                await _send_body(send, f": {why}\n\n".encode(), more=False)


async def _send_body(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

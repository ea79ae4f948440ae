"""The one reader of the event table: what it reads, in which order, and what it remembers.

**Order.** Ids are handed out when a row is written, not when its transaction commits, so a reader
that asks for "ids above the last one" skips rows of transactions that commit late. Every event
carries the id of its transaction (`xid`), and the order of the stream is (xid, id). Only events
below `pg_snapshot_xmin` are read: every transaction below it is over, so no event can appear later
at or before a position that was read. Nothing is skipped and nothing comes twice.

**Resuming.** A client names the last event it got by its id; the id's row gives the position, and
the stream goes on behind it. 0 stands for the beginning. An id that is not kept any more (pruned)
stands for the first transaction that wrote a higher id: some events may come again, none is lost.
"""

import asyncio
import json
import logging
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from kit.intervals import iso

logger = logging.getLogger(__name__)

CHANNEL = "muster"
PAGE = 500
BEGINNING_ID = 0

_READ = """
    SELECT e.xid, e.id, e.tenant_id, t.path, e.at, e.kind, e.subject, e.cause, e.data
    FROM tenancy_event e LEFT JOIN tenancy_tenant t ON t.id = e.tenant_id
    WHERE (e.xid, e.id) > (%s, %s)
      AND e.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    ORDER BY e.xid, e.id LIMIT %s"""
_END = """
    SELECT xid, id FROM tenancy_event
    WHERE xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    ORDER BY xid DESC, id DESC LIMIT 1"""
_XID_OF = "SELECT xid FROM tenancy_event WHERE id = %s"
_FIRST_XID_AFTER = "SELECT min(xid) FROM tenancy_event WHERE id > %s"


class Position(NamedTuple):
    """A place in the stream: everything up to it was read."""

    xid: int
    id: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One event, ready to be sent. `tenant_id` None: for admins only."""

    position: Position
    tenant_id: UUID | None
    frame: bytes


def entry(row: Sequence[Any]) -> Entry:
    """An event's row as a frame of the stream: `id:` and one line of JSON as `data:`."""
    xid, number, tenant_id, path, at, kind, subject, cause, data = row
    document = {
        "id": number,
        "at": iso(at),
        "kind": kind,
        "tenant": path,
        "subject": subject,
        "cause": cause,
        "data": data,
    }
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return Entry(Position(xid, number), tenant_id, f"id: {number}\ndata: {body}\n\n".encode())


class FeedDownError(Exception):
    """The database does not answer now; the feed tries again by itself."""


class Feed:
    """Follows the event table for all clients over two connections, however many clients there are.

    One connection listens for the doorbell, the other reads. The newest `memory` events are kept
    in order; a client that is further back is served from the table, page by page.
    """

    def __init__(self, url: str, *, poll_s: float = 1.0, memory: int = 10_000) -> None:
        self._url = url
        self._poll_s = poll_s
        self._memory = memory
        self._entries: list[Entry] = []
        self._forgotten = Position(0, 0)  # everything after it is in `_entries`
        self._end: Position | None = None
        self._reader: psycopg.AsyncConnection[Any] | None = None
        self._news = asyncio.Event()
        self.is_closed = False

    @property
    def is_up(self) -> bool:
        """Whether the feed has its connection and knows where the table ends."""
        return self._reader is not None and self._end is not None

    def close(self) -> None:
        """Tell every client to end its stream (the process stops)."""
        self.is_closed = True
        self._ring()

    async def run(self) -> None:
        """Follow the table until cancelled; a lost database is tried again each second."""
        while True:
            try:
                await self._follow()
            except (psycopg.Error, OSError, FeedDownError) as error:
                logger.warning("the event table cannot be read: %s", error)
            self._reader = None
            await asyncio.sleep(self._poll_s)

    async def end(self) -> Position:
        """Where the stream ends now.

        Raises:
            FeedDownError: not known, because the database does not answer.
        """
        if self._end is None:
            raise FeedDownError
        return self._end

    async def position_of(self, event_id: int) -> Position:
        """Where a client stands that got `event_id` last (see the rule above).

        Raises:
            FeedDownError: the database does not answer.
        """
        if event_id == BEGINNING_ID:
            return Position(0, 0)
        known = await self._fetch(_XID_OF, (event_id,))
        if known:
            return Position(known[0][0], event_id)
        first = (await self._fetch(_FIRST_XID_AFTER, (event_id,)))[0][0]
        return await self.end() if first is None else Position(first, 0)

    async def after(self, position: Position) -> list[Entry]:
        """The next events behind a position, at most a page; empty at the end of the stream.

        Raises:
            FeedDownError: the database would have to be asked and does not answer.
        """
        if position < self._forgotten:
            return [entry(row) for row in await self._fetch(_READ, (*position, PAGE))]
        start = bisect_right(self._entries, position, key=attrgetter("position"))
        return self._entries[start : start + PAGE]

    async def wait(self, timeout_s: float) -> None:
        """Sleep until there is news, or for `timeout_s`."""
        news = self._news
        with suppress(TimeoutError):
            async with asyncio.timeout(max(timeout_s, 0)):
                await news.wait()

    async def _follow(self) -> None:
        async with (
            await psycopg.AsyncConnection.connect(self._url, autocommit=True) as reader,
            await psycopg.AsyncConnection.connect(self._url, autocommit=True) as bell,
        ):
            self._reader = reader
            await bell.execute(f"LISTEN {CHANNEL}")
            if self._end is None:
                ends = await self._fetch(_END, ())
                self._end = self._forgotten = Position(*ends[0]) if ends else Position(0, 0)
            while True:
                await self._read_on()
                async for _ in bell.notifies(timeout=self._poll_s, stop_after=1):
                    pass

    async def _read_on(self) -> None:
        """Read to the end of the table and ring."""
        if self._end is None:
            raise FeedDownError
        while rows := await self._fetch(_READ, (*self._end, PAGE)):
            self._entries += [entry(row) for row in rows]
            self._end = self._entries[-1].position
            if len(self._entries) > 2 * self._memory:
                self._forgotten = self._entries[-self._memory - 1].position
                del self._entries[: -self._memory]
            self._ring()

    def _ring(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _fetch(self, sql: str, values: Sequence[object]) -> list[Any]:
        if self._reader is None:
            raise FeedDownError
        try:
            return await (await self._reader.execute(sql, values)).fetchall()
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise FeedDownError from error

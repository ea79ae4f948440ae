"""The arbiter: one leader decides, standbys wait.

Leadership is a session advisory lock on a connection of its own; it ends with the connection. The
lock is not the fence: `commit_plan` requires the epoch that this term began with.
"""

import logging
import signal
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import OperationalError, close_old_connections
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from federation import tasks
from federation.core.cycle import decide
from federation.selectors.snapshot import Waiting, take_snapshot
from federation.services.commit import Committed, TermLostError, begin_term, commit_plan
from federation.services.evict import tend_evictions
from federation.services.life import tend_clusters
from federation.services.reasons import Memory
from kit import collector, spans
from tenancy.services.records import CHANNEL

logger = logging.getLogger(__name__)
LOCK = (0x6D7374, 1)
NUDGE_EXPIRES_S = 10


class Command(BaseCommand):
    """Decides which waiting jobs run where, over and over, while it leads."""

    help = "Run the arbiter. Several may run; one leads."
    _stopping = False

    def add_arguments(self, parser: CommandParser) -> None:
        """`--once` decides once, when nobody else leads, and ends."""
        parser.add_argument("--once", action="store_true", help="one cycle, then end")

    def handle(self, *_: Any, once: bool, **__: Any) -> None:
        """Lead, and when leadership is lost, wait for it again; end on SIGTERM or SIGINT."""
        collector.settle()
        if not once:
            signal.signal(signal.SIGTERM, self._stop)
            signal.signal(signal.SIGINT, self._stop)
        while not self._stopping:
            try:
                with closing(psycopg.connect(settings.DATABASE_DIRECT_URL, autocommit=True)) as own:
                    self._lead(own, once=once)
            except (psycopg.OperationalError, OperationalError, TermLostError) as error:
                logger.warning("leadership ended: %s", str(error).strip())
                if once:
                    raise
                close_old_connections()
                self._sleep(settings.ENVIRONMENT.arbiter_interval_ms / 1000)
            if once:
                return

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _sleep(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self._stopping and time.monotonic() < until_s:
            time.sleep(0.05)

    def _lead(self, own: "psycopg.Connection[Any]", *, once: bool) -> None:
        """Wait for the lock, then one cycle after the other until told to stop."""
        interval_s = settings.ENVIRONMENT.arbiter_interval_ms / 1000
        while not _takes_lock(own):
            if once or self._stopping:
                return
            self._sleep(interval_s)
        epoch = begin_term(now=timezone.now())
        logger.info("leading, epoch %s", epoch)
        own.execute(f"LISTEN {CHANNEL}")
        waiting, memory = Waiting(), Memory()
        while not self._stopping:
            with spans.around("cycle"):
                run_cycle(epoch, waiting, memory)
            if once:
                return
            _wait(own, interval_s)


def _takes_lock(own: "psycopg.Connection[Any]") -> bool:
    row = own.execute("SELECT pg_try_advisory_lock(%s, %s)", LOCK).fetchone()
    return bool(row and row[0])


def _wait(own: "psycopg.Connection[Any]", seconds: float) -> None:
    """Sleep until the doorbell rings or the time is over; many rings are one."""
    for _ in own.notifies(timeout=seconds, stop_after=1):
        pass
    for _ in own.notifies(timeout=0):
        pass


@collector.paused()
def run_cycle(epoch: int, waiting: Waiting, memory: Memory) -> Committed:
    """Tend what leaves and who is evicted; snapshot, decide, commit, nudge; one line says what was done, if anything.

    Raises:
        TermLostError: another arbiter leads now.
    """
    tend_clusters(now=timezone.now())
    nudge(tend_evictions(now=timezone.now()))
    began_s = time.monotonic()
    snapshot = take_snapshot(timezone.now(), waiting)
    plan = decide(snapshot)
    took_ms = round((time.monotonic() - began_s) * 1000)
    committed = commit_plan(
        plan=plan, epoch=epoch, now=timezone.now(), took_ms=took_ms, memory=memory
    )
    waiting.leave(committed.jobs)
    nudge(committed.clusters)
    if committed.bound or committed.stale:
        logger.info(
            "bound %s of %s waiting, %s stale, %s told, %s ms",
            committed.bound,
            len(snapshot.jobs),
            committed.stale,
            committed.told,
            round((time.monotonic() - began_s) * 1000),
        )
    return committed


def nudge(clusters: Iterable[UUID]) -> None:
    """Tell the workers that orders wait. Without a broker the rows wait for the next tick."""
    for cluster in clusters:
        try:
            tasks.dispatch.apply_async(
                (str(cluster),), queue="dispatch", expires=NUDGE_EXPIRES_S, retry=False
            )
        except (BrokerError, OSError) as error:
            logger.warning("the broker is away, the next tick will deliver: %s", error)
            return

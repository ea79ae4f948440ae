"""Work that may hang on somebody else's server, done in threads of its own.

A worker's threads wait for it only so long and then serve others, so that servers that hang cannot
use them all up. What was slow last time may have half of the threads at most: the other half is
for those that are not known to be.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from threading import Lock

logger = logging.getLogger(__name__)


class Spaced:
    """Lets through one of the callers that come at about the same time: the first."""

    def __init__(self, gap_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap_s, self._clock = gap_s, clock
        self._lock = Lock()
        self._next_s = 0.0

    def is_due(self) -> bool:
        """Whether nobody else was let through within the last `gap_s`."""
        with self._lock:
            now_s = self._clock()
            if now_s < self._next_s:
                return False
            self._next_s = now_s + self._gap_s
            return True


class Aside:
    """Runs acts, one a key at a time, and waits for each no longer than `patience_s`."""

    def __init__(self, threads: int, patience_s: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="aside")
        self._most_slow = max(1, threads // 2)
        self._patience_s = patience_s
        self._lock = Lock()
        self._at_work: set[str] = set()
        self._slow: set[str] = set()

    def run(self, key: str, act: Callable[[], None]) -> bool:
        """Does it, and raises what it raises; False when it goes on without the caller.

        False, too, when it is not begun: an act of this key is at work, or those that were slow
        have their share of the threads. Whoever calls must call again later.
        """
        if not self._admit(key):
            return False
        future = self._pool.submit(copy_context().run, self._work, key, act)  # with the log's ids
        wait([future], timeout=self._patience_s)
        if not future.done():
            return False
        future.result()
        return True

    def close(self) -> None:
        """Waits for what is at work."""
        self._pool.shutdown()

    def _admit(self, key: str) -> bool:
        with self._lock:
            is_full = key in self._slow and len(self._at_work & self._slow) >= self._most_slow
            if key in self._at_work or is_full:
                return False
            self._at_work.add(key)
            return True

    def _work(self, key: str, act: Callable[[], None]) -> None:
        began_s = time.monotonic()
        try:
            act()
        except Exception:
            if time.monotonic() - began_s > self._patience_s:
                logger.exception("%s failed", key)  # whoever asked for it is not there any more
            raise
        finally:
            was_slow = time.monotonic() - began_s > self._patience_s
            with self._lock:
                self._at_work.discard(key)
                (self._slow.add if was_slow else self._slow.discard)(key)

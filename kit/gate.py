"""A gate for calls to somebody else's server: so many at once, evenly spaced, first come first."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class GateShutError(Exception):
    """The gate was shut while the caller waited: it did not pass."""


class Gate:
    """Lets at most `at_once` callers through at a time, and at most `per_s` a second if set.

    Callers pass in the order in which they came. The limit a second is smooth: passages are at
    least 1/`per_s` seconds apart, with no burst after a pause. Safe to share between threads.
    """

    def __init__(
        self,
        at_once: int = 1_000,
        per_s: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._free = at_once
        self._gap_s = 1 / per_s if per_s else 0.0
        self._next_s = 0.0
        self._clock, self._sleep = clock, sleep
        self._lock = Lock()
        self._queue: deque[Lock] = deque()
        self._is_shut = False

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Waits for the caller's turn, and holds a place while the block runs.

        Raises:
            GateShutError: it was shut before the turn came.
        """
        self._take()
        try:
            self._keep_distance()
            yield
        finally:
            self._give()

    def shut(self) -> None:
        """Lets nobody else through, those who wait included."""
        with self._lock:
            self._is_shut = True
            waiting, self._queue = list(self._queue), deque()
        for turn in waiting:
            turn.release()

    def _take(self) -> None:
        with self._lock:
            if self._is_shut:
                raise GateShutError
            turn = None
            if self._free and not self._queue:
                self._free -= 1
            else:
                turn = Lock()
                turn.acquire()
                self._queue.append(turn)
        if turn is not None:
            turn.acquire()  # released by whoever leaves: the place is handed over
            if self._is_shut:
                raise GateShutError  # nobody passes any more, so the place need not be given on

    def _keep_distance(self) -> None:
        if not self._gap_s:
            return
        with self._lock:
            now_s = self._clock()
            at_s = max(now_s, self._next_s)
            self._next_s = at_s + self._gap_s
        if at_s > now_s:
            self._sleep(at_s - now_s)
        if self._is_shut:
            raise GateShutError

    def _give(self) -> None:
        with self._lock:
            if self._queue:
                self._queue.popleft().release()
            else:
                self._free += 1

"""Python's garbage collector, tuned for a process that loads once and then works in bursts."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_bursts = 0  # that go on now, in any thread


def settle() -> None:
    """Call it when everything is loaded.

    What is there now lives as long as the process, so the collector need not walk it again and
    again. A batch of 1,000 jobs, or a cycle over 10,000, makes some 100,000 objects that live until
    it is done; with Python's usual threshold the collector takes up to a third of such a burst.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@contextmanager
def paused() -> Iterator[None]:
    """A burst: nothing that it makes is garbage before it is done, so nobody looks for any.

    Of a cycle over 10,000 jobs that is a sixth. At its end the collector does what it left, also
    while bursts of other threads go on: they cannot put it off together for ever.
    """
    global _bursts
    with _lock:
        _bursts += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _bursts -= 1
            if not _bursts:
                gc.enable()
        _catch_up()


def _catch_up() -> None:
    """Collect the oldest generation that is due, as the collector itself chooses."""
    due = zip(gc.get_count(), gc.get_threshold(), strict=True)
    oldest = max((age for age, (count, most) in enumerate(due) if count > most), default=None)
    if oldest is not None:
        gc.collect(oldest)

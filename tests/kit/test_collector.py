"""The collector rests in bursts and leaves nothing behind."""

import gc
from collections.abc import Iterator
from threading import Event, Thread
from weakref import ref

import pytest

from kit import collector


class Knot:
    """Refers to itself: only the collector frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    usual = gc.get_threshold()
    gc.collect()
    gc.set_threshold(100, 2, 2)
    yield
    gc.set_threshold(*usual)
    assert gc.isenabled()


def knots(count: int) -> "list[ref[Knot]]":
    return [ref(Knot()) for _ in range(count)]


def living(found: "list[ref[Knot]]") -> int:
    return sum(one() is not None for one in found)


def test_nothing_is_looked_for_in_a_burst_and_all_of_it_at_its_end() -> None:
    assert living(knots(1_000)) < 1_000
    with collector.paused():
        made = knots(1_000)
        assert living(made) == 1_000
        assert not gc.isenabled()
    assert (living(made), gc.isenabled()) == (0, True)


def test_a_burst_that_fails_ends_too() -> None:
    made: list[ref[Knot]] = []

    @collector.paused()
    def fails() -> None:
        made.extend(knots(1_000))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert (living(made), gc.isenabled()) == (0, True)


def test_bursts_that_overlap_do_not_put_it_off_for_ever() -> None:
    began, end = Event(), Event()

    def burst() -> None:
        with collector.paused():
            began.set()
            end.wait()

    other = Thread(target=burst)
    other.start()
    began.wait()
    for _ in range(3):
        with collector.paused():
            made = knots(1_000)
        assert living(made) == 0
        assert not gc.isenabled()
    end.set()
    other.join()
    assert gc.isenabled()


def test_what_is_older_is_collected_when_it_is_due() -> None:
    """As without pauses: what outlives young collections is looked at now and then."""
    kept = [Knot() for _ in range(1_000)]
    seen = [ref(one) for one in kept]
    with collector.paused():
        made = knots(1_000)
    assert living(made) == 0
    kept.clear()
    for _ in range(30):
        with collector.paused():
            knots(1_000)
    assert living(seen) == 0

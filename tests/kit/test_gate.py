"""The gate: how many at once, in which order, how far apart, and shut."""

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from kit.gate import Gate, GateShutError


def inside(gate: Gate, act: Callable[[], None]) -> threading.Thread:
    """A thread that passes the gate and acts inside."""

    def run() -> None:
        with gate.passage():
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_no_more_than_so_many_at_once_and_all_get_through() -> None:
    gate, lock = Gate(3), threading.Lock()
    now = most = 0
    full = threading.Barrier(3)

    def act() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        full.wait(60)  # three are inside together, or this breaks
        with lock:
            now -= 1

    threads = [inside(gate, act) for _ in range(30)]
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert most == 3


def test_first_come_first_served() -> None:
    gate = Gate(1)
    order: list[int] = []
    with gate.passage():
        threads = []
        for number in range(5):
            threads.append(inside(gate, lambda number=number: order.append(number)))
            while len(gate._queue) <= number:
                threading.Event().wait(0.001)
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2, 3, 4]


def test_passages_are_evenly_apart_and_a_pause_saves_nothing_up() -> None:
    now = 100.0
    passed = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    gate = Gate(4, 10, clock=lambda: now, sleep=sleep)
    for turn in range(6):
        if turn == 3:
            now += 50
        with gate.passage():
            passed.append(now)
    gaps = [round(later - earlier, 6) for earlier, later in pairwise(passed)]
    assert gaps == [0.1, 0.1, 50, 0.1, 0.1]


def test_shut_turns_away_who_waits_and_who_comes_but_not_who_is_inside() -> None:
    gate = Gate(1)
    turned_away: list[int] = []

    def wait(number: int) -> None:
        try:
            with gate.passage():
                pass
        except GateShutError:
            turned_away.append(number)

    with gate.passage():
        threads = [threading.Thread(target=wait, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        while len(gate._queue) < 3:
            threading.Event().wait(0.001)
        gate.shut()
        for thread in threads:
            thread.join(60)
    assert sorted(turned_away) == [0, 1, 2]
    with pytest.raises(GateShutError), gate.passage():
        pass

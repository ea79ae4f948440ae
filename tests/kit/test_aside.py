"""Work set aside: who waits for it, for how long, and what the slow ones may take."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kit.aside import Aside, Spaced
from tests.stack import eventually


@contextmanager
def hanging(aside: Aside, *keys: str) -> Iterator[None]:
    """Acts under these keys that end when the block does; each outlasts its caller's patience."""
    end = threading.Event()
    try:
        for key in keys:
            assert not aside.run(key, lambda: _wait(end))
        yield
    finally:
        end.set()
        eventually(lambda: not aside._at_work, within_s=60)


def _wait(end: threading.Event) -> None:
    assert end.wait(60)


def test_of_those_that_come_together_the_first_is_let_through() -> None:
    times = iter([10.0, 10.1, 10.49, 10.5, 10.6, 12.0])
    spaced = Spaced(0.5, clock=lambda: next(times))
    assert [spaced.is_due() for _ in range(6)] == [True, False, False, True, False, True]


def test_what_is_quick_is_waited_for_and_raises_to_its_caller() -> None:
    aside, done = Aside(2, 60), []
    assert aside.run("a", lambda: done.append("a"))
    assert done == ["a"]

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        aside.run("a", fail)
    assert aside.run("a", lambda: None)


def test_what_hangs_is_left_alone_and_one_a_key_is_at_work() -> None:
    aside, ran = Aside(4, 0.05), []
    with hanging(aside, "a"):
        assert not aside.run("a", lambda: ran.append("again"))
        eventually(lambda: aside.run("b", lambda: ran.append("b")), within_s=60)
    assert "again" not in ran
    assert "b" in ran


def test_those_known_to_be_slow_have_half_of_the_threads() -> None:
    aside = Aside(4, 0.05)
    slow = [f"slow-{number}" for number in range(4)]
    with hanging(aside, *slow):  # nothing is known of them yet: they take all
        pass
    begun: list[str] = []
    end = threading.Event()

    def hang(key: str) -> Callable[[], None]:
        def act() -> None:
            begun.append(key)
            _wait(end)

        return act

    for key in slow:
        aside.run(key, hang(key))
    assert len(begun) == 2
    served: list[str] = []
    eventually(lambda: aside.run("quick", lambda: served.append("quick")), within_s=60)
    assert served
    end.set()
    aside.close()


def test_a_failure_that_nobody_waits_for_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    aside, end = Aside(1, 0.05), threading.Event()

    def fail() -> None:
        _wait(end)
        raise ValueError("late")

    assert not aside.run("a", fail)
    end.set()
    aside.close()
    assert "a failed" in caplog.text

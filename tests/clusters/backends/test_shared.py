"""Waiting for one another before a read that all need."""

import threading

from clusters.backends.slurm.shared import Together


def test_who_is_done_waits_for_who_is_at_it() -> None:
    together, order = Together(60), []

    def wait() -> None:
        together.wait()
        order.append("waited")

    with together.one(), together.one():
        waiting = threading.Thread(target=wait)
        waiting.start()
        while not together._none_left._waiters:  # type: ignore[attr-defined]
            threading.Event().wait(0.001)
        order.append("done")
    waiting.join(60)
    assert order == ["done", "waited"]


def test_nobody_waits_for_ever_nor_for_nobody() -> None:
    Together(60).wait()
    together = Together(0.01)
    with together.one():
        together.wait()


def test_a_step_that_fails_is_over() -> None:
    together = Together(60)
    try:
        with together.one():
            raise ValueError
    except ValueError:
        together.wait()
    assert not together._at_it

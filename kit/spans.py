"""Spans around work that no library of theirs knows of. They cost nothing while nothing is traced."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Around = Callable[[str], AbstractContextManager[object]]
_makers: list[Around] = []


def use(maker: Around) -> None:
    """Makes spans with `maker` from now on, in this process; `kit.traces` calls it."""
    _makers[:] = [maker]


def around(name: str) -> AbstractContextManager[object]:
    """What is done inside belongs to one span of that name."""
    return _makers[0](name) if _makers else nullcontext()

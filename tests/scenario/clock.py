"""Virtual time: one clock for Muster and the simulated clusters. Nothing ever waits for it."""

from collections.abc import Callable
from datetime import datetime

from kit.intervals import from_ms

START_MS = 1_800_000_000_000


class Clock:
    """The time of a scenario, in milliseconds; those who `follow` it have clocks of their own."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._followers: list[Callable[[int], object]] = []

    def __call__(self) -> datetime:
        """Now, as services want it."""
        return from_ms(self.now_ms)

    def follow(self, advance_ms: Callable[[int], object]) -> None:
        """Tells a clock how far time went, each time it does."""
        self._followers.append(advance_ms)

    def advance(self, ms: int) -> None:
        """Lets time pass."""
        self.now_ms += ms
        for advance_ms in self._followers:
            advance_ms(ms)

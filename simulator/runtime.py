"""One simulated cluster in operation: its world, its clock, its key, its faults and its file.

This is the edge that reads the clock; everything below is told the time.
"""

import asyncio
import heapq
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from simulator.config import Cluster, ConfigError
from simulator.engine.clockwork import advance, new_world
from simulator.engine.model import World
from simulator.engine.saving import restore_world, save_world
from simulator.faults import FaultBoard
from simulator.slurm.cache import RowCache

SAVE_INTERVAL_MS = 2000


class Timed:
    """What clusters of every kind have: configuration, faults, and a clock.

    With `clock: "manual"` time stands still until it is advanced.
    """

    def __init__(self, config: Cluster) -> None:
        """Start the clock."""
        self.config = config
        self.faults = FaultBoard()
        self.pause: Callable[[int], Awaitable[None]] = _sleep
        self.late: list[tuple[int, int, Callable[[], None]]] = []
        self.manual_ms = config.start_ms
        self._count = 0

    def clock_ms(self) -> int:
        """What the clock outside says."""
        if self.config.clock == "manual":
            return self.manual_ms
        return time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        """The cluster's time; the cluster is brought up to it."""
        raise NotImplementedError

    def save(self) -> None:
        """Write the state file, if this kind of cluster has one."""

    def advance_ms(self, by_ms: int) -> int:
        """Let a manual clock go on; ValueError with a wall clock."""
        if self.config.clock != "manual":
            raise ValueError("the clock is not manual")
        if by_ms < 0:
            raise ValueError("ms: time does not run backwards; see clock/jump")
        target_ms = self.manual_ms + by_ms
        while self.late and self.late[0][0] <= target_ms:
            due_ms, _, act = heapq.heappop(self.late)
            self.manual_ms = max(self.manual_ms, due_ms)
            act()
        self.manual_ms = max(self.manual_ms, target_ms)
        return self.now_ms()

    def later(self, due_ms: int, act: Callable[[], None]) -> None:
        """Do something when a manual clock gets there, in order of time."""
        self._count += 1
        heapq.heappush(self.late, (due_ms, self._count, act))


class Running(Timed):
    """A Slurm cluster being simulated."""

    def __init__(self, config: Cluster) -> None:
        """Read key and saved state; ConfigError if the key cannot be read."""
        super().__init__(config)
        self.key = read_key(config)
        self.rows = RowCache()
        self._saved: tuple[int, int] | None = None
        self.world = self._restore() or new_world(config, self.clock_ms())
        self.manual_ms = max(self.manual_ms, self.world.now_ms)

    def now_ms(self) -> int:
        """The cluster's time, never behind the world's; the world is brought up to it."""
        now = max(self.clock_ms(), self.world.now_ms)
        advance(self.world, now)
        return now

    def reset(self) -> None:
        """Forget everything: jobs, accounting, faults, state of nodes."""
        self.faults.clear()
        self.rows = RowCache()
        self.late.clear()
        self.world = new_world(self.config, max(self.clock_ms(), self.world.now_ms))

    def save(self) -> None:
        """Write the state file, if there is one and anything changed; all of it or nothing."""
        if self.config.state_file is None:
            return
        mark = (self.world.sequence, self.world.jobs_changed_ms + self.world.nodes_changed_ms)
        if mark == self._saved:
            return
        path = Path(self.config.state_file)
        draft = path.with_name(f"{path.name}.new")
        with draft.open("w") as file:
            json.dump(save_world(self.world), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        self._saved = mark

    def _restore(self) -> World | None:
        if self.config.state_file is None or not Path(self.config.state_file).exists():
            return None
        try:
            return restore_world(json.loads(Path(self.config.state_file).read_text()), self.config)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{self.config.state_file}: not a state file: {error}") from error


async def _sleep(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


def read_key(config: Cluster) -> bytes:
    """The raw JWT key of a cluster."""
    try:
        return Path(config.jwt_key_file).read_bytes()
    except OSError as error:
        raise ConfigError(f"cluster {config.name}: {error}") from error

"""Every way to lose a part of the whole, dealt at random from a seed."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from tests.live.slurm import servers
from tests.live.slurm.federation import Muster
from tests.live.slurm.lab import LabCluster

OURS = (
    "web", "stream", "arbiter", "worker-dispatch", "worker-observe", "worker-accounting", "beat",
)  # fmt: skip
DAEMONS = ("slurmctld", "slurmrestd", "slurmdbd", "slurmd")
LONGEST_AWAY_S = 3.0
FROZEN_S = 5.0  # longer than a lease of the stack


@dataclass
class Killer:
    """Deals kills from a deck that holds each kind once, shuffled anew when it is empty.

    Attributes:
        with_servers: whether PostgreSQL and Valkey may be killed as well.
        done: how often each kind was dealt.
    """

    muster: Muster
    chance: random.Random
    with_servers: bool
    done: Counter[str] = field(default_factory=Counter)

    def kinds(self) -> dict[str, Callable[[], None]]:
        """What can be dealt, by name."""
        kinds: dict[str, Callable[[], None]] = {}
        for name in OURS:
            kinds[f"kill {name}"] = partial(self._kill_ours, name)
            kinds[f"freeze {name}"] = partial(self._freeze, name)
        for daemon in DAEMONS:
            kinds[f"kill {daemon}"] = partial(self._kill_daemon, daemon)
        if self.with_servers:
            kinds["kill postgres"] = self._kill_postgres
            kinds["kill valkey"] = self._kill_valkey
        return kinds

    def deal(self, *, for_s: float) -> None:
        """Kills one after the other for so long; at the end everything runs again."""
        until_s = time.monotonic() + for_s
        for name, kill in self._deck():
            if time.monotonic() > until_s:
                return
            print(f"{datetime.now(UTC):%H:%M:%S} {name}", flush=True)  # noqa: T201
            kill()
            self.done[name] += 1
            time.sleep(self.chance.uniform(0, 1))

    def _deck(self) -> Iterator[tuple[str, Callable[[], None]]]:
        while True:
            cards = list(self.kinds().items())
            self.chance.shuffle(cards)
            yield from cards

    def _stay_away(self) -> None:
        time.sleep(self.chance.uniform(0, LONGEST_AWAY_S))

    def _kill_ours(self, name: str) -> None:
        self.muster.stack.send(name, signal.SIGKILL)
        self._stay_away()
        self.muster.stack.start(name)

    def _freeze(self, name: str) -> None:
        self.muster.stack.send(name, signal.SIGSTOP)
        time.sleep(FROZEN_S)
        self.muster.stack.send(name, signal.SIGCONT)

    def _kill_daemon(self, daemon: str) -> None:
        lab: LabCluster = self.chance.choice(list(self.muster.labs.values()))
        node = f"{lab.name}-n{self.chance.randrange(16):03}"
        if daemon == "slurmctld":
            lab.kill_saved_controller()
        else:
            lab.kill(f"slurmd-{node}" if daemon == "slurmd" else daemon)
        self._stay_away()
        lab.up()

    def _kill_postgres(self) -> None:
        servers.kill_postgres()
        servers.until_postgres_answers()

    def _kill_valkey(self) -> None:
        servers.kill_valkey()
        servers.until_valkey_answers()

"""How the controllers try again what the server refused: by job name, ever slower, then no more.

The pauses double from 5 ms; the fifteenth and last is 82 s, so that a job is given up after 164 s
(23). The count is kept by name and survives the job: who was given up once is given up at once.
"""

from dataclasses import dataclass, field

from simulator.kubernetes.objects import Key

FIRST_MS = 5
MOST = 15


@dataclass
class Tries:
    """Failures by job, and when to try next."""

    failures: dict[Key, int] = field(default_factory=dict)
    next_ms: dict[Key, int] = field(default_factory=dict)

    def failed(self, key: Key, now_ms: int) -> int:
        """Note a failure; when to try again."""
        count = self.failures.get(key, 0)
        self.failures[key] = count + 1
        self.next_ms[key] = now_ms + FIRST_MS * 2 ** min(count, MOST - 1)
        return self.next_ms[key]

    def gave_up(self, key: Key) -> None:
        """No more tries for this job; the next of the name may try at once."""
        self.next_ms.pop(key, None)

    def worked(self, key: Key) -> None:
        """All that was wanted could be made."""
        if self.failures.get(key, 0) <= MOST:
            self.failures.pop(key, None)
        self.next_ms.pop(key, None)

    def waits(self, key: Key, now_ms: int) -> bool:
        """Is it too early to try again?"""
        return self.next_ms.get(key, 0) > now_ms

    def is_over(self, key: Key) -> bool:
        """Was the last try one too many?"""
        return self.failures.get(key, 0) > MOST

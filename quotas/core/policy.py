"""What an admin sets once for all tenants: how fast use is forgotten, how much waiting weighs."""

from dataclasses import dataclass

from kit.intervals import DAY_MS, HOUR_MS, MINUTE_MS


@dataclass(frozen=True)
class Policy:
    """Durations in milliseconds.

    `half_life_ms`: spot use counts half after so long. `aging_ms`: so long a wait is worth one
    point of priority within a tenant (0 = none): by default 100 points a day, from `low` to
    `normal` in four.

    A job that ran less than `min_run_ms`, that was evicted `most_evictions` times within a day, or
    evicted less than `cool_down_ms` ago is spared by those of its own tenant that outrank it; owners
    who take back what is theirs evict it last. What is freed stays with whom it was freed for until
    `claim_ms` after the last grace is over.
    """

    half_life_ms: int = 7 * DAY_MS
    aging_ms: int = DAY_MS // 100
    min_run_ms: int = 10 * MINUTE_MS
    most_evictions: int = 4
    cool_down_ms: int = HOUR_MS
    claim_ms: int = 10 * MINUTE_MS

"""What an admin sets once for all tenants: how fast use is forgotten, how much waiting weighs."""

from dataclasses import dataclass

from kit.intervals import DAY_MS


@dataclass(frozen=True)
class Policy:
    """Durations in milliseconds.

    `half_life_ms`: spot use counts half after so long. `aging_ms`: so long a wait is worth one
    point of priority within a tenant (0 = none): by default 100 points a day, from `low` to
    `normal` in four.
    """

    half_life_ms: int = 7 * DAY_MS
    aging_ms: int = DAY_MS // 100

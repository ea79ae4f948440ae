"""What an admin sets once for all tenants: how use is forgotten, and who is spared an eviction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kit.intervals import DAY_MS, HOUR_MS, MINUTE_MS


@dataclass(frozen=True)
class Policy:
    """Durations in milliseconds; `RANGES` says how long and how many.

    `half_life_ms`: spot use counts half after so long. `aging_ms`: so long a wait is worth one
    point of priority within a tenant (0 = none): by default 100 points a day, from `low` to
    `normal` in four.

    A job that ran less than `min_run_ms`, that was evicted `most_evictions` times within a day, or
    evicted less than `cool_down_ms` ago is spared by those of its own tenant that outrank it; owners
    who take back what is theirs evict it last. With `most_evictions` 0 nobody is evicted by their
    own tenant. What is freed stays with whom it was freed for until `claim_ms` after the last grace
    is over.
    """

    half_life_ms: int = 7 * DAY_MS
    aging_ms: int = DAY_MS // 100
    min_run_ms: int = 10 * MINUTE_MS
    most_evictions: int = 4
    cool_down_ms: int = HOUR_MS
    claim_ms: int = 10 * MINUTE_MS

    def faults(self) -> Iterator[tuple[str, str]]:
        """What is out of its range: the name of the field, and what it may be, in words."""
        for name, (least, most) in RANGES.items():
            if not least <= getattr(self, name) <= most:
                what = "milliseconds" if name.endswith("_ms") else "a number"
                yield name, f"Give {what} from {least} to {most}."


# The least and the most. A cool-down longer than the day in which evictions are counted would end
# with it; a claim of nothing would be over before its victims are gone.
RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "half_life_ms": (HOUR_MS, 365 * DAY_MS),
        "aging_ms": (0, 365 * DAY_MS),
        "min_run_ms": (0, 30 * DAY_MS),
        "most_evictions": (0, 1000),
        "cool_down_ms": (0, DAY_MS // 2),
        "claim_ms": (MINUTE_MS, DAY_MS),
    }
)
POLICY_FIELDS = tuple(RANGES)

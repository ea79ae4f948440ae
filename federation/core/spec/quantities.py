"""Texts that stand for amounts: durations, memory, moments. Each reader gives None if unreadable."""

import re
from datetime import datetime

from kit.intervals import from_ms, iso, to_ms

_CLOCK = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{1,6}):([0-5][0-9]):([0-5][0-9])")
_UNITS = re.compile(
    r"(?=[0-9])(?:([0-9]{1,6})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,12})s)?"
)
_MEMORY = re.compile(r"([0-9]{1,15})(Ki|Mi|Gi|Ti|k|K|M|G|T)")
_MOMENT = re.compile(
    r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
_LONGEST = 32
_MIB = 1 << 20
_BYTES = {
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}


def read_duration_ms(value: int | str) -> int | None:
    """Milliseconds of whole seconds, `[D-]H:MM:SS` or `1d2h3m4s` (any part alone).

    A bare number in quotes and `M:SS` are refused: other schedulers read them as minutes.
    """
    if isinstance(value, int):
        return value * 1000
    if len(value) > _LONGEST:
        return None
    match = _CLOCK.fullmatch(value) or _UNITS.fullmatch(value)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000


def read_memory_mib(value: str) -> int | None:
    """MiB, rounded up, of a whole number with a unit: powers of 1024 (`Gi`) or of 1000 (`G`)."""
    match = _MEMORY.fullmatch(value) if len(value) <= _LONGEST else None
    if match is None:
        return None
    return -(-int(match[1]) * _BYTES[match[2]] // _MIB)


def write_memory(mebibytes: int) -> str:
    """The shortest text in Mi or Gi that reads back as the same amount."""
    if mebibytes and mebibytes % 1024 == 0:
        return f"{mebibytes // 1024}Gi"
    return f"{mebibytes}Mi"


def read_moment_ms(value: str) -> int | None:
    """Milliseconds since the epoch of an ISO 8601 time that names its offset from UTC."""
    if len(value) > _LONGEST or not _MOMENT.fullmatch(value):
        return None
    try:
        return to_ms(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        return None


def write_moment(milliseconds: int) -> str:
    """The ISO 8601 form in UTC, with milliseconds and `Z`."""
    return str(iso(from_ms(milliseconds)))

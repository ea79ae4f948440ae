"""The spellings of time that Slurm 22.05 takes."""

import re
from datetime import UTC, datetime

_RELATIVE = re.compile(r"^now(?:\+(\d+)\s*(s|sec|m|min|h|hour|d|day|w|week)\w*)?$")
_DURATION = re.compile(r"^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$")
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hour": 3600}
_SECONDS |= {"d": 86400, "day": 86400, "w": 604800, "week": 604800}


def parse_instant(text: str, now: int) -> int:
    """Epoch seconds of `2026-11-29T20:00:00`, `2026-11-29`, `uts1796000000` or `now+1hour` (UTC).

    ValueError for anything else; a bare number is not a time to Slurm.
    """
    relative = _RELATIVE.match(text)
    if relative is not None:
        number, unit = relative.groups()
        return now + (int(number) * _SECONDS[unit] if number else 0)
    if re.match(r"^uts\d+$", text):
        return int(text[3:])
    if not re.match(r"^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?$", text):
        raise ValueError(text)
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def parse_minutes(text: str) -> int:
    """Minutes of `90`, `90:00`, `1:30:00`, `3-12`, `3-12:00` or `3-12:00:00`; ValueError else."""
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(text)
    days, first, second, third = (None if g is None else int(g) for g in match.groups())
    if days is not None:
        hours, minutes, seconds = first or 0, second or 0, third or 0
        return days * 1440 + hours * 60 + minutes + (seconds > 0)
    if third is not None:
        return (first or 0) * 60 + (second or 0) + (third > 0)
    return (first or 0) + ((second or 0) > 0)

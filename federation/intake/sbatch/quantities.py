"""Values as Slurm writes them: counts, times, memory, GPUs, signals, moments. None = unreadable."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_COUNT = re.compile(r"[0-9]{1,9}")
_DAYS = re.compile(r"([0-9]{1,6})-([0-9]{1,6})(?::([0-9]{1,6})(?::([0-9]{1,6}))?)?")
_CLOCK = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
_ENDLESS = frozenset({"-1", "infinite", "unlimited"})
_MEMORY = re.compile(r"([0-9]{1,12})(?:([kmgt])b?)?", re.IGNORECASE)
_GPUS = re.compile(r"(?:([A-Za-z_][\w.-]*)[:=])?([0-9]{1,6})")
_GPU_TYPE = re.compile(r"[A-Za-z_][\w.-]*")
_SIGNAL = re.compile(r"([RB]{0,2}):?(?:SIG)?([A-Z]+[0-9]?|[0-9]{1,2})(?:@([0-9]{1,5}))?", re.I)
_SIGNALS = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM", "18": "CONT"}
_DEFAULT_WARNING_S = 60
_LATER = re.compile(r"now(?:\+([0-9]{1,9})(second|minute|hour|day|week)?s?)?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_DATE = re.compile(r"2[0-9]{3}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?)?")
_EXPORTED = re.compile(r"""(,)|"([^"]*)"|'([^']*)'|([^,"']+|["'])""")


def read_count(text: str) -> int | None:
    """A whole number of at least 1."""
    return int(text) or None if _COUNT.fullmatch(text) else None


def read_time_s(text: str) -> int | None:
    """Seconds of `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours[:minutes
    [:seconds]]`, rounded up to minutes as Slurm does; 0 = without an end."""
    if text.lower() in _ENDLESS:
        return 0
    if days := _DAYS.fullmatch(text):
        d, h, m, s = (int(part or 0) for part in days.groups())
    elif clock := _CLOCK.fullmatch(text):
        parts = [int(part) for part in clock.groups() if part is not None]
        d = 0
        h, m, s = parts if len(parts) == 3 else (0, *parts) if len(parts) == 2 else (0, parts[0], 0)
    else:
        return None
    seconds = ((d * 24 + h) * 60 + m) * 60 + s
    return -(-seconds // 60) * 60


def read_memory_mib(text: str) -> int | None:
    """MiB of a whole number with a unit of Slurm's (powers of 1024; none = MiB), rounded up."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        return None
    amount, unit = int(match[1]), (match[2] or "m").lower()
    return (
        -(-amount // 1024) if unit == "k" else amount * {"m": 1, "g": 1 << 10, "t": 1 << 20}[unit]
    )


@dataclass(frozen=True, slots=True)
class Gpus:
    """A number of GPUs, of one type or ("") of any."""

    count: int
    kind: str = ""


def read_gpus(text: str) -> Gpus | None:
    """`8`, `h100:8`."""
    match = _GPUS.fullmatch(text)
    return Gpus(int(match[2]), match[1] or "") if match else None


def read_gres(text: str) -> Gpus | str | None:
    """The GPUs of a list such as `gpu:h100:8`; the name of what is no GPU; None = unreadable."""
    if text.lower() == "none":
        return Gpus(0)
    found: Gpus | None = None
    for item in text.split(","):
        name, _, rest = item.removeprefix("gres/").removeprefix("gres:").partition(":")
        name, equals, count = name.partition("=")
        if name != "gpu":
            return name or None
        rest = count if equals else rest
        gpus = Gpus(1, rest) if not rest or _GPU_TYPE.fullmatch(rest) else read_gpus(rest)
        if gpus is None or found is not None:
            return None
        found = gpus
    return found


@dataclass(frozen=True, slots=True)
class Warned:
    """A signal before the end: its name without SIG, seconds before, and Slurm's `B` and `R`."""

    name: str
    before_s: int
    flags: str


def read_signal(text: str) -> Warned | None:
    """`[{R|B}:]<number or name>[@seconds]`."""
    match = _SIGNAL.fullmatch(text)
    if match is None:
        return None
    name = _SIGNALS.get(match[2], match[2].upper())
    return Warned(name, int(match[3] or _DEFAULT_WARNING_S), match[1].upper())


def read_moment(text: str, now: datetime) -> datetime | None:
    """`now`, `now+2hours`, or a date with or without a time, which is taken as UTC."""
    if later := _LATER.fullmatch(text):
        amount = int(later[1] or 0) * _SECONDS[later[2] or "second"]
        return now + timedelta(seconds=amount) if amount < 10 * 365 * 86_400 else None
    if not _DATE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None


def read_exports(text: str) -> list[tuple[str, str | None]]:
    """The items of `--export`: names with their values, None where none is given.

    Commas within quotes part nothing; the quotes go.
    """
    items, letters = list[str](), list[str]()
    for part in _EXPORTED.finditer(text):
        if part[1]:
            items.append("".join(letters))
            letters = []
        else:
            letters.append(part[2] or part[3] or part[4] or "")
    items.append("".join(letters))
    parted = (item.partition("=") for item in items if item)
    return [(name.strip(), value if equals else None) for name, equals, value in parted]

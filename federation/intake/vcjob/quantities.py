"""Values as Kubernetes writes them: quantities and durations. None = unreadable."""

import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"\+?([0-9]{1,18}\.?[0-9]{0,9}|\.[0-9]{1,9})([eE][-+]?[0-9]{1,2}|[mkMGTPE]|[KMGTPE]i)?"
)
_UNITS = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", 1)},
}
_MIB = 1 << 20
_DURATION = re.compile(
    r"(?=[0-9.])(?:([0-9]{1,6})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,9})(?:\.[0-9]*)?s)?"
)


def read_quantity(text: str) -> Fraction | None:
    """`8`, `500m`, `0.5`, `900Gi`, `1e3`; of memory in bytes."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, unit = Fraction(match[1].rstrip(".") or "0"), match[2] or ""
    if unit[:1] in ("e", "E") and len(unit) > 1:
        return number * Fraction(10) ** int(unit[1:])
    return number * _UNITS[unit]


def read_mebibytes(text: str) -> int | None:
    """MiB, rounded up, of a quantity of bytes."""
    amount = read_quantity(text)
    return None if amount is None else -(-amount // _MIB)


def read_seconds(text: str) -> int | None:
    """Whole seconds of a duration such as `10m` or `1h30m0s`; parts of one are cut off."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (hours * 60 + minutes) * 60 + seconds

"""Quantities: `8`, `500m`, `64Gi`, `1e3`."""

import re
from collections.abc import Iterable, Mapping

_FORM = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")
_UNITS = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS |= {"P": 1e15, "E": 1e18}
_UNITS |= {f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", 1)}


def number(text: object) -> float:
    """The quantity as a number. ValueError, in the server's words, if it is none."""
    found = _FORM.match(str(text))
    try:
        if found and found[2] in _UNITS:
            return float(found[1]) * _UNITS[found[2]]
        if found:
            return float(str(text))
    except ValueError:
        pass
    raise ValueError(
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


def total(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sum of amounts by name."""
    found: dict[str, float] = {}
    for amount in amounts:
        for name, value in amount.items():
            found[name] = found.get(name, 0) + value
    return found


def as_text(value: float) -> str:
    """A number as a quantity: whole, in `Gi` or `Mi` where that is exact, else in thousandths."""
    if value != int(value):
        return f"{round(value * 1000)}m"
    whole = int(value)
    for unit in ("Gi", "Mi"):
        size = int(_UNITS[unit])
        if whole >= size and whole % size == 0:
            return f"{whole // size}{unit}"
    return str(whole)

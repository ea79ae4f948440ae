"""Slurm's short form of node lists: `n[000-003,005]`."""

import re
from collections.abc import Iterable

_PART = re.compile(r"([^\[\],]+)(?:\[([0-9,\-]+)\])?(?:,|$)")
_NUMBERED = re.compile(r"(.*?)(\d+)$")


def expand(text: str) -> list[str]:
    """The node names of a hostlist, in the order written; ValueError if it is not one."""
    names: list[str] = []
    position = 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise ValueError(f"not a hostlist: {text}")
        prefix, ranges = match.groups()
        names += [prefix] if ranges is None else _expand_ranges(prefix, ranges)
        position = match.end()
    return names


def _expand_ranges(prefix: str, ranges: str) -> list[str]:
    names = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        width = len(first)
        names += [f"{prefix}{i:0{width}d}" for i in range(int(first), int(last or first) + 1)]
    return names


def compress(names: Iterable[str]) -> str:
    """The short form of node names: sorted, ranges folded, one bracket a prefix and width."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in names:
        match = _NUMBERED.match(name)
        if match is None:
            plain.append(name)
        else:
            prefix, digits = match.groups()
            groups.setdefault((prefix, len(digits)), []).append(int(digits))
    parts = sorted(plain)
    for (prefix, width), numbers in sorted(groups.items()):
        folded = _fold(sorted(set(numbers)), width)
        single = "," not in folded and "-" not in folded
        parts.append(f"{prefix}{folded}" if single else f"{prefix}[{folded}]")
    return ",".join(parts)


def _fold(numbers: list[int], width: int) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(
        f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans
    )

"""Slurm's host lists: `alpha-n[000-003,007]` to names and back."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

MAX_HOSTS = 1_000_000
_NOTHING = {"", "(null)", "n/a", "none assigned", "none"}
_NAME = re.compile(r"(?P<prefix>.*?)(?P<digits>\d*)", re.DOTALL)
_RANGE = re.compile(r"(\d+)-(\d+)")


@lru_cache(maxsize=1024)  # jobs share nodes, and each names its own twice
def expand(text: str | None) -> tuple[str, ...]:
    """The names a host list stands for, in its order; Slurm's words for "none" give ().

    Several brackets multiply (`r[0-1]n[0-3]`), brackets may nest, and a range keeps the width of
    its first number.

    Raises:
        ValueError: unbalanced brackets, a range that runs backwards, or too many hosts.
    """
    if text is None or text.strip().lower() in _NOTHING:
        return ()
    return _bounded(name for part in _split(text.strip()) for name in _expand_part(part))


def compress(names: Iterable[str]) -> str:
    """The shortest plain host list of these names, each named once.

    Only numbers of the same width share a bracket, so that `expand` gives back the same names.
    """
    groups: dict[tuple[str, int], set[int]] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None or not name or any(mark in name for mark in "[],"):
            raise ValueError(f"not a host name: {name!r}")
        numbers = groups.setdefault((match["prefix"], len(match["digits"])), set())
        if match["digits"]:
            numbers.add(int(match["digits"]))
    return ",".join(_group(prefix, width, sorted(n)) for (prefix, width), n in groups.items())


def _bounded(names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(islice(names, MAX_HOSTS + 1))
    if len(found) > MAX_HOSTS:
        raise ValueError(f"host list names more than {MAX_HOSTS} hosts")
    return found


def _group(prefix: str, width: int, numbers: list[int]) -> str:
    if not numbers:
        return prefix
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}d}"
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    inner = ",".join(
        f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans
    )
    return f"{prefix}[{inner}]"


def _split(text: str) -> Iterator[str]:
    """Cut at the commas outside brackets."""
    depth = start = 0
    for at, mark in enumerate(text):
        depth += (mark == "[") - (mark == "]")
        if depth < 0:
            raise ValueError(f"unbalanced brackets in {text!r}")
        if mark == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if depth:
        raise ValueError(f"unbalanced brackets in {text!r}")
    yield text[start:]


def _expand_part(part: str) -> Iterator[str]:
    opening = part.find("[")
    if opening < 0:
        if part:
            yield part
        return
    closing = _matching(part, opening)
    tails = _bounded(_expand_part(part[closing + 1 :])) or ("",)
    for item in _split(part[opening + 1 : closing]):
        for middle in _expand_item(item.strip()):
            for tail in tails:
                yield part[:opening] + middle + tail


def _expand_item(item: str) -> Iterator[str]:
    match = _RANGE.fullmatch(item)
    if match is None:
        yield from _expand_part(item)
        return
    low, high = int(match[1]), int(match[2])
    if high < low or high - low >= MAX_HOSTS:
        raise ValueError(f"bad range {item!r}")
    width = len(match[1])
    yield from (f"{number:0{width}d}" for number in range(low, high + 1))


def _matching(part: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(part)):
        depth += (part[at] == "[") - (part[at] == "]")
        if depth == 0:
            return at
    raise ValueError(f"unbalanced brackets in {part!r}")

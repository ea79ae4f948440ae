"""GPU counts in Slurm's many spellings of generic resources.

`gpu:h100:8(IDX:0-7)`, `gpu:8(S:0-1)`, `gres:gpu:h100:8` and `gres/gpu:h100=32,gres/gpu=32` all say
how many there are. Slurm names one GPU twice when both its type and the whole are tracked, so typed
and untyped counts of the same GPUs are never added up.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

_DETAIL = re.compile(r"\([^()]*\)")
_SCALE = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_COUNT = re.compile(r"(\d+)([KMG]?)")
_MEMORY = re.compile(r"(?:^|,)mem=(\d+(?:\.\d+)?)([KMGTP]?)")
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}


def by_type(text: str | None, resource: str = "gpu") -> dict[str, int]:
    """Count by type; "" holds what has no type. Zero counts and other resources are left out."""
    return _settle(_items(text or "", resource))


@lru_cache(maxsize=4096)
def count(text: str | None, resource: str = "gpu") -> int:
    """How many devices a string speaks of, each once."""
    return sum(by_type(text, resource).values())


def count_tres(rows: Iterable[Mapping[str, Any]] | None, resource: str = "gpu") -> int:
    """The same from accounting's list of `{"type": "gres", "name": "gpu:h100", "count": 32}`."""
    pairs = (
        (str(row.get("name") or "").partition(":"), int(row.get("count") or 0))
        for row in rows or ()
        if row.get("type") == "gres"
    )
    return sum(_settle((kind, n) for (name, _, kind), n in pairs if name == resource).values())


@lru_cache(maxsize=4096)
def memory_mib(tres: str | None) -> int:
    """The `mem=` part of a TRES string in MiB, rounded up; 0 when there is none."""
    match = _MEMORY.search(tres or "")
    return 0 if match is None else -int(-float(match[1]) * _MIB[match[2]] // 1)


@lru_cache(maxsize=4096)
def cpus(tres: str | None) -> int:
    """The `cpu=` part of a TRES string; 0 when there is none."""
    match = re.search(r"(?:^|,)cpu=(\d+)", tres or "")
    return 0 if match is None else int(match[1])


def _settle(items: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind, number in items:
        counts[kind] = counts.get(kind, 0) + number
    typed = sum(number for kind, number in counts.items() if kind)
    counts[""] = max(0, counts.get("", 0) - typed)
    return {kind: number for kind, number in counts.items() if number}


def _items(text: str, resource: str) -> Iterator[tuple[str, int]]:
    for item in _DETAIL.sub("", text).split(","):
        name, _, rest = item.strip().removeprefix("gres/").removeprefix("gres:").partition(":")
        name, is_tres, total = name.partition("=")
        if name != resource:
            continue
        if is_tres:
            yield "", _number(total) or 0
        elif "=" in rest:
            kind, _, total = rest.partition("=")
            yield kind, _number(total) or 0
        else:
            yield _typed(rest)


def _typed(rest: str) -> tuple[str, int]:
    """`8`, `h100:8`, `h100` (one of it) or nothing (one) after the resource's name."""
    kind, _, last = rest.rpartition(":")
    number = _number(last)
    if number is not None:
        return kind, number
    return rest, 1


def _number(text: str) -> int | None:
    match = _COUNT.fullmatch(text)
    return None if match is None else int(match[1]) * _SCALE[match[2]]

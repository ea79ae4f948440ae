"""From a tree of accounts, queues or cohorts to our tenants and rows of quota.

A parser gives `Unit`s (what it read), and says in `Note`s what has no equal here and in problems
what keeps the whole from being imported. `assemble` makes paths, names and weights of ours of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from quotas.core.table import TableProblem, TableRow

MOST_WEIGHT = 1000
MOST_DEPTH = 32
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Note:
    """Something of the other system that is not taken over, or not as it is there, and of whom."""

    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Owed:
    """GPUs of one kind as our rows say them; None = not limited."""

    guaranteed: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(slots=True)
class Unit:
    """An account, queue or cohort. `number` is the line or document where it stands.

    `owed` is by the other system's word for the GPU; `parent` is the key of another, None = at the
    top. The key is the name, but where different things may have one name.
    """

    name: str
    parent: str | None
    number: int
    key: str = ""
    title: str = ""
    weight: Fraction = Fraction(1)
    owed: dict[str, Owed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The key is the name unless another is given."""
        self.key = self.key or self.name


@dataclass(slots=True)
class Found:
    """What a parser read."""

    units: list[Unit] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    problems: list[TableProblem] = field(default_factory=list)

    def note(self, about: str, text: str) -> None:
        """Tells what has no equal here; the same once."""
        note = Note(about, text)
        if note not in self.notes:
            self.notes.append(note)

    def wrong(self, number: int, where: str, code: str, detail: str) -> None:
        """Tells what cannot be imported at all."""
        self.problems.append(TableProblem(number, where, code, detail))

    def children(self, unit: Unit) -> Iterator[Unit]:
        """Those right below one."""
        return (one for one in self.units if one.parent == unit.key)

    def from_below(self) -> Iterator[Unit]:
        """Children before their parents; what is no tree comes too, and is refused by `assemble`."""
        done: set[str] = set()
        waiting = list(self.units)
        while waiting:
            is_ready = [all(one.key in done for one in self.children(unit)) for unit in waiting]
            for unit, ready in list(zip(waiting, is_ready, strict=True)):
                if ready or not any(is_ready):
                    yield unit
                    done.add(unit.key)
            waiting = [unit for unit in waiting if unit.key not in done]


@dataclass(frozen=True, slots=True)
class NewTenant:
    """A tenant that the import needs; parents come before their children."""

    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Imported:
    """Tenants and rows of ours, and what is to be told. With problems there are no rows."""

    tenants: tuple[NewTenant, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[Note, ...]
    problems: tuple[TableProblem, ...]


def assemble(found: Found, *, flavors: Mapping[str, str], under: str = "") -> Imported:
    """The tree as tenants below `under` ("" = at the top) with their rows.

    `flavors` maps the other system's words for GPUs to ours; a word that is not there and looks
    like one of our names is taken as it is.
    """
    ways = _ways(found)
    if not found.problems:
        paths = _paths(found, ways, under)
        weights = _weights(found)
        rows = tuple(_rows(found, paths, weights, flavors))
    if found.problems:
        return Imported((), (), tuple(found.notes), tuple(found.problems))
    units = sorted(found.units, key=lambda unit: (len(ways[unit.key]), unit.number))
    tenants = tuple(NewTenant(paths[unit.key], unit.title) for unit in units)
    return Imported(tenants, rows, tuple(found.notes), ())


def _ways(found: Found) -> dict[str, tuple[str, ...]]:
    """By key, the keys from the top to itself; problems for all that is no tree."""
    by_key: dict[str, Unit] = {}
    for unit in found.units:
        first = by_key.setdefault(unit.key, unit)
        if first is not unit:
            words = f"{unit.name} stands at {first.number} already."
            found.wrong(unit.number, "name", "duplicate", words)
    ways: dict[str, tuple[str, ...]] = {}
    for unit in by_key.values():
        way, at = [unit.key], unit
        while at.parent is not None and at.parent in by_key and len(way) <= MOST_DEPTH:
            at = by_key[at.parent]
            way.append(at.key)
        if at.parent is not None and at.parent in by_key:
            found.wrong(unit.number, "parent", "no_tree", "It is below itself, or too deep.")
        elif at is unit and at.parent is not None:
            found.wrong(unit.number, "parent", "unknown", f"There is no {at.parent}.")
        ways[unit.key] = tuple(reversed(way))
    return ways


def _paths(found: Found, ways: Mapping[str, Sequence[str]], under: str) -> dict[str, str]:
    """By key, the path of the tenant; names that are none here are changed, and that is told."""
    words = {unit.key: _ours(unit.name) for unit in found.units}
    paths: dict[str, str] = {}
    for unit in found.units:
        parts = [words[key] for key in ways[unit.key]]
        path = "/".join([under, *parts] if under else parts)
        if not _NAME.fullmatch(words[unit.key]):
            found.wrong(unit.number, "name", "invalid_name", f"{unit.name!r} makes no name here.")
        elif path in paths.values():
            found.wrong(unit.number, "name", "duplicate", f"Another one would be {path} too.")
        elif words[unit.key] != unit.name:
            found.note(unit.name, f"becomes {path}: names here are of a-z, 0-9 and -.")
        paths[unit.key] = path
    return paths


def _ours(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-")


def _weights(found: Found) -> dict[str, int]:
    """Weights as whole numbers of one scale, as only their ratios count."""
    units = found.units
    scale = lcm(*(unit.weight.denominator for unit in units)) if units else 1
    if scale > 1:
        found.note("weights", f"are multiplied by {scale}: here they are whole numbers.")
    weights = {}
    for unit in units:
        weight = int(unit.weight * scale)
        weights[unit.key] = min(max(weight, 1), MOST_WEIGHT)
        if weight != weights[unit.key]:
            words = (
                f"has weight {unit.weight}; {weights[unit.key]} is taken, of 1 to {MOST_WEIGHT}."
            )
            found.note(unit.name, words)
    return weights


def _rows(
    found: Found,
    paths: Mapping[str, str],
    weights: Mapping[str, int],
    flavors: Mapping[str, str],
) -> Iterable[TableRow]:
    number = 0
    for unit in found.units:
        taken: set[str] = set()
        for word, owed in unit.owed.items():
            flavor = flavors.get(word, word)
            if not _NAME.fullmatch(flavor):
                words = f"Which GPU model is {word!r}? Say it with --map {word}=FLAVOR."
                found.wrong(unit.number, word, "unknown_gpu", words)
            elif flavor in taken:
                words = f"{flavor} is named twice; map each of its words to another."
                found.wrong(unit.number, word, "duplicate", words)
            else:
                number += 1
                taken.add(flavor)
                yield TableRow(
                    number, paths[unit.key], flavor, None, owed.guaranteed,
                    owed.borrowing_limit, owed.lending_limit, weights[unit.key],
                )  # fmt: skip

"""The document held against the table: each field known, and of the kind that it takes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from federation.core.spec.kinds import did_you_mean
from federation.intake.fate import Fate
from federation.intake.findings import Findings
from federation.intake.vcjob.document import Node
from federation.intake.vcjob.field import Field, Takes
from federation.intake.vcjob.table import CHILDREN

_CODES: Final = {Fate.LATER: "not_supported", Fate.REFUSED: "refused"}
_MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Spot:
    """A value where it stands. `path` is as people write it: `spec.tasks[0].replicas`."""

    path: str
    line: int
    node: Node

    @property
    def text(self) -> str:
        """A plain value as it is written; "" for any other."""
        return self.node.text

    @property
    def count(self) -> int:
        """A whole number; 0 for any other value."""
        value = self.node.value
        return value if type(value) is int else 0

    @property
    def is_on(self) -> bool:
        """Whether it is true."""
        return self.node.value is True

    def get(self, *names: str) -> "Spot | None":
        """The field at the end of the names; None where there is none, or it says nothing."""
        at: Spot = self
        for name in names:
            fields = at.node.value
            if not isinstance(fields, dict) or name not in fields:
                return None
            at = at.below(name, fields[name])
        return None if at.node.value is None else at

    def below(self, name: str, node: Node) -> "Spot":
        """One of its fields."""
        path = f"{self.path}.{name[:_MOST_SHOWN]}" if self.path else name[:_MOST_SHOWN]
        return Spot(path, self.node.keys[name], node)

    def fields(self) -> Iterator[tuple[str, "Spot"]]:
        """Its fields by name; none where it is no dictionary."""
        if isinstance(self.node.value, dict):
            for name, node in self.node.value.items():
                yield name, self.below(name, node)

    def items(self, *names: str) -> Iterator["Spot"]:
        """The items of the list at the end of the names; none where there is no list."""
        at = self.get(*names)
        if at is not None and isinstance(at.node.value, list):
            for number, node in enumerate(at.node.value):
                yield Spot(f"{at.path}[{number}]", node.line, node)

    def texts(self, *names: str) -> list[str]:
        """The texts of the list at the end of the names."""
        return [item.text for item in self.items(*names)]

    def text_of(self, *names: str) -> str:
        """The text at the end of the names; "" where there is none."""
        at = self.get(*names)
        return at.text if at else ""

    def line_of(self, *names: str) -> int:
        """The line of that field, or its own."""
        at = self.get(*names)
        return at.line if at else self.line


def check_fields(root: Spot, findings: Findings) -> bool:
    """Tells what is unknown, refused, dropped, or not what the field takes.

    Whether the rest can be read: no field that is taken is of a wrong kind.
    """
    if not isinstance(root.node.value, dict):
        findings.refuse(root.line, "wrong_type", "", "A job is fields and values.")
        return False
    return _Walk(findings).fields("", root)


class _Walk:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def fields(self, table_path: str, spot: Spot) -> bool:
        """The fields of an object, each against its place in the table."""
        known, is_fine = CHILDREN.get(table_path, {}), True
        for name, one in spot.fields():
            if self._findings.is_full:
                return False
            field = known.get(name)
            if field is None:
                detail = f"There is no such field.{did_you_mean(name, known)}"
                self._findings.refuse(one.line, "unknown_field", one.path, detail)
            elif not _is_empty(one.node):
                is_fine = self._dispose(field, one) and is_fine
        return is_fine

    def _dispose(self, field: Field, one: Spot) -> bool:
        """What the table alone says; whether what is taken is of its kind."""
        if field.fate in _CODES:
            self._findings.refuse(one.line, _CODES[field.fate], one.path, words(field))
        elif field.fate is Fate.DROPPED:
            self._findings.drop(one.line, one.path, words(field))
        else:
            return self._taken(field, one)
        return True

    def _taken(self, field: Field, one: Spot) -> bool:
        if not _CHECKS[field.takes](one.node):
            self._findings.refuse(one.line, "wrong_type", one.path, _wanted(field.takes, one.node))
            return False
        if field.takes is Takes.OBJECT:
            return self.fields(field.path, one)
        if field.takes is Takes.OBJECTS:
            fine = [self.fields(field.path, item) for item in one.items()]
            return all(fine)
        return True


def words(field: Field) -> str:
    """What the table says of a field, without its marks."""
    return field.words.replace("`", "")


def _wanted(takes: Takes, node: Node) -> str:
    is_word = takes in (Takes.TEXT, Takes.TEXTS, Takes.WORDS)
    hint = " A number, and yes or true, need quotes to be text."
    hint = hint if is_word and not isinstance(node.value, str) else ""
    return f"It takes: {takes.value}.{hint}"


def _is_empty(node: Node) -> bool:
    return node.value is None or node.value in ([], {}, "")


def _is_text(node: Node) -> bool:
    return isinstance(node.value, str)


def _is_amount(node: Node) -> bool:
    return isinstance(node.value, str | int | float) and not isinstance(node.value, bool)


def _each_in_list(check: Callable[[Node], bool]) -> Callable[[Node], bool]:
    return lambda node: isinstance(node.value, list) and all(map(check, node.value))


def _each_in_fields(check: Callable[[Node], bool]) -> Callable[[Node], bool]:
    return lambda node: isinstance(node.value, dict) and all(map(check, node.value.values()))


def _is_object(node: Node) -> bool:
    return isinstance(node.value, dict)


_CHECKS: Final[Mapping[Takes, Callable[[Node], bool]]] = {
    Takes.TEXT: _is_text,
    Takes.COUNT: lambda node: type(node.value) is int and node.value >= 0,
    Takes.FLAG: lambda node: isinstance(node.value, bool),
    Takes.QUANTITY: _is_amount,
    Takes.OBJECT: _is_object,
    Takes.OBJECTS: _each_in_list(_is_object),
    Takes.TEXTS: _each_in_list(_is_text),
    Takes.WORDS: _each_in_fields(_is_text),
    Takes.AMOUNTS: _each_in_fields(_is_amount),
    Takes.ANY: lambda _: True,
}

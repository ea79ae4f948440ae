"""Kinds of single values: numbers, texts, words, durations, amounts of memory, times."""

from collections.abc import Mapping
from dataclasses import dataclass
from re import Pattern
from typing import Any
from unicodedata import category

from federation.core.spec.kinds import Problems, Schema, did_you_mean, tell
from federation.core.spec.quantities import read_duration_ms, read_memory_mib, read_moment_ms

# Joiners shape letters and emoji; every other character of these categories is invisible.
_JOINERS = frozenset("\u200c\u200d")
_HIDDEN = frozenset({"Cc", "Cs", "Cf", "Zl", "Zp"})


def _is_clean(text: str, *, has_lines: bool) -> bool:
    """Whether the text is free of control, format and surrogate characters."""
    if has_lines:
        text = text.replace("\n", " ").replace("\t", " ")
    if text.isprintable():
        return True
    return not any(letter not in _JOINERS and category(letter) in _HIDDEN for letter in set(text))


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number within bounds. True, 1.0, NaN and "1" are not whole numbers."""

    low: int
    high: int

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """The number."""
        if type(value) is not int:
            return tell(problems, at, "wrong_type", "Give a whole number, not in quotes.")
        if not self.low <= value <= self.high:
            detail = f"Give a number from {self.low} to {self.high}."
            return tell(problems, at, "out_of_range", detail)
        return value

    def schema(self) -> Schema:
        """An integer with its bounds."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """The truth value."""
        if type(value) is not bool:
            return tell(problems, at, "wrong_type", "Give true or false, not in quotes.")
        return value

    def schema(self) -> Schema:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Text:
    """Text up to `longest` characters, without control characters, of a form if one is given.

    `has_lines` allows tabs and line feeds. `form` must match the whole text; `words` says so.
    """

    longest: int
    form: Pattern[str] | None = None
    words: str = ""
    has_lines: bool = False

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """The text as given."""
        if type(value) is not str:
            return tell(problems, at, "wrong_type", "Give text in quotes.")
        if len(value) > self.longest:
            return tell(problems, at, "too_long", f"Give at most {self.longest} characters.")
        if self.form is not None and not self.form.fullmatch(value):
            return tell(problems, at, "invalid_format", self.words)
        if not _is_clean(value, has_lines=self.has_lines):
            detail = "Remove control characters, invisible marks and unpaired surrogates."
            return tell(problems, at, "control_character", detail)
        return value

    def schema(self) -> Schema:
        """A string with its bounds."""
        schema: Schema = {"type": "string", "maxLength": self.longest}
        if self.form is not None:
            schema["pattern"] = f"^{self.form.pattern}$"
        return schema


@dataclass(frozen=True, slots=True)
class TrueOr:
    """True, or a text; false is as if left out."""

    text: Text

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """The truth value or the text."""
        return value if type(value) is bool else self.text.read(value, at, problems)

    def schema(self) -> Schema:
        """Either form."""
        return {"oneOf": [{"type": "boolean"}, self.text.schema()]}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """The word."""
        if type(value) is not str:
            return tell(problems, at, "wrong_type", f"Give one of {', '.join(self.words)}.")
        if value not in self.words:
            detail = f"Give one of {', '.join(self.words)}.{did_you_mean(value, self.words)}"
            return tell(problems, at, "invalid_choice", detail)
        return value

    def schema(self) -> Schema:
        """An enumeration."""
        return {"type": "string", "enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class NamedInteger:
    """A number within bounds, or one of the names that stand for numbers."""

    names: Mapping[str, int]
    low: int
    high: int

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """The number."""
        if type(value) is str and value in self.names:
            return self.names[value]
        detail = f"Give {', '.join(self.names)} or a whole number from {self.low} to {self.high}."
        if type(value) is str:
            return tell(problems, at, "invalid_choice", detail + did_you_mean(value, self.names))
        if type(value) is not int:
            return tell(problems, at, "wrong_type", detail)
        if not self.low <= value <= self.high:
            return tell(problems, at, "out_of_range", detail)
        return value

    def schema(self) -> Schema:
        """Either form."""
        return {
            "oneOf": [
                {"type": "string", "enum": list(self.names)},
                {"type": "integer", "minimum": self.low, "maximum": self.high},
            ]
        }


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, or `72:00:00`, `3-00:00:00`, `90m`; read as milliseconds. Bounds are seconds."""

    low_s: int
    high_s: int

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """Milliseconds."""
        forms = 'Give whole seconds, or text such as "72:00:00", "3-00:00:00" or "90m".'
        if type(value) is not int and type(value) is not str:
            return tell(problems, at, "wrong_type", forms)
        milliseconds = read_duration_ms(value)
        if milliseconds is None:
            return tell(problems, at, "invalid_format", forms)
        if not self.low_s * 1000 <= milliseconds <= self.high_s * 1000:
            detail = f"Give from {self.low_s} to {self.high_s} seconds."
            return tell(problems, at, "out_of_range", detail)
        return milliseconds

    def schema(self) -> Schema:
        """Either form."""
        return {
            "oneOf": [
                {"type": "integer", "minimum": self.low_s, "maximum": self.high_s},
                {"type": "string", "maxLength": 32},
            ],
            "description": "Seconds, or text such as 72:00:00, 3-00:00:00 or 90m.",
        }


@dataclass(frozen=True, slots=True)
class Memory:
    """Text such as `900Gi`; read as MiB, rounded up. Bounds are MiB."""

    low_mib: int
    high_mib: int

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """MiB."""
        forms = 'Give text with a unit, such as "900Gi" or "512Mi".'
        if type(value) is not str:
            return tell(problems, at, "wrong_type", forms)
        mebibytes = read_memory_mib(value)
        if mebibytes is None:
            return tell(problems, at, "invalid_format", forms)
        if not self.low_mib <= mebibytes <= self.high_mib:
            detail = f"Give from {self.low_mib}Mi to {self.high_mib}Mi."
            return tell(problems, at, "out_of_range", detail)
        return mebibytes

    def schema(self) -> Schema:
        """A quantity with a unit."""
        return {
            "type": "string",
            "pattern": "^[0-9]+(Ki|Mi|Gi|Ti|k|K|M|G|T)$",
            "description": "A quantity with a unit, such as 900Gi.",
        }


@dataclass(frozen=True, slots=True)
class Moment:
    """A time with its offset from UTC; read as milliseconds since the epoch."""

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """Milliseconds since the epoch."""
        form = 'Give an ISO 8601 time with its zone, such as "2026-12-01T08:00:00Z".'
        if type(value) is not str:
            return tell(problems, at, "wrong_type", form)
        milliseconds = read_moment_ms(value)
        if milliseconds is None:
            return tell(problems, at, "invalid_format", form)
        return milliseconds

    def schema(self) -> Schema:
        """A date-time."""
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True, slots=True)
class Later:
    """A field whose feature does not work yet: only its empty forms are taken."""

    words: str

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """None."""
        if value is False or (type(value) in (list, dict) and not value):
            return None
        return tell(problems, at, "not_supported", f"{self.words} Leave the field out.")

    def schema(self) -> Schema:
        """Nothing but null, false or emptiness."""
        empty = [
            {"type": "null"},
            {"const": False},
            {"type": "array", "maxItems": 0},
            {"type": "object", "maxProperties": 0},
        ]
        return {"oneOf": empty, "description": self.words}

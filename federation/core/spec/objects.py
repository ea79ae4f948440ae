"""Kinds of compound values: lists, free names, objects of declared fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from federation.core.spec.kinds import (
    INVALID,
    MOST_PROBLEMS,
    REQUIRED,
    Kind,
    Problems,
    Schema,
    did_you_mean,
    tell,
    token,
)
from federation.core.spec.scalars import Text


@dataclass(frozen=True, slots=True)
class Items:
    """A list of at most `most` values of one kind, each once unless `may_repeat`."""

    kind: Kind
    most: int
    least: int = 0
    may_repeat: bool = False

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """A tuple."""
        if type(value) is not list:
            return tell(problems, at, "wrong_type", "Give a list.")
        if not self.least <= len(value) <= self.most:
            detail = f"Give from {self.least} to {self.most} items."
            return tell(problems, at, "wrong_length", detail)
        known = len(problems)
        read = self.kind.read
        items = [read(item, f"{at}/{index}", problems) for index, item in enumerate(value)]
        if len(problems) > known or any(item is INVALID for item in items):
            return INVALID
        for index, item in enumerate(() if self.may_repeat else items):
            if item in items[:index]:
                tell(problems, f"{at}/{index}", "duplicate", "It is in the list already.")
        return tuple(items) if len(problems) == known else INVALID

    def schema(self) -> Schema:
        """An array."""
        return {
            "type": "array",
            "items": self.kind.schema(),
            "minItems": self.least,
            "maxItems": self.most,
            "uniqueItems": not self.may_repeat,
        }


@dataclass(frozen=True, slots=True)
class Pairs:
    """An object of free names, each with a value of one kind."""

    name: Text
    value: Kind
    most: int
    reserved: str = ""

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """A dictionary, names sorted."""
        if type(value) is not dict:
            return tell(problems, at, "wrong_type", "Give an object of names and values.")
        if len(value) > self.most:
            return tell(problems, at, "wrong_length", f"Give at most {self.most} names.")
        known = len(problems)
        for name, one in value.items():
            here = f"{at}/{name if name.isidentifier() else token(name)}"
            self.name.read(name, here, problems)
            self.value.read(one, here, problems)
            if self.reserved and name.startswith(self.reserved):
                tell(problems, here, "reserved", f"Names with {self.reserved} are Muster's own.")
        return dict(sorted(value.items())) if len(problems) == known else INVALID

    def schema(self) -> Schema:
        """An object with free names."""
        return {
            "type": "object",
            "propertyNames": self.name.schema(),
            "additionalProperties": self.value.schema(),
            "maxProperties": self.most,
        }


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object: its kind, what it is for, and what its absence (or null) means."""

    kind: Kind
    about: str
    default: Any = REQUIRED


@dataclass(frozen=True, slots=True)
class Object:
    """An object of declared fields. Unknown fields are wrong; null means left out.

    Reading gives a dictionary of the declared names; what is wrong is missing from it.
    """

    fields: Mapping[str, Field]
    _defaults: dict[str, Any] = field(init=False)
    _required: tuple[str, ...] = field(init=False)
    _readers: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        items = self.fields.items()
        given = {name: field.default for name, field in items if field.default is not REQUIRED}
        object.__setattr__(self, "_defaults", given)
        object.__setattr__(self, "_required", tuple(n for n in self.fields if n not in given))
        readers = {name: field.kind.read for name, field in items}
        object.__setattr__(self, "_readers", readers)

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """A dictionary of what is right, defaults filled in."""
        if type(value) is not dict:
            return tell(problems, at, "wrong_type", "Give an object.")
        values = self._defaults.copy()
        readers = self._readers
        for name, given in value.items():
            if name not in readers:
                self._tell_unknown(name, at, problems)
            elif given is not None:
                got = readers[name](given, f"{at}/{name}", problems)
                if got is INVALID:
                    values.pop(name, None)
                else:
                    values[name] = got
        for name in self._required:
            if value.get(name) is None:
                tell(problems, f"{at}/{name}", "required", f"{self.fields[name].about} Give it.")
        return values

    def with_defaults(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values that were read elsewhere, the rest as if left out."""
        return {**self._defaults, **values}

    def _tell_unknown(self, name: str, at: str, problems: Problems) -> None:
        if len(problems) < MOST_PROBLEMS:
            hint = did_you_mean(name, self.fields)
            tell(problems, f"{at}/{token(name)}", "unknown_field", f"No such field.{hint}")

    def schema(self) -> Schema:
        """An object without further fields."""
        properties = {}
        for name, declared in self.fields.items():
            schema = declared.kind.schema()
            words = [declared.about, schema.get("description", "")]
            properties[name] = {**schema, "description": " ".join(filter(None, words))}
            if declared.default is not REQUIRED:
                properties[name] = _or_null(properties[name])
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**schema, "required": list(self._required)} if self._required else schema


@dataclass(frozen=True, slots=True)
class NameOr:
    """A name alone, or an object with a field `name` of the same kind; no other is required."""

    name: Text
    whole: Object

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """The object's dictionary; a name alone gives `{"name": ...}` with the defaults."""
        if type(value) is str:
            name = self.name.read(value, at, problems)
            return INVALID if name is INVALID else self.whole.with_defaults({"name": name})
        return self.whole.read(value, at, problems)

    def schema(self) -> Schema:
        """Either form."""
        return {"oneOf": [self.name.schema(), self.whole.schema()]}


def _or_null(schema: Schema) -> Schema:
    """The schema, null allowed too."""
    about = schema.pop("description", "")
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"], "description": about}
    if "oneOf" in schema:
        forms = [form for form in schema["oneOf"] if form != {"type": "null"}]
        return {"oneOf": [*forms, {"type": "null"}], "description": about}
    return {"oneOf": [schema, {"type": "null"}], "description": about}

"""What a field of a Volcano Job is: where it stands, what it takes, and what becomes of it."""

from dataclasses import dataclass
from enum import StrEnum

from federation.intake.fate import Fate


class Takes(StrEnum):
    """What a field takes. Only of fields that are taken is it looked at."""

    TEXT = "text"
    COUNT = "whole number"
    FLAG = "true or false"
    QUANTITY = "quantity"
    OBJECT = "fields"
    OBJECTS = "list of fields"
    TEXTS = "list of texts"
    WORDS = "names and texts"
    AMOUNTS = "names and quantities"
    ANY = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        path: from the document's root, as in `spec.tasks[].replicas`; `[]` = each item.
        takes: what it takes.
        fate: what becomes of it.
        words: which field of the job it is, how it is carried, or why it is not taken and what
            helps.
    """

    path: str
    takes: Takes
    fate: Fate
    words: str

    @property
    def parent(self) -> str:
        """The path of the object that it is a field of."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path.rpartition(".")[2].removesuffix("[]")


def taken(prefix: str, fate: Fate, rows: tuple[tuple[str, Takes, str], ...]) -> tuple[Field, ...]:
    """Fields below a prefix that share a fate and are read."""
    return tuple(Field(f"{prefix}{path}", takes, fate, words) for path, takes, words in rows)


def left(prefix: str, fate: Fate, rows: tuple[tuple[str, str], ...]) -> tuple[Field, ...]:
    """Fields below a prefix that share a fate and are not read, each with the reason."""
    return tuple(Field(f"{prefix}{path}", Takes.ANY, fate, words) for path, words in rows)

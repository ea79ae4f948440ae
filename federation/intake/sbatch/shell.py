"""A small and safe part of a shell: simple commands of words, quotes and plain variables.

Nothing is run or guessed. What is more than that (pipes, loops, substitutions) is no simple command,
and who asks gets nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_PIECE = re.compile(
    r"""\\(?P<kept>[^\n])|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\`$]|\\.|\$\{?\w+\}?)*)\""""
    r"""|\$\{(?P<braced>[A-Za-z_]\w*)\}|\$(?P<named>[A-Za-z_]\w*)"""
    r"""|(?P<plain>[^\s\\'"$`;|&<>(){}*?\[\]!~#]+|(?<=[^\s])[#~](?=\S))|(?P<blank>[ \t]+)"""
)
_IN_DOUBLE = re.compile(r"""\\([\\"$`])|\$\{(\w+)\}|\$([A-Za-z_]\w*)|([^\\$]+|\\|\$)""")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable within a word."""

    name: str


Word = tuple[str | Variable, ...]


def read_words(text: str) -> list[Word] | None:
    """The words of one simple command; None where it is more than that."""
    words: list[Word] = []
    parts: list[str | Variable] = []
    is_open, at = False, 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return None
        at = piece.end()
        if piece["blank"]:
            if is_open:
                words.append(tuple(parts))
            parts, is_open = [], False
            continue
        is_open = True
        parts.extend(_parts(piece))
    return [*words, tuple(parts)] if is_open else words


def _parts(piece: re.Match[str]) -> Iterator[str | Variable]:
    named = piece["braced"] or piece["named"]
    if named:
        yield Variable(named)
    elif piece["double"] is not None:
        for one in _IN_DOUBLE.finditer(piece["double"]):
            name = one[2] or one[3]
            yield Variable(name) if name else (one[1] or one[4])
    else:
        yield piece["kept"] or piece["single"] or piece["plain"] or ""


def literal(word: Word) -> str | None:
    """A word without variables as its text."""
    if any(isinstance(part, Variable) for part in word):
        return None
    return "".join(part for part in word if isinstance(part, str))


def filled(word: Word, known: Mapping[str, Word]) -> Word:
    """The word with the variables that are known filled in."""
    parts: list[str | Variable] = []
    for part in word:
        parts.extend(known.get(part.name, (part,)) if isinstance(part, Variable) else (part,))
    return tuple(parts)


def assignment(words: list[Word]) -> tuple[str, Word, bool] | None:
    """Name, value and whether it is exported, of `[export] NAME=value`; None for anything else."""
    is_exported = bool(words) and literal(words[0]) == "export"
    rest = words[1:] if is_exported else words
    if len(rest) != 1 or not rest[0] or not isinstance(rest[0][0], str):
        return None
    first, *more = rest[0]
    name, equals, value = first.partition("=") if isinstance(first, str) else ("", "", "")
    if not equals or not _NAME.fullmatch(name):
        return None
    return name, (value, *more), is_exported

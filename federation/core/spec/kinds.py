"""What a kind of JSON value is, and how a reader says what is wrong.

The job's declaration (`federation.core.spec.table`) is made of kinds: each reads a value and knows
its JSON Schema, so the parser and the published schema cannot drift apart. Nothing here raises for
bad input.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final, Protocol

from kit.errors import FieldProblem

INVALID: Final = object()
REQUIRED: Final = object()
Schema = dict[str, Any]
Problems = list[FieldProblem]

MOST_PROBLEMS = 100
_MARKS = {"~": "~0", "/": "~1"}


class Kind(Protocol):
    """One kind of value."""

    def read(self, value: Any, at: str, problems: Problems) -> Any:
        """The value in the core's own form, or INVALID with what is wrong added to `problems`."""
        ...

    def schema(self) -> Schema:
        """JSON Schema (2020-12) of what `read` takes."""
        ...


def tell(problems: Problems, at: str, code: str, detail: str) -> Any:
    """Add a problem and give INVALID, so that a reader can return the call. Keeps the list short:
    a body of a million mistakes is answered with the first hundred."""
    if len(problems) < MOST_PROBLEMS:
        problems.append(FieldProblem(at, code, detail))
    return INVALID


def token(name: str) -> str:
    """A name as one token of a JSON pointer (RFC 6901), always encodable, at most 100 characters."""
    safe = name[:100].encode("utf-8", "backslashreplace").decode()
    return "".join(_MARKS.get(letter, letter) for letter in safe)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint at the nearest known name, or nothing."""
    near = get_close_matches(given[:64].lower(), list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]}?" if near else ""

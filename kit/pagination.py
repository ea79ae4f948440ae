"""Keyset pagination: `{"items": [...], "next": url}`, cursors that name the last row seen."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from kit.errors import FieldProblem, UnknownParameterError

DEFAULT_LIMIT = 50
MAX_LIMIT = 500


def _wrong(name: str, detail: str) -> UnknownParameterError:
    return UnknownParameterError(
        detail, errors=[FieldProblem(f"?{name}", "invalid_parameter", detail)]
    )


def refuse_unknown(given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raises `UnknownParameterError` when a query parameter is not among `known`."""
    for name in given:
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise _wrong(name, f"The parameter {name!r} is not known here. Known: {names}.")


@dataclass(frozen=True)
class Page:
    """What part of a list is asked: at most `limit` rows after `after` (None = from the start)."""

    limit: int
    after: int | str | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Page":
        """Reads `limit` and `cursor`.

        Raises:
            UnknownParameterError: not a number from 1 to 500, or not a cursor of ours.
        """
        raw = given.get("limit", str(DEFAULT_LIMIT))
        if not (raw.isascii() and raw.isdigit() and 1 <= int(raw[:6]) <= MAX_LIMIT):
            raise _wrong("limit", f"limit must be a whole number from 1 to {MAX_LIMIT}.")
        cursor = given.get("cursor")
        if cursor is None:
            return cls(int(raw), None)
        try:
            after = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        except ValueError:
            after = None
        if not isinstance(after, int | str) or isinstance(after, bool):
            raise _wrong("cursor", "cursor must be one that a `next` address carried.")
        return cls(int(raw), after)

    def render(
        self, items: Sequence[object], last: int | str | None, path: str, given: Any
    ) -> dict[str, object]:
        """The list document. `last` is the key of the last row when more rows follow, else None.

        `given` is the request's QueryDict; the `next` address repeats its filters.
        """
        if last is None:
            return {"items": items, "next": None}
        cursor = base64.urlsafe_b64encode(json.dumps(last).encode()).decode()
        kept = [
            (name, value) for name, values in given.lists() if name != "cursor" for value in values
        ]
        return {"items": items, "next": f"{path}?{urlencode([*kept, ('cursor', cursor)])}"}

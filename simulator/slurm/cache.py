"""Rendered rows, kept as JSON text until their subject changes."""

import json
from collections.abc import Callable
from typing import Any


class RowCache:
    """One text a row key; rendered anew when its revision is not the one kept."""

    def __init__(self) -> None:
        """An empty cache."""
        self._rows: dict[tuple[str, str | int], tuple[object, str]] = {}

    def row(
        self, kind: str, key: str | int, revision: object, render: Callable[[], dict[str, Any]]
    ) -> str:
        """The JSON text of a row."""
        kept = self._rows.get((kind, key))
        if kept is not None and kept[0] == revision:
            return kept[1]
        text = json.dumps(render())
        self._rows[kind, key] = (revision, text)
        return text

    def keep_only(self, kind: str, keys: set[int]) -> None:
        """Forget the rows of a kind whose subject is gone, once they are the larger part."""
        if sum(k[0] == kind for k in self._rows) < 2 * len(keys) + 1000:
            return
        gone = [k for k in self._rows if k[0] == kind and k[1] not in keys]
        for key in gone:
            del self._rows[key]

"""Reads that are the same every time: Django words them once, which costs more than they do."""

from typing import Any

from django.db.models import QuerySet

from kit.bulk import Row, Statement, run


def plain_rows(query: "QuerySet[Any, Any]") -> list[Row]:
    """The rows of a query that gives values, as the driver gives them.

    For columns that the driver reads as they are: numbers, text, UUIDs, moments, arrays; not JSON.
    """
    return run(Statement(*query.query.sql_with_params()))[0]


class Fixed:
    """The rows of a query without values that change, as `plain_rows` gives them."""

    def __init__(self, query: "QuerySet[Any, Any]") -> None:
        """`query` gives values, one column each."""
        self._query = query
        self._statement: Statement | None = None

    def rows(self) -> list[Row]:
        """What is there now."""
        if self._statement is None:
            self._statement = Statement(*self._query.query.sql_with_params(), is_kept=True)
        return run(self._statement)[0]

"""Tables of quotas as files: CSV and YAML, read whole or refused with row and field."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from quotas.core.table import (
    COLUMNS,
    TableProblem,
    TableRow,
    parse_table,
    read_csv,
    write_csv,
)

FORMATS = ("yaml", "csv")


def write_file(rows: Iterable[TableRow], form: str) -> str:
    """The table as a text that `read_file` takes. `form` is one of FORMATS."""
    if form == "csv":
        return write_csv(rows)
    items = [{name: getattr(row, name) for name in COLUMNS} for row in rows]
    return str(yaml.safe_dump({"quotas": items}, sort_keys=False))


def read_file(text: str, form: str) -> tuple[list[TableRow], list[TableProblem]]:
    """The rows of a text, and everything that is wrong with it."""
    found: Sequence[Any] = read_csv(text) if form == "csv" else _read_yaml(text)
    problems = [one for one in found if isinstance(one, TableProblem)]
    return ([], problems) if problems else parse_table(found)


def _read_yaml(text: str) -> Sequence[Any]:
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return [TableProblem(0, "", "invalid_yaml", f"It is not YAML: {str(error)[:300]}")]
    if not isinstance(found, Mapping) or set(found) != {"quotas"}:
        words = "Give one key, `quotas`, with a list of rows."
        return [TableProblem(0, "", "wrong_type", words)]
    if not isinstance(found["quotas"], list):
        return [TableProblem(0, "quotas", "wrong_type", "`quotas` is to be a list of rows.")]
    return found["quotas"]

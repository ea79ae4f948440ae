"""Quotas as a table in CSV or YAML: read whole, every fault told with its row and field.

A table is what `export` writes: one row a tenant, flavor and (or empty) cluster. Numbers are whole
GPUs; an empty limit is none.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COLUMNS = (
    "tenant", "flavor", "cluster", "guaranteed", "borrowing_limit", "lending_limit", "weight",
)  # fmt: skip
NEEDED = ("tenant", "flavor", "guaranteed")
NUMBERS = ("guaranteed", "borrowing_limit", "lending_limit", "weight")
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: `number` counts from 1 without the header; None = not limited, all clusters."""

    number: int
    tenant: str
    flavor: str
    cluster: str | None
    guaranteed: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    weight: int = 1

    @property
    def place(self) -> tuple[str, str, str | None]:
        """What the row speaks of."""
        return self.tenant, self.flavor, self.cluster


@dataclass(frozen=True, slots=True)
class TableProblem:
    """What is wrong in a row (0 = in the table itself) and field ("" = in the row itself)."""

    row: int
    field: str
    code: str
    detail: str


def read_csv(text: str) -> Sequence[Mapping[str, Any]] | list[TableProblem]:
    """The rows of a CSV text by column, cells as text; or what keeps it from being a table."""
    lines = csv.reader(io.StringIO(text), strict=True)
    try:
        table = [cells for cells in lines if cells]
    except csv.Error as error:
        return [TableProblem(0, "", "invalid_csv", f"Line {lines.line_num} is not CSV: {error}.")]
    if not table:
        return [TableProblem(0, "", "empty", f"The first line names columns: {','.join(COLUMNS)}.")]
    names = [name.strip() for name in table[0]]
    if len(set(names)) != len(names):
        return [TableProblem(0, "", "duplicate_column", "A column stands there twice.")]
    problems = [
        TableProblem(number, "", "wrong_length", f"It has {len(cells)} cells, not {len(names)}.")
        for number, cells in enumerate(table[1:], start=1)
        if len(cells) != len(names)
    ]
    if problems:
        return problems
    return [
        {name: number_of(cell) if name in NUMBERS else cell.strip() for name, cell in row}
        for cells in table[1:]
        for row in [list(zip(names, cells, strict=True))]
    ]


def number_of(cell: str) -> int | str | None:
    """A cell of digits as a number, an empty one as None; anything else stays text, and wrong."""
    cell = cell.strip()
    if not cell:
        return None
    return int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 19 else cell


def parse_table(
    rows: Sequence[object],
) -> tuple[list[TableRow], list[TableProblem]]:
    """The rows of a table, and everything that is wrong with the others."""
    if len(rows) > MOST_ROWS:
        return [], [TableProblem(0, "", "too_many", f"Give at most {MOST_ROWS} rows.")]
    good: list[TableRow] = []
    problems: list[TableProblem] = []
    seen: dict[tuple[str, str, str | None], int] = {}
    for number, row in enumerate(rows, start=1):
        wrong = list(_wrong(number, row))
        problems += wrong
        if wrong:
            continue
        parsed = _row(number, row)  # type: ignore[arg-type]  # a mapping, as nothing is wrong
        first = seen.setdefault(parsed.place, number)
        if first != number:
            words = f"Row {first} speaks of the same tenant, flavor and cluster."
            problems.append(TableProblem(number, "tenant", "duplicate", words))
        good.append(parsed)
    return good, problems


def _row(number: int, row: Mapping[str, Any]) -> TableRow:
    given = {name: value for name, value in row.items() if value not in (None, "")}
    return TableRow(number, **{"cluster": None, **given})


def _wrong(number: int, row: object) -> Iterable[TableProblem]:
    if not isinstance(row, Mapping):
        yield TableProblem(number, "", "wrong_type", f"Give an object with {', '.join(NEEDED)}.")
        return
    for name in row:
        if name not in COLUMNS:
            words = f"Known: {', '.join(COLUMNS)}."
            yield TableProblem(number, str(name)[:100], "unknown_field", words)
    for name in COLUMNS:
        if row.get(name) in (None, ""):
            if name in NEEDED:
                yield TableProblem(number, name, "missing", f"Give {name}.")
        elif wrong := _wrong_value(name, row[name]):
            yield TableProblem(number, name, *wrong)


def _wrong_value(name: str, value: object) -> tuple[str, str] | None:
    if name not in NUMBERS:
        return None if isinstance(value, str) else ("wrong_type", "Give text.")
    if isinstance(value, int) and not isinstance(value, bool):
        return None
    # YAML's aliases make lists that are endless when they are written out.
    shown = f"{str(value)[:40]!r}" if isinstance(value, str | int | float) else "That"
    words = f"{shown} is no whole number of GPUs; no units, no formulas."
    return "invalid_number", words


def write_csv(rows: Iterable[TableRow]) -> str:
    """The table as CSV, as `read_csv` and `parse_table` take it."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(COLUMNS)
    for row in rows:
        out.writerow([_cell(getattr(row, name)) for name in COLUMNS])
    return text.getvalue()


def _cell(value: object) -> object:
    return "" if value is None else value

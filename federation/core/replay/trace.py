"""A trace of past jobs as CSV: read whole, or every fault told with its row and field.

Columns that are read: `job_id, submit_time, duration, gpus` (needed), `nodes, gpus_per_node, tenant,
user, klass, gpu_type, walltime_req` (-1 or empty = unknown). Times are whole seconds since the
trace's start. Other columns are let be.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

NEEDED = ("job_id", "submit_time", "duration", "gpus")
NUMBERS = ("submit_time", "duration", "gpus", "nodes", "gpus_per_node", "walltime_req")
MOST_PROBLEMS = 100
MOST_ROWS = 1_000_000
LARGEST = 10**10  # seconds: three hundred years
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A job of the trace; `number` counts rows from 1 without the header. -1 = unknown."""

    number: int
    job_id: str
    submit_s: int
    duration_s: int
    gpus: int
    nodes: int
    gpus_per_node: int
    tenant: str
    user: str
    klass: str
    gpu_type: str
    walltime_s: int


@dataclass(frozen=True, slots=True)
class TraceProblem:
    """What is wrong in a row (0 = in the file itself) and field ("" = in the row itself)."""

    row: int
    field: str
    detail: str


@dataclass(frozen=True)
class Trace:
    """The jobs that can be replayed; `left_out` counts the others by why."""

    rows: tuple[TraceRow, ...]
    left_out: Mapping[str, int]


def read_trace(lines: Iterable[str]) -> Trace | list[TraceProblem]:
    """The jobs of a CSV text, or what is wrong with it (at most 100 problems).

    Left out are jobs without GPUs and jobs whose run time is not known.
    """
    table = csv.reader(lines, strict=True)
    try:
        header = next(table, [])
        names = [name.strip() for name in header]
        problems = list(_wrong_header(names))
        return problems or _read(names, table)
    except csv.Error as error:
        return [TraceProblem(0, "", f"Line {table.line_num} is not CSV: {error}.")]


def _wrong_header(names: list[str]) -> Iterator[TraceProblem]:
    if len(set(names)) != len(names):
        yield TraceProblem(0, "", "A column stands there twice.")
    for name in NEEDED:
        if name not in names:
            yield TraceProblem(0, name, f"There is no column {name}.")


def _read(names: list[str], table: Iterator[list[str]]) -> Trace | list[TraceProblem]:
    rows: list[TraceRow] = []
    problems: list[TraceProblem] = []
    left_out: Counter[str] = Counter()
    seen: dict[str, int] = {}
    for number, cells in enumerate(filter(None, table), start=1):
        if number > MOST_ROWS:
            return [TraceProblem(0, "", f"It has more than {MOST_ROWS} jobs.")]
        if len(problems) >= MOST_PROBLEMS:
            return problems
        row = _row(number, names, cells, problems)
        if row is not None and seen.setdefault(row.job_id, number) != number:
            words = f"Row {seen[row.job_id]} has the same."
            problems.append(TraceProblem(number, "job_id", words))
        elif row is not None and (why := _left_out(row)):
            left_out[why] += 1
        elif row is not None:
            rows.append(row)
    if not rows and not problems:
        problems.append(TraceProblem(0, "", "It has no job that can be replayed."))
    return problems or Trace(tuple(rows), dict(left_out))


def _left_out(row: TraceRow) -> str:
    """Why the job cannot be replayed, or ""."""
    if row.gpus == 0:
        return "without GPUs"
    return "of unknown duration" if row.duration_s == UNKNOWN else ""


def _row(
    number: int, names: list[str], cells: list[str], problems: list[TraceProblem]
) -> TraceRow | None:
    """The row; None and what is wrong with it among the problems."""
    if len(cells) != len(names):
        words = f"It has {len(cells)} cells, not {len(names)}."
        problems.append(TraceProblem(number, "", words))
        return None
    known = len(problems)
    texts = dict(zip(names, map(str.strip, cells), strict=True))
    numbers = {name: _number(number, name, texts.get(name, ""), problems) for name in NUMBERS}
    if not texts["job_id"]:
        problems.append(TraceProblem(number, "job_id", "It is empty."))
    if numbers["submit_time"] == UNKNOWN:
        problems.append(TraceProblem(number, "submit_time", "It is needed."))
    if numbers["gpus"] == UNKNOWN:
        problems.append(TraceProblem(number, "gpus", "It is needed."))
    if len(problems) > known:
        return None
    return TraceRow(
        number=number,
        job_id=texts["job_id"],
        submit_s=numbers["submit_time"],
        duration_s=numbers["duration"],
        gpus=numbers["gpus"],
        nodes=numbers["nodes"],
        gpus_per_node=numbers["gpus_per_node"],
        tenant=texts.get("tenant", ""),
        user=texts.get("user", ""),
        klass=texts.get("klass", ""),
        gpu_type=texts.get("gpu_type", ""),
        walltime_s=numbers["walltime_req"],
    )


def _number(row: int, name: str, text: str, problems: list[TraceProblem]) -> int:
    if text in ("", "-1"):
        return UNKNOWN
    if text.isascii() and text.isdigit() and len(text) < 19 and int(text) <= LARGEST:
        return int(text)
    words = f"{text[:40]!r} is no whole number from 0 to {LARGEST} (-1 = unknown)."
    problems.append(TraceProblem(row, name, words))
    return UNKNOWN

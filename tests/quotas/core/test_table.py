"""Quota tables: what is exported is read back, and every fault is told by row and field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.core.table import COLUMNS, TableProblem, TableRow, parse_table, read_csv, write_csv

HEAD = ",".join(COLUMNS)
GOOD = {"tenant": "acme", "flavor": "h100", "guaranteed": 8}


def told(problems: list[TableProblem]) -> list[tuple[int, str, str]]:
    return [(one.row, one.field, one.code) for one in problems]


def from_csv(text: str) -> tuple[list[TableRow], list[tuple[int, str, str]]]:
    rows = read_csv(text)
    if rows and isinstance(rows[0], TableProblem):
        return [], told(rows)  # type: ignore[arg-type]
    good, problems = parse_table(rows)
    return good, told(problems)


def test_a_table_is_read() -> None:
    good, problems = from_csv(f"{HEAD}\nacme,h100,,64,,16,\nacme/vision, h100 ,alpha,8,0,,2\n\n")
    assert problems == []
    assert good == [
        TableRow(1, "acme", "h100", None, 64, None, 16),
        TableRow(2, "acme/vision", "h100", "alpha", 8, 0, None, 2),
    ]


def test_columns_may_be_left_out_and_stand_in_any_order() -> None:
    good, problems = from_csv("guaranteed,tenant,flavor\n8,acme,h100\n")
    assert (good, problems) == ([TableRow(1, "acme", "h100", None, 8)], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(0, "", "empty")]),
        ("tenant,tenant\nx,y\n", [(0, "", "duplicate_column")]),
        ('tenant,flavor\n"x,y\n', [(0, "", "invalid_csv")]),
        (f"{HEAD}\nacme,h100\n", [(1, "", "wrong_length")]),
        ("tenant,flavor,guaranteed,owner\nacme,h100,8,mia\n", [(1, "owner", "unknown_field")]),
        ("tenant,flavor,guaranteed\nacme,h100,8 nodes\n", [(1, "guaranteed", "invalid_number")]),
        ("tenant,flavor,guaranteed\nacme,h100,=2+3\n", [(1, "guaranteed", "invalid_number")]),
        ("tenant,flavor,guaranteed\nacme,h100,-8\n", [(1, "guaranteed", "invalid_number")]),
        ("tenant,flavor,guaranteed\nacme,h100,8.5\n", [(1, "guaranteed", "invalid_number")]),
        ("tenant,flavor,guaranteed\nacme,,\n", [(1, "flavor", "missing"), (1, "guaranteed", "missing")]),
        ("tenant,flavor,guaranteed\na,h,1\nb,h,1\na,h,2\n", [(3, "tenant", "duplicate")]),
    ],
)  # fmt: skip
def test_what_is_wrong_in_csv(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert from_csv(text)[1] == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (7, [(1, "", "wrong_type")]),
        ({**GOOD, "weight": True}, [(1, "weight", "invalid_number")]),
        ({**GOOD, "guaranteed": "8"}, [(1, "guaranteed", "invalid_number")]),
        ({**GOOD, "lending_limit": 1.5}, [(1, "lending_limit", "invalid_number")]),
        ({**GOOD, "cluster": 5}, [(1, "cluster", "wrong_type")]),
        ({"flavor": "h100", "guaranteed": 0, 5: 1}, [(1, "5", "unknown_field"), (1, "tenant", "missing")]),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_row(row: object, expected: list[tuple[int, str, str]]) -> None:
    assert told(parse_table([row])[1]) == expected


def test_too_many_rows() -> None:
    assert told(parse_table([GOOD] * 10_001)[1]) == [(0, "", "too_many")]


NAMES = st.text("abc/-", min_size=1, max_size=5)
LIMITS = st.one_of(st.none(), st.integers(0, 10**6))


@given(
    st.lists(
        st.tuples(
            NAMES, NAMES, st.one_of(st.none(), NAMES), st.integers(0, 10**6), LIMITS, LIMITS,
            st.integers(1, 1000),
        ),
        unique_by=lambda row: row[:3],
    )
)  # fmt: skip
def test_what_is_written_is_read_back(rows: list[tuple[object, ...]]) -> None:
    table = [TableRow(number, *row) for number, row in enumerate(rows, start=1)]  # type: ignore[arg-type]
    assert from_csv(write_csv(table)) == (table, [])

"""Strict JSON: exactly the texts that RFC 8259 and our limits allow."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import BodyTooLargeError, InvalidJsonError, MusterError
from kit.problem import MAX_BODY_BYTES, MAX_DEPTH, parse_json, problem

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_json_is_read(value: Any) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_nothing_else(raw: bytes) -> None:
    try:
        parse_json(raw)
    except MusterError as error:
        assert error.status == 400  # noqa: PT017 - both ends are allowed here
        json.dumps(problem(error))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b"[1] [2]", "not JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b"[Infinity]", "Infinity is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b'{"a": 1, "b": 2, "a": 3}', "'a' stands twice"),
        (b'{"a": {"b": 1, "b": 1}}', "'b' stands twice"),
        (b'"\xff"', "not UTF-8"),
        (b"\xff\xfe[\x00]\x00", "not UTF-8"),
        (b'{"a": "\x01"}', "not JSON"),
        (b"1" * 5000, "not JSON"),  # more digits than Python turns into a number
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested deeper"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested deeper"),
        (b"[" * 200_000, "nested deeper"),
    ],
    ids=range(17),
)
def test_what_is_not_is_refused_with_words(raw: bytes, words: str) -> None:
    with pytest.raises(InvalidJsonError, match=words):
        parse_json(raw)


def test_the_limits_themselves_are_allowed() -> None:
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert parse_json(b"[" + b"[]," * 1000 + b"[]]")  # many, not deep
    largest = b'"' + b"x" * (MAX_BODY_BYTES - 2) + b'"'
    assert len(str(parse_json(largest))) == MAX_BODY_BYTES - 2
    with pytest.raises(BodyTooLargeError):
        parse_json(largest + b" ")


@pytest.mark.parametrize("raw", [b'"\\ud800"', b'"\\u0000"'])
def test_escapes_that_a_database_cannot_hold_are_json_all_the_same(raw: bytes) -> None:
    assert isinstance(parse_json(raw), str)  # fields refuse them with a pointer, later

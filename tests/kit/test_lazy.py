"""Values that are made when they are asked for."""

import pytest

from kit.lazy import LazyMapping


def test_a_value_is_made_once_a_source_and_only_when_it_is_asked_for() -> None:
    made: list[int] = []

    def square(number: int) -> int:
        made.append(number)
        return number * number

    squares = LazyMapping({2: 2, 3: 3, 9: 3}, square)
    assert 3 in squares
    assert 4 not in squares
    assert (len(squares), made) == (3, [])
    assert (squares[3], squares[3], made) == (9, 9, [3])
    with pytest.raises(KeyError):
        squares[4]
    assert squares == {2: 4, 3: 9, 9: 9}
    assert sorted(made) == [2, 3]


def test_whoever_shares_a_value_is_known() -> None:
    values = LazyMapping({"a": 1, "b": 2, "c": 1}, str)
    assert list(values.shared()) == [["a", "c"], ["b"]]

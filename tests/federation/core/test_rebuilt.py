"""When a cluster that lost attempts looks rebuilt: a table, and what no order of rows changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.rebuilt import Numbered, evidence, explanation, number_of

OLD, OLDER = Numbered(1_000, 41), Numbered(900, 40)


@pytest.mark.parametrize(
    ("lost", "known", "words"),
    [
        ([], [], ""),
        ([OLD], [], ""),  # one alone may have been removed by an operator
        ([OLD, OLDER], [], "none of the 2 attempts"),
        ([OLD, OLDER], [Numbered(800, 39)], ""),  # it remembers an older one
        ([OLD], [Numbered(2_000, 3)], "job numbers began anew (3 came after 41)"),
        ([OLD, OLDER], [Numbered(2_000, 3)], "began anew"),
        ([OLD, OLDER], [Numbered(2_000, 77)], ""),  # a later one is there, in order
        ([Numbered(1_000, 0), Numbered(1_100, 0)], [], "none of the 2 attempts"),
        ([Numbered(1_000, 0)], [Numbered(2_000, 5)], ""),
    ],
)
def test_evidence(lost: list[Numbered], known: list[Numbered], words: str) -> None:
    found = evidence(lost, known)
    assert words in found
    assert bool(found) == bool(words)


ATTEMPTS = st.lists(st.builds(Numbered, st.integers(0, 50), st.integers(0, 9)), max_size=5)


@given(ATTEMPTS, ATTEMPTS, st.randoms(use_true_random=False))
def test_the_order_of_rows_means_nothing(
    lost: list[Numbered], known: list[Numbered], random: st.DataObject
) -> None:
    found = evidence(lost, known)
    random.shuffle(lost)  # type: ignore[attr-defined]
    random.shuffle(known)  # type: ignore[attr-defined]
    assert evidence(lost, known) == found
    if any(one.bound_ms <= min((gone.bound_ms for gone in lost), default=0) for one in known):
        assert found == ""


def test_words_and_numbers() -> None:
    assert "aurora looks rebuilt with an empty state: it" in explanation("aurora", "it")
    assert [number_of(text) for text in ("17", "", "muster-1", "\u0661\u0667")] == [17, 0, 0, 0]

"""Findings of checks: grades, order, and that no secret is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.findings import Finding, Level, as_json, as_text, graded, hide, worst


@pytest.mark.parametrize(
    ("value", "level"),
    [(0, Level.OK), (9.9, Level.OK), (10, Level.WARNING), (99, Level.WARNING), (100, Level.ERROR)],
)
def test_a_number_is_graded_from_its_limits_on(value: float, level: Level) -> None:
    found = graded("lag", "words", value, warning=10, error=100, fix="do this")
    assert (found.level, found.fix) == (level, "" if level is Level.OK else "do this")


def test_the_worst_counts() -> None:
    def of(*levels: Level) -> Level:
        return worst(Finding("x", level, "") for level in levels)

    assert of() is Level.OK
    assert of(Level.OK, Level.WARNING, Level.OK) is Level.WARNING
    assert of(Level.ERROR, Level.WARNING) is Level.ERROR


@given(st.lists(st.text("abc", min_size=1), max_size=5), st.text("abc ", max_size=40))
def test_nothing_hidden_is_left(secrets: list[str], text: str) -> None:
    shown = hide(text, [*secrets, ""])
    assert not any(secret in shown for secret in secrets)


def test_text_and_json_say_the_same() -> None:
    findings = [
        Finding("disk", Level.OK, "room"),
        Finding("broker", Level.ERROR, "away", "start it"),
    ]
    assert as_text(findings).splitlines() == [
        "ok       disk    room",
        "error    broker  away",
        "                 -> start it",
    ]
    document = as_json(findings)
    assert document["level"] == "error"
    assert document["findings"] == [
        {"what": "disk", "level": "ok", "words": "room", "fix": ""},
        {"what": "broker", "level": "error", "words": "away", "fix": "start it"},
    ]

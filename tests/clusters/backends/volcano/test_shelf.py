"""What a watch may tell, and what makes its list be read again."""

from typing import Any

import pytest

from clusters.backends.volcano.shelf import DoubtError, Shelf

Event = tuple[str, Any]


def thing(name: str, version: object, value: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}, "value": value}


def shelf(heard: list[tuple[str | None, str | None]] | None = None) -> Shelf[str]:
    told = heard if heard is not None else []
    made = Shelf[str]("/things", lambda raw: raw["value"], lambda old, new: told.append((old, new)))
    made.fill([made.row(thing("a", "4", "one")), made.row(thing("b", "5", "two"))], "7", 0)
    return made


def test_every_change_is_told_once_with_what_was_before() -> None:
    heard: list[tuple[str | None, str | None]] = []
    one = shelf(heard)
    assert heard == [(None, "one"), (None, "two")]
    heard.clear()
    events = [
        ("MODIFIED", thing("a", "8", "uno")),
        ("ADDED", thing("c", "9", "three")),
        ("MODIFIED", thing("c", "10", "three")),
        ("BOOKMARK", {"metadata": {"resourceVersion": "12"}}),
        ("DELETED", thing("b", "13", "two at last")),
    ]
    one.follow(one.news(events))
    assert heard == [("one", "uno"), (None, "three"), ("two", "two at last"), ("two at last", None)]
    assert (one.things, one.version) == ({("", "a"): "uno", ("", "c"): "three"}, "13")
    heard.clear()
    one.fill([one.row(thing("c", "9", "three"))], "20", 1)
    assert heard == [("uno", None)]


@pytest.mark.parametrize(
    "events",
    [
        [("ADDED", thing("c", "9")), ("ADDED", thing("d", "9"))],
        [("ADDED", thing("c", "9")), ("ADDED", thing("d", "8"))],
        [("ADDED", thing("c", "7"))],
        [("BOOKMARK", thing("c", "6"))],
        [("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {}})],
        [("RENAMED", thing("c", "9"))],
        [("ADDED", thing("c", "new"))],
        [("ADDED", thing("c", "-9"))],
        [("ADDED", thing("c", "٣٣"))],
        [("ADDED", {"metadata": {"resourceVersion": "9"}})],
        [("ADDED", {"metadata": None})],
        [("ADDED", {"metadata": {"name": "c", "resourceVersion": "9"}})],  # no value to read
        [("ADDED", "text")],
        [("ADDED", None)],
    ],
)
def test_what_is_odd_is_not_taken_and_nothing_before_it(events: list[Event]) -> None:
    one = shelf()
    with pytest.raises(DoubtError):
        one.news([("MODIFIED", thing("a", "8", "uno")), *events[1:], *events[:1], *events])
    with pytest.raises(DoubtError):
        one.news(events)
    assert (one.things[("", "a")], one.version) == ("one", "7")


def test_a_list_without_a_version_is_read_each_time() -> None:
    for version in ("", "abc", "1.5"):
        one = shelf()
        one.fill([], version, 5)
        assert one.version == ""

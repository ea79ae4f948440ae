"""Pages: limits, cursors of ours and only of ours, and walks that see every row once."""

from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from kit.errors import UnknownParameterError
from kit.pagination import DEFAULT_LIMIT, MAX_LIMIT, Page, refuse_unknown


def test_the_first_page_and_the_bounds_of_limit() -> None:
    assert Page.of({}) == Page(DEFAULT_LIMIT, None)
    assert Page.of({"limit": "1"}).limit == 1
    assert Page.of({"limit": str(MAX_LIMIT)}).limit == MAX_LIMIT


@pytest.mark.parametrize("limit", ["0", "-1", "501", "1e3", "", " 5", "٣", "99999999999999999999"])
def test_a_limit_that_is_none(limit: str) -> None:
    with pytest.raises(UnknownParameterError) as error:
        Page.of({"limit": limit})
    assert error.value.errors[0].pointer == "?limit"


@pytest.mark.parametrize("cursor", ["", "x", "bnVsbA==", "dHJ1ZQ==", "WzFd", "é", "MS41"])
def test_a_cursor_that_is_not_ours(cursor: str) -> None:
    with pytest.raises(UnknownParameterError) as error:
        Page.of({"cursor": cursor})
    assert error.value.errors[0].pointer == "?cursor"


@given(st.integers(-(2**63), 2**63) | st.text(st.characters(exclude_categories=["Cs"])))
def test_a_cursor_of_ours_is_read_back_and_filters_stay(key: int | str) -> None:
    query = QueryDict("state=running&state=queued&label=a%3Db%20c&cursor=old")
    listed = Page(50, None).render([1], key, "/api/v1/jobs", query)
    address = urlsplit(str(listed["next"]))
    again = parse_qs(address.query)
    assert address.path == "/api/v1/jobs"
    assert again["state"] == ["running", "queued"]
    assert again["label"] == ["a=b c"]
    assert len(again["cursor"]) == 1
    assert Page.of({"cursor": again["cursor"][0]}).after == key


@given(st.integers(0, 40), st.integers(1, 12))
def test_a_walk_sees_every_row_once(number: int, limit: int) -> None:
    rows, seen, query = list(range(number)), [], QueryDict(f"limit={limit}")
    while True:
        page = Page.of(query.dict())
        after = page.after if isinstance(page.after, int) else -1
        found = [row for row in rows if row > after][: page.limit + 1]
        shown = found[: page.limit]
        last = shown[-1] if len(found) > page.limit else None
        listed = page.render(shown, last, "/", query)
        seen += shown
        if listed["next"] is None:
            break
        query = QueryDict(urlsplit(str(listed["next"])).query)
    assert seen == rows


def test_unknown_parameters_are_refused_by_name() -> None:
    refuse_unknown({"limit": "1"}, ["limit", "cursor"])
    with pytest.raises(UnknownParameterError, match="colour"):
        refuse_unknown({"colour": "red"}, ["limit", "cursor"])

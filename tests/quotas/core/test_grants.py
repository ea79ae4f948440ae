"""Grants raise rows in their time, and nothing owes more than it has at any moment of any grant."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.core.cohort import QuotaRow
from quotas.core.grants import Grant, first_misfits, rows_at, turns
from quotas.core.tree import misfits

ORG, TEAM, LAB = (UUID(int=number) for number in (1, 2, 3))
LINES = {ORG: (ORG,), TEAM: (ORG, TEAM), LAB: (ORG, TEAM, LAB)}
H100 = "h100"


def row(tenant: UUID, guaranteed: int, limit: int | None = None) -> QuotaRow:
    return QuotaRow(tenant, H100, None, guaranteed, limit)


def guarantees(rows: tuple[QuotaRow, ...]) -> list[int]:
    return [one.guaranteed for one in rows]


def test_a_grant_counts_from_its_begin_until_before_its_end() -> None:
    rows = (row(ORG, 64), row(TEAM, 8))
    grants = (Grant(TEAM, H100, 16, 100, 200), Grant(TEAM, H100, 1, 150))
    found = [
        guarantees(rows_at(rows, grants, at))[1] for at in (99, 100, 149, 150, 199, 200, 10**9)
    ]
    assert found == [8, 24, 24, 25, 25, 9, 9]


def test_a_grant_of_another_flavor_or_a_row_of_one_cluster_is_not_touched() -> None:
    rows = (
        QuotaRow(TEAM, "a100", None, 8, None),
        QuotaRow(TEAM, H100, UUID(int=9), 8, None),
    )
    assert rows_at(rows, (Grant(TEAM, H100, 16, 0),), 5) == rows


def test_a_borrowing_limit_is_only_ever_raised() -> None:
    def limit(own: int | None, *granted: int | None) -> int | None:
        grants = [Grant(TEAM, H100, 1, 0, None, one) for one in granted]
        return rows_at((row(TEAM, 8, own),), grants, 5)[0].borrowing_limit

    assert [limit(8, None), limit(8, 4), limit(8, 16, 12), limit(None, 4), limit(0, 4)] == [
        8, 8, 16, None, 4,
    ]  # fmt: skip


def test_what_a_parent_was_granted_for_a_while_cannot_be_promised_for_longer() -> None:
    rows = (row(ORG, 8), row(TEAM, 8))
    lent = Grant(ORG, H100, 16, 100, 200)
    assert first_misfits(rows, (lent, Grant(TEAM, H100, 16, 100, 200)), LINES, 0) == (0, ())
    at, (found,) = first_misfits(rows, (lent, Grant(TEAM, H100, 16, 100, 201)), LINES, 0)
    assert (at, found.row.tenant, found.row.guaranteed, found.claimed) == (200, ORG, 8, 24)
    at, (found,) = first_misfits(rows, (lent, Grant(TEAM, H100, 16, 99, 200)), LINES, 0)
    assert (at, found.claimed) == (99, 24)


grant = st.builds(
    lambda tenant, gpus, begin, lasts: Grant(
        tenant, H100, gpus, begin, None if lasts is None else begin + lasts
    ),
    st.sampled_from([ORG, TEAM, LAB]),
    st.integers(1, 4),
    st.integers(0, 12),
    st.none() | st.integers(1, 12),
)


@settings(max_examples=300)
@given(st.lists(st.integers(0, 8), min_size=3, max_size=3), st.lists(grant, max_size=5))
def test_looking_at_turns_is_looking_at_every_moment(gpus: list[int], grants: list[Grant]) -> None:
    rows = tuple(row(tenant, owed) for tenant, owed in zip((ORG, TEAM, LAB), gpus, strict=True))
    for now in (0, 5):
        every = ((at, misfits(rows_at(rows, grants, at), LINES)) for at in range(now, 40))
        expected = next(((at, found) for at, found in every if found), (now, ()))
        assert first_misfits(rows, grants, LINES, now) == expected
        assert turns(grants, now)[0] == now

"""Quota over the tree: every row on the way to the root holds, and use counts in all of them."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.core.cohort import GUARANTEED, SPOT, Cohort, QuotaRow, Use

ACME, TEAM, OTHER, BETA = (UUID(int=n) for n in range(1, 5))
HERE, THERE = UUID(int=101), UUID(int=102)
LINEAGES = {ACME: (ACME,), TEAM: (ACME, TEAM), OTHER: (ACME, OTHER), BETA: (BETA,)}


def row(
    tenant: UUID, guaranteed: int, limit: int | None = None, on: UUID | None = None
) -> QuotaRow:
    return QuotaRow(tenant, "h100", on, guaranteed, limit)


def held(tenant: UUID, gpus: int, service_class: str = GUARANTEED, on: UUID = HERE) -> Use:
    return Use(tenant, "h100", on, service_class, gpus)


@pytest.mark.parametrize(
    ("rows", "uses", "service_class", "expected"),
    [
        ([], [], GUARANTEED, 0),
        ([], [], SPOT, 0),
        ([row(BETA, 8)], [], GUARANTEED, 0),  # another tree's row says nothing here
        ([row(TEAM, 8)], [], GUARANTEED, 8),
        ([row(TEAM, 8)], [], SPOT, None),
        ([row(TEAM, 8, 4)], [], SPOT, 4),
        ([row(ACME, 8)], [], GUARANTEED, 8),
        ([row(ACME, 8), row(TEAM, 6)], [held(OTHER, 5)], GUARANTEED, 3),
        ([row(ACME, 8), row(TEAM, 2)], [held(OTHER, 5)], GUARANTEED, 2),
        ([row(ACME, 8)], [held(TEAM, 3), held(ACME, 3)], GUARANTEED, 2),
        ([row(ACME, 8)], [held(TEAM, 9)], GUARANTEED, -1),
        ([row(ACME, 8)], [held(TEAM, 5, SPOT)], GUARANTEED, 8),
        ([row(ACME, 8, 6)], [held(OTHER, 5, SPOT)], SPOT, 1),
        ([row(TEAM, 8, on=HERE)], [], GUARANTEED, 8),
        ([row(TEAM, 8, on=THERE)], [], GUARANTEED, 0),
        ([row(TEAM, 8, on=HERE), row(TEAM, 10)], [held(TEAM, 6, on=THERE)], GUARANTEED, 4),
        ([row(TEAM, 3, on=HERE), row(TEAM, 10)], [held(TEAM, 6, on=THERE)], GUARANTEED, 3),
    ],
)
def test_headroom(
    rows: list[QuotaRow], uses: list[Use], service_class: str, expected: int | None
) -> None:
    found = Cohort(rows, LINEAGES, uses).headroom(TEAM, "h100", HERE, service_class)
    assert found.gpus == expected


def test_the_row_that_limits_is_named() -> None:
    rows = [row(ACME, 8), row(TEAM, 6)]
    cohort = Cohort(rows, LINEAGES, [held(OTHER, 5)])
    assert cohort.headroom(TEAM, "h100", HERE, GUARANTEED).row == rows[0]
    assert cohort.headroom(TEAM, "h100", HERE, SPOT).row is None


def test_limits_follow_what_is_taken() -> None:
    cohort = Cohort([row(TEAM, 8)], LINEAGES)
    limits = cohort.limits(TEAM, "h100", HERE, GUARANTEED)
    assert limits.headroom().holds(8)
    cohort.take(held(TEAM, 3))
    assert not limits.headroom().holds(6)
    assert limits.headroom().holds(5)


TENANTS = st.sampled_from(list(LINEAGES))
PLACES = st.sampled_from([HERE, THERE])


@given(
    st.lists(st.tuples(TENANTS, st.one_of(st.none(), PLACES)), unique=True),
    st.lists(
        st.builds(
            Use, TENANTS, st.just("h100"), PLACES, st.sampled_from([GUARANTEED, SPOT]),
            st.integers(0, 9),
        )
    ),
)  # fmt: skip
def test_a_row_counts_what_its_subtree_holds_there(
    scopes: list[tuple[UUID, UUID | None]], uses: list[Use]
) -> None:
    rows = [row(tenant, 5, 5, on) for tenant, on in scopes]
    cohort = Cohort(rows, LINEAGES, uses)
    for one in rows:
        for service_class in (GUARANTEED, SPOT):
            assert cohort.used(one, service_class) == sum(
                use.gpus
                for use in uses
                if use.service_class == service_class
                and one.tenant in LINEAGES[use.tenant]
                and one.cluster in (None, use.cluster)
            )

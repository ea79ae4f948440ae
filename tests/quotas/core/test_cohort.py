"""Quota over the tree: every row on the way to the root holds, and use counts in all of them."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.core.cohort import GUARANTEED, SPOT, Bound, Cohort, Headroom, QuotaRow, Use
from tests.quotas.definition import is_owed

ACME, TEAM, OTHER, BETA = (UUID(int=n) for n in range(1, 5))
CLASSES = (GUARANTEED, SPOT)
HERE, THERE = UUID(int=101), UUID(int=102)
LINEAGES = {ACME: (ACME,), TEAM: (ACME, TEAM), OTHER: (ACME, OTHER), BETA: (BETA,)}


def row(
    tenant: UUID,
    guaranteed: int,
    limit: int | None = None,
    on: UUID | None = None,
    lends: int | None = None,
) -> QuotaRow:
    return QuotaRow(tenant, "h100", on, guaranteed, limit, lending_limit=lends)


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
        # The team's own 2, and 1 of the 6 that its parent keeps for all below.
        ([row(ACME, 8), row(TEAM, 2)], [held(OTHER, 5)], GUARANTEED, 3),
        ([row(ACME, 8), row(TEAM, 2), row(OTHER, 3)], [held(OTHER, 1)], GUARANTEED, 5),
        ([row(ACME, 8), row(TEAM, 2), row(OTHER, 3)], [held(OTHER, 5)], GUARANTEED, 3),
        ([row(ACME, 8), row(TEAM, 2), row(OTHER, 6)], [held(TEAM, 1)], GUARANTEED, 1),
        # Lowered below what is used: over-use stays, and nothing is added.
        ([row(ACME, 4), row(TEAM, 2), row(OTHER, 2)], [held(OTHER, 5)], GUARANTEED, -1),
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


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["take", "keep", "give back", "pass on", "promote", "know"]),
            st.sampled_from([ACME, TEAM, OTHER, BETA]),
            st.integers(1, 4),
            st.sampled_from([GUARANTEED, SPOT]),
            st.sampled_from([HERE, THERE]),
        ),
        max_size=12,
    )
)
def test_limits_that_were_asked_before_say_what_new_ones_say(
    changes: list[tuple[str, UUID, int, str, UUID]],
) -> None:
    rows = [row(ACME, 9, 6), row(TEAM, 3, 4, lends=1), row(BETA, 8, lends=0), row(TEAM, 4, on=HERE)]
    cohort = Cohort(rows, LINEAGES, [], {("h100", HERE): 20, ("h100", THERE): 9})
    places = [(one, "h100", on, c) for one in LINEAGES for on in (HERE, THERE) for c in CLASSES]
    standing = {place: cohort.limits(*place) for place in places}
    for what, tenant, gpus, service_class, on in changes:
        use = held(tenant, gpus, service_class, on)
        if what == "know":
            cohort.know_idle({("h100", on): gpus})
        elif what == "give back":
            cohort.give_back(use)
        elif what == "pass on":
            cohort.pass_on(use)
        elif what == "promote":
            cohort.promote(held(tenant, gpus, GUARANTEED, on))
        else:
            cohort.take(use, idle=0 if what == "keep" else None)
        for place, limits in standing.items():
            assert limits.headroom() == cohort.headroom(*place)


@given(st.integers(0, 9), st.integers(0, 9))
def test_what_is_given_back_leaves_no_trace(before: int, gpus: int) -> None:
    rows = [row(ACME, 8, 6, lends=2), row(TEAM, 3, 4, lends=1), row(BETA, 8, lends=0)]
    cohort = Cohort(rows, LINEAGES, [held(TEAM, before)], {("h100", HERE): 20})
    for service_class in (GUARANTEED, SPOT):
        places = [(one, "h100", HERE, asked) for one in LINEAGES for asked in (GUARANTEED, SPOT)]
        was = [cohort.headroom(*place) for place in places]
        cohort.give_back(held(TEAM, gpus, service_class))
        cohort.take(held(TEAM, gpus, service_class), idle=0)
        assert [cohort.headroom(*place) for place in places] == was


def test_what_is_kept_for_a_job_takes_only_what_is_idle_of_it() -> None:
    rows = [row(TEAM, 8), row(BETA, 8, lends=0)]
    cohort = Cohort(rows, LINEAGES, [], {("h100", HERE): 12})
    assert cohort.headroom(TEAM, "h100", HERE, SPOT).gpus == 4
    cohort.take(held(TEAM, 8), idle=3)
    assert cohort.headroom(TEAM, "h100", HERE, SPOT).gpus == 1
    assert cohort.headroom(TEAM, "h100", HERE, GUARANTEED).gpus == 0


def test_what_goes_from_one_to_another_is_used_by_the_other() -> None:
    rows = [row(TEAM, 0), row(OTHER, 8, lends=0), row(BETA, 8, lends=0)]
    cohort = Cohort(rows, LINEAGES, [held(BETA, 8, SPOT)], {("h100", HERE): 12})
    asks = [(TEAM, "h100", HERE, SPOT), (OTHER, "h100", HERE, GUARANTEED)]
    assert [cohort.headroom(*ask).gpus for ask in asks] == [4, 8]
    cohort.take(held(BETA, 8), idle=0)
    cohort.pass_on(held(BETA, 8, SPOT))  # from beta to beta: it uses 8 as before
    assert [cohort.headroom(*ask).gpus for ask in asks] == [4, 8]
    cohort.take(held(OTHER, 8), idle=0)
    cohort.pass_on(held(BETA, 8))  # the other has its 8 then, and beta none of its own
    assert [cohort.headroom(*ask).gpus for ask in asks] == [4, 0]


def idle_spot(rows: list[QuotaRow], uses: list[Use], gpus: int, tenant: UUID = TEAM) -> int | None:
    """Spot headroom here with so many GPUs idle here and 100 idle there."""
    idle = {("h100", HERE): gpus, ("h100", THERE): 100, ("a100", HERE): 7}
    return Cohort(rows, LINEAGES, uses, idle).headroom(tenant, "h100", HERE, SPOT).gpus


@pytest.mark.parametrize(
    ("rows", "uses", "idle", "expected"),
    [
        ([row(TEAM, 0), row(BETA, 16)], [], 20, None),  # all that is idle is lent
        ([row(TEAM, 0, on=HERE), row(BETA, 16, on=HERE, lends=6)], [], 20, 10),
        ([row(TEAM, 0, on=HERE), row(BETA, 16, on=HERE, lends=0)], [], 20, 4),
        # What the owner uses of it, in either class, needs no keeping.
        ([row(TEAM, 0, on=HERE), row(BETA, 16, on=HERE, lends=0)], [held(BETA, 5)], 20, 9),
        ([row(TEAM, 0, on=HERE), row(BETA, 16, on=HERE, lends=0)], [held(BETA, 5, SPOT)], 20, 9),
        # A subtree's own are not kept out; a sibling is.
        ([row(ACME, 16, on=HERE, lends=0), row(TEAM, 4, on=HERE, lends=0)], [], 20, None),
        ([row(ACME, 16, on=HERE), row(OTHER, 4, on=HERE, lends=1)], [], 20, 17),
        # A parent that keeps all covers what its children keep: it is counted once.
        (
            [row(BETA, 16, on=HERE, lends=0), row(ACME, 8, on=HERE, lends=0),
             row(OTHER, 4, on=HERE, lends=0)],
            [], 20, 0,
        ),
        ([row(TEAM, 0, 3, on=HERE), row(BETA, 16, on=HERE, lends=6)], [], 20, 3),
    ],
)  # fmt: skip
def test_spot_leaves_what_owners_keep(
    rows: list[QuotaRow], uses: list[Use], idle: int, expected: int | None
) -> None:
    assert idle_spot(rows, uses, idle) == expected


def test_what_is_taken_is_idle_no_more() -> None:
    rows = [row(TEAM, 0, on=HERE), row(BETA, 16, on=HERE, lends=6)]
    cohort = Cohort(rows, LINEAGES, (), {("h100", HERE): 20})
    limits = cohort.limits(TEAM, "h100", HERE, SPOT)
    assert limits.headroom() == Headroom(10, None, Bound.KEPT)
    cohort.take(held(TEAM, 4, SPOT))
    assert limits.headroom().gpus == 6
    cohort.take(held(BETA, 7))  # its own need shrinks what it keeps as much as what is idle
    assert limits.headroom().gpus == 6


# Deeper trees: by lineage, tenant `n` below tenant `PARENTS[n]`.
PARENTS = {1: None, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: None, 8: 7}


def _lineage(number: int) -> tuple[UUID, ...]:
    above = PARENTS[number]
    return (*(_lineage(above) if above else ()), UUID(int=number))


DEEP = {UUID(int=number): _lineage(number) for number in PARENTS}


@given(
    st.dictionaries(st.sampled_from(list(DEEP)), st.integers(0, 12)),
    st.dictionaries(st.sampled_from(list(DEEP)), st.integers(0, 9)),
    st.sampled_from(list(DEEP)),
    st.integers(1, 12),
)
def test_what_is_owed_agrees_with_the_definition(
    owed: dict[UUID, int], own: dict[UUID, int], tenant: UUID, gpus: int
) -> None:
    rows = [row(one, guaranteed) for one, guaranteed in owed.items()]
    uses = [held(one, used) for one, used in own.items()]
    limits = Cohort(rows, DEEP, uses).limits(tenant, "h100", HERE, GUARANTEED)
    assert limits.hold(gpus) == is_owed(tenant, gpus, DEEP, owed, own)


VISION, SPEECH, ROWLESS = (UUID(int=number) for number in (2, 3, 9))
EXPLAINED = {**LINEAGES, ROWLESS: (ACME, ROWLESS)}


@pytest.mark.parametrize(
    ("uses", "vision", "speech"),
    [
        ([], 48, 40),
        ([held(VISION, 24)], 24, 40),
        ([held(VISION, 40)], 8, 24),
        ([held(VISION, 48)], 0, 16),
        ([held(SPEECH, 30), held(ROWLESS, 4)], 30, 6),
    ],
)
def test_the_worked_numbers_of_the_explanation(uses: list[Use], vision: int, speech: int) -> None:
    """`docs/explanation/quotas.md` has this table."""
    rows = [row(ACME, 64), row(VISION, 24), row(SPEECH, 16)]
    cohort = Cohort(rows, EXPLAINED, uses)
    assert cohort.headroom(VISION, "h100", HERE, GUARANTEED).gpus == vision
    assert cohort.headroom(SPEECH, "h100", HERE, GUARANTEED).gpus == speech


@pytest.mark.parametrize(("uses", "idle"), [([], 40), ([held(BETA, 10)], 30)])
def test_the_worked_numbers_of_what_is_lent(uses: list[Use], idle: int) -> None:
    rows = [row(BETA, 32, on=HERE, lends=8), row(ACME, 0, on=HERE)]
    assert idle_spot(rows, uses, idle) == 16
    assert idle_spot(rows, uses, idle, BETA) is None


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

"""Who borrows from whom: worked numbers, and sums that add up on both sides whatever the tree."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.core.borrowing import Attribution, apportion, attribute
from quotas.core.cohort import GUARANTEED, SPOT, Cohort, QuotaRow, Use

ACME, VISION, SPEECH, LAB, BETA, GAMMA = (UUID(int=number) for number in range(1, 7))
LINES = {
    ACME: (ACME,),
    VISION: (ACME, VISION),
    LAB: (ACME, VISION, LAB),
    SPEECH: (ACME, SPEECH),
    BETA: (BETA,),
    GAMMA: (GAMMA,),
}
HERE, H100 = UUID(int=99), "h100"


def row(tenant: UUID, gpus: int, lends: int | None = None) -> QuotaRow:
    return QuotaRow(tenant, H100, None, gpus, None, lending_limit=lends)


def find(
    rows: list[QuotaRow],
    spot: dict[UUID, int],
    guaranteed: dict[UUID, int] | None = None,
    unowned: int = 0,
) -> Attribution:
    uses = [Use(tenant, H100, HERE, SPOT, gpus) for tenant, gpus in spot.items()]
    uses += [
        Use(tenant, H100, HERE, GUARANTEED, gpus) for tenant, gpus in (guaranteed or {}).items()
    ]
    return attribute(Cohort(rows, LINES, uses).idle_guarantees(H100), spot, LINES, unowned)


def test_ones_own_idle_guarantee_is_not_borrowed() -> None:
    found = find([row(ACME, 16), row(VISION, 8), row(BETA, 8)], {VISION: 20}, {VISION: 2})
    one = found.borrowers[VISION]
    assert (one.own, one.unowned, one.lenders) == (14, 0, {BETA: 6})  # 6 of its own, 8 of acme's


def test_what_nobody_is_owed_goes_first_then_the_nearest_then_all_others_in_proportion() -> None:
    rows = [row(ACME, 16), row(VISION, 8), row(SPEECH, 8), row(BETA, 24), row(GAMMA, 8)]
    found = find(rows, {VISION: 8 + 4 + 8 + 16}, unowned=4)
    one = found.borrowers[VISION]
    assert (one.own, one.unowned, one.lenders) == (8, 4, {SPEECH: 8, BETA: 12, GAMMA: 4})
    assert [found.lent(tenant) for tenant in (SPEECH, BETA, GAMMA)] == [8, 12, 4]
    assert found.idle == {VISION: 8, SPEECH: 8, BETA: 24, GAMMA: 8}


def test_a_lending_limit_holds_against_others_and_not_within() -> None:
    rows = [row(ACME, 16, 4), row(VISION, 8), row(SPEECH, 8)]
    assert find(rows, {BETA: 10}).borrowers[BETA].lenders == {SPEECH: 2, VISION: 2}
    assert find(rows, {BETA: 10}).borrowers[BETA].unowned == 6  # more is used than is lent
    assert find(rows, {VISION: 16}).borrowers[VISION].lenders == {SPEECH: 8}


def test_over_use_of_a_tree_leaves_nothing_of_it_idle() -> None:
    found = find([row(ACME, 8), row(VISION, 8)], {BETA: 8}, {SPEECH: 8})
    assert (found.borrowers[BETA].lenders, found.borrowers[BETA].unowned) == ({}, 8)


small = st.integers(0, 12)


@given(small, st.lists(small, max_size=6))
def test_parts_add_up_and_none_is_above_its_weight(total: int, weights: list[int]) -> None:
    total = min(total, sum(weights))
    parts = apportion(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert 0 <= part <= weight
        assert abs(part * sum(weights) - total * weight) < sum(weights) or not sum(weights)


uses = st.dictionaries(st.sampled_from(list(LINES)), small, max_size=6)


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from(list(LINES)), st.tuples(small, st.none() | small), max_size=6),
    uses,
    uses,
    small,
)
def test_sums_add_up_on_both_sides(
    owed: dict[UUID, tuple[int, int | None]],
    spot: dict[UUID, int],
    guaranteed: dict[UUID, int],
    unowned: int,
) -> None:
    rows = [
        row(tenant, gpus, None if lends is None else min(lends, gpus))
        for tenant, (gpus, lends) in owed.items()
    ]
    found = find(rows, spot, guaranteed, unowned)
    assert found == find(rows[::-1], dict(reversed(spot.items())), guaranteed, unowned)
    assert {one.tenant: one.spot for one in found.borrowers.values()} == {
        tenant: gpus for tenant, gpus in spot.items() if gpus
    }
    for one in found.borrowers.values():
        assert one.own + one.unowned + one.borrowed == one.spot
        assert min([one.own, one.unowned, *one.lenders.values()]) >= 0
        assert not set(one.lenders) & set(LINES[one.tenant])  # nobody lends to itself
    owns = sum(one.own for one in found.borrowers.values())
    lent = sum(found.lent(tenant) for tenant in LINES)
    assert owns + lent <= sum(found.idle.values())
    for tenant, gpus in found.idle.items():
        assert found.lent(tenant) <= gpus
    for tenant, (_, lends) in owed.items():
        if lends is not None:
            below = [one for one in LINES if tenant in LINES[one]]
            out = sum(
                gpus
                for one in found.borrowers.values()
                if one.tenant not in below
                for lender, gpus in one.lenders.items()
                if lender in below
            )
            assert out <= lends

"""The mirror of a quota on a member: never stricter than what Muster may bind, and its drift."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.core.limits import LimitHolder, LimitsSeen
from quotas.core.cohort import GUARANTEED, SPOT, Cohort, Headroom, QuotaRow, Use
from quotas.core.mirror import (
    NO_BOUND,
    Charges,
    Drift,
    MirrorLine,
    Place,
    Served,
    mirror,
    most_held,
    wanted_limits,
)

ACME, VISION, SPEECH, BETA = (UUID(int=n) for n in range(1, 5))
HERE, THERE = UUID(int=101), UUID(int=102)
LINEAGES = {ACME: (ACME,), VISION: (ACME, VISION), SPEECH: (ACME, SPEECH), BETA: (BETA,)}
TENANTS = tuple(LINEAGES)
H100 = ("h100", HERE)
PLACE = Place(HERE, (Served("h100", "h100", 128),))
TYPED = frozenset({"gpu", "gpu:h100", "gpu:a100"})


def row(tenant: UUID, guaranteed: int, limit: int | None = 0, on: UUID | None = None) -> QuotaRow:
    return QuotaRow(tenant, "h100", on, guaranteed, limit)


def use(tenant: UUID, gpus: int, service_class: str = GUARANTEED, on: UUID = HERE) -> Use:
    return Use(tenant, "h100", on, service_class, gpus)


# The worked numbers of docs/explanation/quotas.md: acme keeps 24 of its 64 as headroom.
WORKED = [row(ACME, 64, 32), row(VISION, 24, 16), row(SPEECH, 16, None)]


@pytest.mark.parametrize(
    ("rows", "tenants", "uses", "expected"),
    [
        (WORKED, {VISION}, [], 24 + 24 + 16),
        (WORKED, {SPEECH}, [], 16 + 24 + 32),  # its spot is bounded by its parent's limit
        (WORKED, {VISION, SPEECH}, [], 64 + 32),
        (WORKED, {ACME}, [], 24 + 32),
        (WORKED, {BETA}, [], 0),
        ([row(ACME, 8, None)], {VISION}, [], NO_BOUND + 8),
        ([row(ACME, 64), row(ACME, 10, on=HERE)], {VISION}, [], 10),
        ([row(ACME, 64), row(ACME, 10, on=THERE)], {VISION}, [], 64),
        ([row(VISION, 6, on=HERE), row(BETA, 5)], {VISION, BETA}, [], 11),
        # Lowered below what is in use: that goes on, and nothing is added to it.
        ([row(ACME, 10, 4)], {VISION}, [use(VISION, 20)], 20 + 4),
        ([row(ACME, 10, 4)], {VISION}, [use(VISION, 9, SPOT)], 10 + 9),
        ([WORKED[0], row(VISION, 0, 0), WORKED[2]], {VISION}, [use(VISION, 30)], 30 + 18),
        # A quota that was taken away: its use goes on beside what others may have.
        ([row(BETA, 5)], {VISION, BETA}, [use(VISION, 3)], 5 + 3),
        # One over its guarantee keeps nothing from its sibling's own.
        (
            [row(ACME, 25), row(VISION, 10), row(SPEECH, 5), row(BETA, 10)],
            {VISION, SPEECH},
            [use(VISION, 14)],
            25,
        ),
    ],
)
def test_the_most_that_tenants_may_hold(
    rows: list[QuotaRow], tenants: set[UUID], uses: list[Use], expected: int
) -> None:
    assert most_held(rows, uses, LINEAGES, tenants, H100) == expected


_ROWS = st.lists(
    st.builds(
        row,
        st.sampled_from(TENANTS),
        st.integers(0, 12),
        st.none() | st.integers(0, 8),
        st.sampled_from([None, None, HERE]),
    ),
    unique_by=lambda one: (one.tenant, one.cluster),
    max_size=6,
)
_USES = st.lists(
    st.builds(
        use,
        st.sampled_from(TENANTS),
        st.integers(1, 10),
        st.sampled_from([GUARANTEED, SPOT]),
        st.sampled_from([HERE, THERE]),
    ),
    max_size=5,
)
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "fill", "fill", "end", "promote"]),
        st.builds(
            use,
            st.sampled_from(TENANTS),
            st.integers(1, 8),
            st.sampled_from([GUARANTEED, SPOT]),
            st.sampled_from([HERE, HERE, THERE]),
        ),
    ),
    max_size=25,
)


class Walk:
    """What starts, ends and is promoted by the rules, from any state, even over quota."""

    def __init__(self, rows: list[QuotaRow], held: list[Use]) -> None:
        self.cohort, self.now = Cohort(rows, LINEAGES, held), list(held)

    def room(self, one: Use) -> Headroom:
        return self.cohort.headroom(one.tenant, "h100", one.cluster, one.service_class)

    def take(self, one: Use) -> None:
        if self.room(one).holds(one.gpus):
            self.cohort.take(one)
            self.now.append(one)

    def fill(self, one: Use) -> None:
        self.take(replace(one, gpus=max(self.room(one).gpus or 0, 1)))

    def end(self, one: Use) -> None:
        for other in self.held_at(one)[:1]:
            self.cohort.give_back(other)
            self.now.remove(other)

    def promote(self, one: Use) -> None:
        for other in [held for held in self.held_at(one) if held.service_class == SPOT][:1]:
            owed = replace(other, service_class=GUARANTEED)
            if self.room(owed).holds(owed.gpus):
                self.cohort.promote(owed)
                self.now.remove(other)
                self.now.append(owed)

    def held_at(self, one: Use) -> list[Use]:
        place = one.tenant, one.cluster
        return [held for held in self.now if (held.tenant, held.cluster) == place]


@settings(max_examples=200)
@given(_ROWS, _USES, st.sets(st.sampled_from(TENANTS), min_size=1), _STEPS)
def test_a_mirror_never_holds_back_what_muster_binds(
    rows: list[QuotaRow], held: list[Use], tenants: set[UUID], steps: list[tuple[str, Use]]
) -> None:
    bound = most_held(rows, held, LINEAGES, tenants, H100)
    walk = Walk(rows, held)
    for kind, one in steps:
        getattr(walk, kind)(one)
        here = [held for held in walk.now if held.tenant in tenants and held.cluster == HERE]
        assert sum(held.gpus for held in here) <= bound


@given(_ROWS, st.sampled_from(TENANTS))
def test_what_one_tenant_may_take_as_guaranteed_is_no_more_than_the_mirror_lets_through(
    rows: list[QuotaRow], tenant: UUID
) -> None:
    """And no less, for one that takes all of it by itself."""
    rows = [one for one in rows if one.cluster is None and one.borrowing_limit == 0]
    room = Cohort(rows, LINEAGES).headroom(tenant, "h100", HERE, GUARANTEED)
    assert most_held(rows, [], LINEAGES, {tenant}, H100) == room.gpus


def test_a_cluster_limits_to_what_it_has_and_never_below_what_runs() -> None:
    small = Place(HERE, (Served("h100", "h100", 40),))
    rows = [row(ACME, 64, None)]
    assert wanted_limits([rows], [], LINEAGES, {ACME}, small, TYPED) == {"gpu:h100": 40}
    running = [use(ACME, 48)]
    assert wanted_limits([rows], running, LINEAGES, {ACME}, small, TYPED) == {"gpu:h100": 48}


def test_the_most_generous_moment_to_come_counts() -> None:
    now, later = [row(ACME, 8)], [row(ACME, 24)]
    assert wanted_limits([now, later], [], LINEAGES, {ACME}, PLACE, TYPED) == {"gpu:h100": 24}


def test_what_is_not_counted_by_type_is_limited_as_a_whole() -> None:
    both = Place(HERE, (Served("h100", "h100", 128), Served("a100", "a100", 64)))
    rows = [row(ACME, 16), QuotaRow(ACME, "a100", None, 8, 0)]
    wanted = wanted_limits([rows], [], LINEAGES, {ACME}, both, {"gpu", "gpu:h100"})
    assert wanted == {"gpu:h100": 16, "gpu": 24}
    assert wanted_limits([rows], [], LINEAGES, {ACME}, both, {"gpu"}) == {"gpu": 24}


def seen(*holders: LimitHolder) -> LimitsSeen:
    return LimitsSeen("alpha", holders, TYPED)


def look(charges: Charges, there: LimitsSeen, uses: list[Use] | None = None) -> list[MirrorLine]:
    return list(
        mirror(
            tables=[WORKED],
            uses=uses or [],
            lineages=LINEAGES,
            charges=charges,
            place=PLACE,
            seen=there,
        )
    )


def charged(**named: set[UUID]) -> Charges:
    return Charges(
        {key: frozenset(found) for key, found in named.items()}, frozenset(), frozenset()
    )


def test_drift_is_told_by_kind() -> None:
    there = seen(
        LimitHolder("root"),
        LimitHolder("top", parent="root", gpus={"gpu:h100": 48}),
        LimitHolder("vis", parent="top", gpus={"gpu:h100": 16, "gpu": 500}),
        LimitHolder("vis", user="mia", gpus={"gpu:h100": 4}),
        LimitHolder("spe", parent="top"),
        LimitHolder("other", parent="root", gpus={"gpu:h100": 1}),
    )
    lines = look(charged(vis={VISION}, spe={SPEECH}, gone={ACME}), there)
    told = [
        (one.account, one.user, one.resource, one.there, one.wanted, one.drift, one.holds_back)
        for one in lines
    ]
    assert told == [
        ("gone", "", "gpu:h100", None, 56, Drift.NO_ACCOUNT, False),
        ("spe", "", "gpu:h100", None, 72, Drift.MISSING, False),
        ("top", "", "gpu:h100", 48, None, Drift.FOREIGN, True),
        ("vis", "", "gpu", 500, None, Drift.FOREIGN, False),
        ("vis", "", "gpu:h100", 16, 64, Drift.DIFFERS, True),
        ("vis", "mia", "gpu:h100", 4, None, Drift.FOREIGN, True),
    ]
    in_step = seen(LimitHolder("vis", parent="root", gpus={"gpu:h100": 64}))
    assert [one.drift for one in look(charged(vis={VISION}), in_step)] == [Drift.NONE]


def test_tenants_of_one_account_add_up_and_so_do_accounts_below() -> None:
    there = seen(LimitHolder("top", parent="root"), LimitHolder("vis", parent="top"))
    both = look(charged(vis={VISION, SPEECH}), there)
    assert [(one.wanted, one.tenants) for one in both] == [(96, (VISION, SPEECH))]
    lines = look(charged(top={SPEECH}, vis={VISION}), there)
    assert {one.account: one.wanted for one in lines} == {"top": 96, "vis": 64}


def test_tenants_without_an_account_count_where_people_are_charged_by_default() -> None:
    there = seen(LimitHolder("vis", parent="root"), LimitHolder("spe", parent="root"))
    named = {"vis": frozenset({VISION}), "spe": frozenset({SPEECH})}
    lines = look(Charges(named, frozenset({ACME}), frozenset({"vis"})), there)
    assert {one.account: one.wanted for one in lines} == {"vis": 24 + 24 + 32, "spe": 72}


def test_a_resource_that_is_not_counted_there_cannot_be_limited() -> None:
    there = LimitsSeen("alpha", (LimitHolder("vis", parent="root"),), frozenset())
    assert [one.drift for one in look(charged(vis={VISION}), there)] == [Drift.NOT_COUNTED]

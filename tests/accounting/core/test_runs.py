"""What a told run changes: twice is once, order does not matter, nothing posted moves."""

from dataclasses import replace
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.core.runs import Known, Told, interval_id, settle

ATTEMPT = UUID(int=7)


def piece(
    start: int,
    end: int | None,
    *,
    run: int = 0,
    metered: int | None = None,
    told: int | None = None,
) -> Known:
    return Known(
        interval_id(ATTEMPT, run, start),
        run,
        start,
        end,
        start if metered is None else metered,
        told,
    )


def after(known: list[Known], run_start: int, run_end: int) -> list[Known]:
    ends = {end.id: end for end in settle(known, run_start, run_end).ends}
    return [
        replace(p, ended_ms=ends[p.id].ended_ms, reported_end_ms=ends[p.id].reported_end_ms)
        if p.id in ends
        else p
        for p in known
    ]


def test_an_unknown_run_starts() -> None:
    assert settle([], 0, None).told == Told.STARTED
    assert settle([], 0, 10).told == Told.STARTED


def test_a_requeue_is_two_runs_with_a_gap() -> None:
    assert settle([piece(0, 10, told=10)], 50, None).told == Told.STARTED


@pytest.mark.parametrize("run", [(50, None), (50, 70), (-50, None), (-50, 1)])
def test_a_run_beside_an_open_one_of_its_attempt_is_refused(run: tuple[int, int | None]) -> None:
    assert settle([piece(0, None)], *run).told == Told.REFUSED


def test_a_run_that_was_over_before_the_open_one_is_told_late() -> None:
    assert settle([piece(50, None, run=50)], 0, 50).told == Told.STARTED


@pytest.mark.parametrize("known", [piece(0, 60, told=60), piece(0, 0, told=0)])
@pytest.mark.parametrize("run", [(-45, 15), (-45, None), (20, 40), (50, 70), (-10, 90)])
def test_runs_that_overlap_as_the_clock_was_set_back_both_lasted(
    known: Known, run: tuple[int, int | None]
) -> None:
    assert settle([known], *run).told == Told.STARTED


def test_a_run_that_ends_before_it_starts_is_refused() -> None:
    assert settle([], 10, 9).told == Told.REFUSED


def test_an_end_is_not_taken_back_by_a_report_without_one() -> None:
    assert settle([piece(0, 10, told=10)], 0, None).told == Told.UNCHANGED


def test_an_earlier_end_before_posting_shortens_every_piece() -> None:
    known = [piece(0, 10, told=50), piece(10, 30, told=50), piece(30, 50, told=50)]
    changed = after(known, 0, 20)
    assert [(p.started_ms, p.ended_ms) for p in changed] == [(0, 10), (10, 20), (30, 30)]


def test_a_later_end_brings_back_what_an_earlier_one_took() -> None:
    known = [piece(0, 10, told=50), piece(10, 30, told=50), piece(30, 50, told=50)]
    assert after(after(known, 0, 20), 0, 50) == known


def test_an_end_before_what_is_posted_closes_there_and_is_due() -> None:
    known = [piece(0, None, metered=100)]
    settlement = settle(known, 0, 60)
    assert settlement.told == Told.CORRECTION_DUE
    assert [(end.ended_ms, end.reported_end_ms) for end in settlement.ends] == [(100, 60)]


CUTS = st.lists(st.integers(1, 99), max_size=4, unique=True).map(sorted)


@given(CUTS, st.integers(0, 200), st.integers(0, 200), st.data())
def test_settling_twice_is_once_and_the_last_report_tiles_the_run(
    cuts: list[int], first_end: int, last_end: int, data: st.DataObject
) -> None:
    starts = [0, *cuts]
    known = [piece(a, b) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    data.draw(st.randoms()).shuffle(known)
    settled = after(after(known, 0, first_end), 0, last_end)
    assert settle(settled, 0, last_end).told == Told.UNCHANGED
    held = sorted(
        (p.started_ms, p.ended_ms) for p in settled if p.ended_ms and p.ended_ms > p.started_ms
    )
    assert sum(end - start for start, end in held) == last_end
    assert all(left[1] == right[0] for left, right in pairwise(held))


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 150))
def test_what_is_posted_never_moves(cut: int, metered: int, end: int) -> None:
    known = [piece(0, None, metered=metered)]
    (settled,) = after(known, 0, end)
    assert settled.ended_ms == max(metered, end)
    assert settled.reported_end_ms == end


def test_ids_come_from_the_fact() -> None:
    other = uuid4()
    ids = {interval_id(ATTEMPT, 0, 0), interval_id(ATTEMPT, 0, 5), interval_id(other, 0, 0)}
    assert len(ids) == 3
    assert interval_id(ATTEMPT, 0, 0) in ids

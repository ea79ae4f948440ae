"""Ids: ordered, repeatable for facts, and fences that are legal and unique everywhere."""

import re
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kit.ids import fact_id, fence, is_fence, new_id, read_fence

SLURM_AND_KUBERNETES = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
UUIDS = st.integers(0, (1 << 128) - 1).map(lambda number: UUID(int=number))
ATTEMPTS = st.integers(1, 32_767)


def test_new_ids_are_version_7_and_ordered() -> None:
    ids = [new_id() for _ in range(1000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000
    assert {one.version for one in ids} == {7}
    assert {type(one) for one in ids} == {UUID}


@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1))
def test_the_same_fact_is_the_same_id_and_another_is_another(a: list[str], b: list[str]) -> None:
    assert fact_id(*a) == fact_id(*a)
    joined_alike = "\x1f".join(a) == "\x1f".join(b)
    assert (fact_id(*a) == fact_id(*b)) == joined_alike


@given(UUIDS, ATTEMPTS)
def test_a_fence_is_a_legal_name_everywhere(job: UUID, attempt: int) -> None:
    name = fence(job, attempt)
    assert len(name) <= 40
    assert SLURM_AND_KUBERNETES.fullmatch(name)
    assert is_fence(name)


@given(UUIDS, UUIDS, ATTEMPTS, ATTEMPTS)
def test_a_fence_tells_jobs_and_attempts_apart(a: UUID, b: UUID, i: int, j: int) -> None:
    last_60_bits = (1 << 60) - 1
    is_same = (a.int & last_60_bits, i) == (b.int & last_60_bits, j)
    assert (fence(a, i) == fence(b, j)) == is_same


@given(UUIDS, ATTEMPTS)
def test_a_fence_tells_whose_it_is(job: UUID, attempt: int) -> None:
    assert read_fence(fence(job, attempt)) == (job.int & ((1 << 60) - 1), attempt)


def test_new_jobs_never_share_a_fence() -> None:
    assert len({fence(new_id(), 1) for _ in range(10_000)}) == 10_000


def test_other_names_are_no_fences() -> None:
    mine = fence(new_id(), 12)
    others = ["", "mst-", "train", "mst-short-a1", mine + "x", "x" + mine, mine.rpartition("-a")[0]]
    assert [name for name in others if is_fence(name)] == []
    assert {read_fence(name) for name in [*others, "mst-111111111111-a1"]} == {None}

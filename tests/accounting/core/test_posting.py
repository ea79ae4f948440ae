"""The hash chain: any change of any row or of the order shows."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.core.posting import (
    GENESIS,
    Batch,
    Posting,
    record_id,
    revenue_account,
    seal,
    tenant_account,
    verify,
)


def posting(number: int) -> Posting:
    interval = UUID(int=number)
    return Posting(
        record_id=record_id(interval, 0),
        interval_id=interval,
        start_ms=0,
        end_ms=10,
        service_class="spot",
        gpus=2,
        gpu_ms=20,
        price_id=1,
        debit=tenant_account(UUID(int=1)),
        credit=revenue_account(UUID(int=2), "spot"),
        amount_nano=number,
        currency="USD",
    )


def chain(sizes: list[int]) -> list[Batch]:
    batches: list[Batch] = []
    previous, number = GENESIS, 0
    for seq, size in enumerate(sizes, start=1):
        rows = [posting(number + n) for n in range(size)]
        number += size
        batches.append(seal(seq=seq, at_ms=seq, previous_hash=previous, postings=rows))
        previous = batches[-1].hash
    return batches


@given(st.lists(st.integers(1, 4), max_size=5))
def test_an_untouched_ledger_holds(sizes: list[int]) -> None:
    assert verify(chain(sizes)) is None


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [posting(n) for n in range(5)]
    one = seal(seq=1, at_ms=1, previous_hash=GENESIS, postings=rows)
    other = seal(seq=1, at_ms=1, previous_hash=GENESIS, postings=rows[::-1])
    assert one == other


@pytest.mark.parametrize("name", [field.name for field in fields(Posting)])
def test_a_change_of_any_field_shows(name: str) -> None:
    batches = chain([2, 3, 2])
    old = getattr(batches[1].postings[0], name)
    new: Any = UUID(int=99) if isinstance(old, UUID) else old + (1 if isinstance(old, int) else "x")
    changed = replace(batches[1].postings[0], **{name: new})
    batches[1] = replace(batches[1], postings=(changed, *batches[1].postings[1:]))
    fault = verify(batches)
    assert fault is not None
    assert fault.seq == 2


TAMPERED: dict[str, tuple[Callable[[list[Batch]], list[Batch]], int]] = {
    "row removed": (lambda b: [b[0], replace(b[1], postings=b[1].postings[1:]), b[2]], 2),
    "row added": (lambda b: [b[0], replace(b[1], postings=(*b[1].postings, posting(50))), b[2]], 2),
    "batch removed": (lambda b: [b[0], b[2]], 2),
    "first removed": (lambda b: b[1:], 1),
    "swapped": (lambda b: [b[1], b[0], b[2]], 1),
    "moved in time": (lambda b: [replace(b[0], at_ms=5), *b[1:]], 1),
    "resealed alone": (
        lambda b: [
            b[0],
            seal(seq=2, at_ms=2, previous_hash=b[0].hash, postings=b[1].postings[1:]),
            b[2],
        ],
        3,
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_shows(name: str) -> None:
    tamper, seq = TAMPERED[name]
    fault = verify(tamper(chain([2, 3, 2])))
    assert fault is not None
    assert fault.seq == seq

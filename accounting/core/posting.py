"""Transfers, and the chain of hashes that makes the ledger tamper-evident.

A transfer has one amount, a debit and a credit account: it cannot be out of balance. Batches are
sealed in order; a batch's hash covers the hash before it, its own number, time and every row with
the piece of usage it is for, so no row can be changed, added or removed later without a trace.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kit.ids import fact_id

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Posting:
    """One transfer and the piece of usage it pays for. Amounts are nano-units."""

    record_id: UUID
    interval_id: UUID
    start_ms: int
    end_ms: int
    service_class: str
    gpus: int
    gpu_ms: int
    price_id: int
    debit: str
    credit: str
    amount_nano: int
    currency: str

    @property
    def transfer_id(self) -> UUID:
        """The same piece has the same transfer, so posting twice is posting once."""
        return fact_id("transfer", self.record_id)


@dataclass(frozen=True, slots=True)
class Adjusting:
    """One transfer that no metered usage is for: a correction with a cause and words why.

    Amounts are nano-units and never negative: what is given back goes the other way.
    """

    adjustment_id: UUID
    tenant: UUID
    cause: str
    why: str
    gpu_ms: int
    debit: str
    credit: str
    amount_nano: int
    currency: str

    @property
    def transfer_id(self) -> UUID:
        """The same adjustment has the same transfer, so booking twice is booking once."""
        return fact_id("transfer", "adjustment", self.adjustment_id)


@dataclass(frozen=True, slots=True)
class Batch:
    """A sealed batch: `seq` counts from 1 without a gap, `at_ms` is our clock."""

    seq: int
    at_ms: int
    previous_hash: str
    hash: str
    postings: tuple[Posting | Adjusting, ...]


@dataclass(frozen=True, slots=True)
class LedgerFault:
    """The first batch that does not hold, and why."""

    seq: int
    problem: str


def record_id(interval_id: UUID, start_ms: int) -> UUID:
    """The id of a piece of usage: the interval and where the piece begins in it."""
    return fact_id("record", interval_id, start_ms)


def tenant_account(tenant: UUID) -> str:
    """The account a tenant owes from."""
    return f"tenant:{tenant}"


def revenue_account(cluster: UUID, service_class: str) -> str:
    """The account a cluster earns on, by class."""
    return f"revenue:{cluster}:{service_class}"


def adjustments_account(cause: str) -> str:
    """The account that adjustments of a cause are booked against."""
    return f"adjustments:{cause}"


def canonical(posting: Posting | Adjusting) -> bytes:
    """The one byte string of a row: a JSON array in a fixed order, without spaces."""
    row: list[object] = [
        str(posting.transfer_id),
        posting.debit,
        posting.credit,
        posting.amount_nano,
        posting.currency,
        *(_usage(posting) if isinstance(posting, Posting) else _adjusted(posting)),
    ]
    return json.dumps(row, separators=(",", ":"), ensure_ascii=True).encode()


def _usage(posting: Posting) -> list[object]:
    return [
        str(posting.record_id),
        str(posting.interval_id),
        posting.start_ms,
        posting.end_ms,
        posting.service_class,
        posting.gpus,
        posting.gpu_ms,
        posting.price_id,
    ]


def _adjusted(row: Adjusting) -> list[object]:
    return ["adjustment", str(row.adjustment_id), str(row.tenant), row.cause, row.why, row.gpu_ms]


def seal(
    *, seq: int, at_ms: int, previous_hash: str, postings: Sequence[Posting | Adjusting]
) -> Batch:
    """The batch with its hash. The order in which rows are given does not matter."""
    ordered = tuple(sorted(postings, key=lambda posting: posting.transfer_id))
    header = json.dumps([seq, at_ms, len(ordered)], separators=(",", ":")).encode()
    state = hashlib.sha256(previous_hash.encode() + b"\n" + header)
    for posting in ordered:
        state.update(b"\n" + canonical(posting))
    return Batch(seq, at_ms, previous_hash, state.hexdigest(), ordered)


def verify(batches: Iterable[Batch]) -> LedgerFault | None:
    """The first fault of a ledger given from its first batch on, or None. Reads each batch once."""
    previous_hash, expected_seq = GENESIS, 1
    for batch in batches:
        if batch.seq != expected_seq:
            return LedgerFault(expected_seq, "the batch is missing")
        if batch.previous_hash != previous_hash:
            return LedgerFault(batch.seq, "the batch does not follow the one before it")
        resealed = seal(
            seq=batch.seq,
            at_ms=batch.at_ms,
            previous_hash=previous_hash,
            postings=batch.postings,
        )
        if resealed.hash != batch.hash:
            return LedgerFault(batch.seq, "a row was changed, added or removed after posting")
        previous_hash, expected_seq = batch.hash, batch.seq + 1
    return None

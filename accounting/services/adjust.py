"""Adjustments: counter-entries to the ledger, which itself is never changed."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounting.core.posting import (
    GENESIS,
    Adjusting,
    adjustments_account,
    seal,
    tenant_account,
)
from accounting.models import Adjustment, Batch, Transfer
from accounting.selectors.prices import DEFAULT_CURRENCY, whole_book
from accounting.services.locks import take_poster_lock
from kit.errors import InvalidContentError
from kit.intervals import to_ms
from kit.money import NANO, decimal_string
from tenancy.models import User
from tenancy.services.records import Change, write_audit, write_events

LARGEST_NANO = 9_000_000_000 * NANO


@dataclass(frozen=True, slots=True)
class Correction:
    """What is to be booked. `amount_nano` above 0 is owed by the tenant, below 0 given back."""

    tenant_id: UUID
    amount_nano: int
    currency: str
    cause: str
    why: str
    cluster_id: UUID | None = None
    job_id: UUID | None = None
    gpu_ms: int = 0


@transaction.atomic
def adjust(
    *, actor: User | None, correction: Correction, adjustment_id: UUID, now: datetime
) -> Adjustment:
    """Books an adjustment in a batch of its own; one that is booked already is returned as it is.

    Raises:
        InvalidContentError: the amount is nothing, no words say why, or the ledger has another
            currency.
    """
    take_poster_lock()
    booked = Adjustment.objects.filter(id=adjustment_id).first()
    if booked is not None:
        return booked
    _check(correction)
    adjustment = Adjustment.objects.create(
        id=adjustment_id,
        at=now,
        actor=actor,
        tenant_id=correction.tenant_id,
        cluster_id=correction.cluster_id,
        job_id=correction.job_id,
        cause=correction.cause,
        why=correction.why,
        gpu_ms=correction.gpu_ms,
    )
    _book(adjustment, correction, now)
    _tell(actor, adjustment, correction, now)
    return adjustment


def _check(correction: Correction) -> None:
    if correction.amount_nano == 0:
        raise InvalidContentError("Give an amount other than 0.", pointer="/amount")
    if abs(correction.amount_nano) > LARGEST_NANO:
        raise InvalidContentError("An adjustment is below 9 billion.", pointer="/amount")
    if not correction.why.strip():
        raise InvalidContentError("Say why: it stands in the ledger.", pointer="/why")
    currency = whole_book().currency or DEFAULT_CURRENCY
    if correction.currency != currency:
        raise InvalidContentError(f"The ledger is kept in {currency}.", pointer="/currency")


def _book(adjustment: Adjustment, correction: Correction, now: datetime) -> None:
    owed, against = tenant_account(adjustment.tenant_id), adjustments_account(adjustment.cause)
    is_owed = correction.amount_nano > 0
    row = Adjusting(
        adjustment_id=adjustment.id,
        tenant=adjustment.tenant_id,
        cause=adjustment.cause,
        why=adjustment.why,
        gpu_ms=adjustment.gpu_ms,
        debit=owed if is_owed else against,
        credit=against if is_owed else owed,
        amount_nano=abs(correction.amount_nano),
        currency=correction.currency,
    )
    last = Batch.objects.order_by("-seq").first()
    sealed = seal(
        seq=1 if last is None else last.seq + 1,
        at_ms=to_ms(now),
        previous_hash=GENESIS if last is None else last.hash,
        postings=[row],
    )
    batch = Batch.objects.create(
        seq=sealed.seq,
        at=now,
        previous_hash=sealed.previous_hash,
        hash=sealed.hash,
        rows=1,
        total_nano=row.amount_nano,
    )
    Transfer.objects.create(
        id=row.transfer_id,
        batch=batch,
        adjustment=adjustment,
        debit=row.debit,
        credit=row.credit,
        amount_nano=row.amount_nano,
        currency=row.currency,
    )


def _tell(
    actor: User | None, adjustment: Adjustment, correction: Correction, now: datetime
) -> None:
    told = {
        "tenant": str(adjustment.tenant_id),
        "amount": decimal_string(correction.amount_nano),
        "currency": correction.currency,
        "cause": adjustment.cause,
    }
    write_audit(
        actor=actor,
        action="adjust",
        object_type="adjustment",
        object_id=adjustment.id,
        after=told,
        why=adjustment.why,
        now=now,
    )
    change = Change(
        "ledger.adjusted", str(adjustment.id), adjustment.tenant_id, adjustment.cause, told
    )
    write_events(changes=[change], now=now)

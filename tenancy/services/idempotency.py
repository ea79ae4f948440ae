"""`Idempotency-Key`: one key, one answer, for 24 hours."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from kit.errors import InvalidContentError, MusterError
from tenancy.models import IdempotencyRecord, User
from tenancy.services.records import IDEMPOTENCY_LIFE

RETRY_AFTER_S = 1
LOCK_NAMESPACE = 0x6D7374  # keeps our advisory locks apart from others


class KeyReusedError(MusterError):
    """The key was used with another body."""

    code, status, title = "idempotency_key_reused", 409, "The Idempotency-Key was used before"


class KeyInFlightError(MusterError):
    """A request with this key is being answered right now."""

    code, status, title = "idempotency_in_flight", 409, "A request with this key is in flight"


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered: HTTP status and JSON body; `replayed` when it is not the first time."""

    status: int
    body: object
    replayed: bool = False


def body_digest(body: object) -> str:
    """SHA-256 of the canonical JSON of a parsed body."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _lock(user: User, route: str, key: str) -> bool:
    """Takes the key for this transaction; False when another transaction holds it."""
    name = hashlib.sha256(f"{user.pk}\x1f{route}\x1f{key}".encode()).digest()
    number = int.from_bytes(name[:8], "big", signed=True) ^ LOCK_NAMESPACE
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [number])
        row = cursor.fetchone()
    return bool(row and row[0])


def kept_answer(
    *, user: User, route: str, key: str | None, body: object, now: datetime
) -> Answer | None:
    """What was answered under the key, for requests that cost much before they act; None = nothing.

    Raises:
        InvalidContentError: the key is empty or longer than 255 characters.
        KeyReusedError: same key, other body.
    """
    if key is None:
        return None
    if not 0 < len(key) <= 255 or not key.isprintable():
        raise InvalidContentError("Idempotency-Key must be 1 to 255 printable characters.")
    record = IdempotencyRecord.objects.filter(
        user=user, route=route, key=key, created_at__gt=now - IDEMPOTENCY_LIFE
    ).first()
    if record is None:
        return None
    if record.body_digest != body_digest(body):
        raise KeyReusedError("This Idempotency-Key came before with another body.")
    return Answer(record.status, record.answer, replayed=True)


def answer_once(
    *,
    user: User,
    route: str,
    key: str | None,
    body: object,
    act: Callable[[], Answer],
    now: datetime,
) -> Answer:
    """Runs `act` in one transaction and keeps its answer under the key; later calls replay it.

    Without a key it only runs `act`, which is all or nothing by itself. The lock dies with its connection, so a
    crash between the act and the answer leaves nothing behind: neither the act nor the key.

    Raises:
        InvalidContentError: the key is empty or longer than 255 characters.
        KeyReusedError: same key, other body.
        KeyInFlightError: another request holds the key; come back in a second.
    """
    if key is None:
        return act()
    with transaction.atomic():
        if not _lock(user, route, key):
            raise KeyInFlightError(
                "Another request with this Idempotency-Key is being answered.",
                retry_after_s=RETRY_AFTER_S,
            )
        kept = kept_answer(user=user, route=route, key=key, body=body, now=now)
        if kept is not None:
            return kept
        answer = act()
        record = IdempotencyRecord(
            user=user,
            route=route,
            key=key,
            body_digest=body_digest(body),
            created_at=now,
            status=answer.status,
            answer=answer.body,
        )
        IdempotencyRecord.objects.bulk_create(  # in the place of one past its life
            [record],
            update_conflicts=True,
            unique_fields=["user", "route", "key"],
            update_fields=["body_digest", "created_at", "status", "answer"],
        )
    return answer
